//! The documents of the double, and the commands that read and write them.

use std::collections::BTreeMap;

use bson::{Bson, Document, doc};

use super::super::bulk_double;
use super::super::unified::documents;
use super::query::{self, matches, sorted};

/// An error as a server tells it.
pub(super) type Refused = Document;

pub(super) fn refused(code: i32, name: &str, why: &str) -> Refused {
    doc! { "ok": 0.0, "code": code, "codeName": name, "errmsg": why }
}

/// What a command has come to.
pub(super) enum Done {
    Reply(Document),
    Cursor { namespace: String, documents: Vec<Document> },
}

/// Something that has changed, for those who watch.
#[derive(Clone)]
pub(super) struct Change {
    pub(super) namespace: String,
    /// `operationType` and what belongs to it.
    pub(super) event: Document,
    pub(super) before: Option<Document>,
    pub(super) after: Option<Document>,
}

/// All collections, by `database.collection`.
#[derive(Clone, Default)]
pub(super) struct Data {
    collections: BTreeMap<String, Things>,
    /// What the last commands have changed.
    pub(super) changes: Vec<Change>,
}

#[derive(Clone, Default)]
struct Things {
    documents: Vec<Document>,
    indexes: Vec<Document>,
    options: Document,
}

impl Data {
    pub(super) fn execute(&mut self, body: &Document) -> Result<Done, Refused> {
        let (name, value) = body.iter().next().expect("a command has a name");
        let database = body.get_str("$db").expect("a database");
        let namespace = format!("{database}.{}", value.as_str().unwrap_or("$cmd.aggregate"));
        let reply = match &**name {
            "ping" => doc! {},
            "find" => return self.find(namespace, body),
            "aggregate" => return self.aggregate(namespace, body),
            "insert" => self.write(&namespace, body, "documents", Self::insert),
            "update" => self.write(&namespace, body, "updates", Self::update),
            "delete" => self.write(&namespace, body, "deletes", Self::delete),
            "bulkWrite" => return Ok(Done::Reply(self.bulk_write(body))),
            "findAndModify" => self.find_and_modify(&namespace, body)?,
            "count" => doc! { "n": self.found(&namespace, body, "query")?.len() as i32 },
            "distinct" => self.distinct(&namespace, body)?,
            _ => return self.manage(name, database, namespace, body),
        };
        Ok(Done::Reply(proper(reply)))
    }

    fn manage(
        &mut self,
        name: &str,
        database: &str,
        namespace: String,
        body: &Document,
    ) -> Result<Done, Refused> {
        let reply = match name {
            "create" => {
                if self.collections.contains_key(&namespace) {
                    return Err(refused(48, "NamespaceExists", "the collection exists"));
                }
                let is_option = |(name, _): &(String, Bson)| {
                    !["create", "lsid"].contains(&&**name) && !name.starts_with('$')
                };
                let mut options: Document = body.clone().into_iter().filter(is_option).collect();
                if let Ok(index) = options.get_document_mut("clusteredIndex") {
                    index.insert("v", 2);
                }
                self.create(&namespace, options);
                doc! {}
            }
            "drop" => {
                if self.collections.remove(&namespace).is_none() {
                    return Err(refused(26, "NamespaceNotFound", "ns not found"));
                }
                self.note(&namespace, doc! { "operationType": "drop" }, None, None);
                doc! {}
            }
            "renameCollection" => self.rename(body)?,
            "collMod" => {
                let things = self.collections.entry(namespace.clone()).or_default();
                things.options.extend(body.clone());
                self.note(&namespace, doc! { "operationType": "modify" }, None, None);
                doc! {}
            }
            "createIndexes" => self.create_indexes(&namespace, body),
            "dropIndexes" => self.drop_indexes(&namespace, body)?,
            "listIndexes" => {
                let Some(things) = self.collections.get(&namespace) else {
                    return Err(refused(26, "NamespaceNotFound", "ns does not exist"));
                };
                let clustered = things.options.get_document("clusteredIndex");
                let mut first = doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_" };
                if let Ok(clustered) = clustered {
                    first.extend(clustered.clone());
                    first.insert("clustered", true);
                }
                let documents = std::iter::once(first).chain(things.indexes.clone()).collect();
                return Ok(Done::Cursor { namespace, documents });
            }
            "listCollections" => {
                let documents = self.listed(database, body)?;
                let namespace = format!("{database}.$cmd.listCollections");
                return Ok(Done::Cursor { namespace, documents });
            }
            "listDatabases" => {
                let names = self.collections.keys().filter_map(|it| it.split('.').next());
                let names: std::collections::BTreeSet<_> = names.collect();
                let all: Vec<_> = names.into_iter().map(|name| doc! { "name": name }).collect();
                doc! { "databases": all }
            }
            "hello" | "isMaster" | "ismaster" | "buildInfo" | "killAllSessions" => doc! {},
            "endSessions" => doc! {},
            "checkMetadataConsistency" => {
                return Ok(Done::Cursor { namespace, documents: Vec::new() });
            }
            other => {
                return Err(refused(59, "CommandNotFound", &format!("no such command: '{other}'")));
            }
        };
        Ok(Done::Reply(proper(reply)))
    }

    fn note(
        &mut self,
        namespace: &str,
        event: Document,
        before: Option<Document>,
        after: Option<Document>,
    ) {
        self.changes.push(Change { namespace: namespace.to_owned(), event, before, after });
    }

    /// Whether those who watch are shown what a document was before.
    pub(super) fn has_images(&self, namespace: &str) -> bool {
        let options = self.collections.get(namespace).map(|things| &things.options);
        let images = options.and_then(|it| it.get_document("changeStreamPreAndPostImages").ok());
        images.is_some_and(|images| images.get_bool("enabled").unwrap_or_default())
    }

    fn create(&mut self, namespace: &str, options: Document) {
        let things = Things { options, ..Things::default() };
        self.collections.insert(namespace.to_owned(), things);
        self.note(namespace, doc! { "operationType": "create" }, None, None);
    }

    /// Does what a transaction has done.
    pub(super) fn apply(&mut self, change: Change) {
        let things = self.collections.entry(change.namespace.clone()).or_default();
        let one = change.after.as_ref().or(change.before.as_ref());
        if let Some(id) = one.and_then(|one| one.get("_id")) {
            let at = things.documents.iter().position(|it| it.get("_id") == Some(id));
            match (at, &change.after) {
                (Some(at), Some(after)) => things.documents[at] = after.clone(),
                (Some(at), None) => drop(things.documents.remove(at)),
                (None, after) => things.documents.extend(after.clone()),
            }
        }
        self.changes.push(change);
    }

    fn found(
        &self,
        namespace: &str,
        body: &Document,
        filter: &str,
    ) -> Result<Vec<Document>, Refused> {
        let nothing = Document::new();
        let filter = body.get_document(filter).unwrap_or(&nothing);
        query::check(filter)?;
        let all = self.collections.get(namespace).map_or(&[][..], |things| &things.documents);
        Ok(all.iter().filter(|it| matches(it, filter)).cloned().collect())
    }

    fn find(&self, namespace: String, body: &Document) -> Result<Done, Refused> {
        let mut found = self.found(&namespace, body, "filter")?;
        sorted(&mut found, body.get_document("sort").ok());
        let number = |name| body.get(name).map_or(0, query::whole).unsigned_abs();
        let (skip, limit) = (number("skip"), number("limit"));
        let limit = if limit == 0 { usize::MAX } else { usize::try_from(limit).expect("few") };
        let found = found.into_iter().skip(usize::try_from(skip).expect("few")).take(limit);
        let projection = body.get_document("projection").ok();
        let documents = found.map(|it| query::projected(it, projection)).collect();
        Ok(Done::Cursor { namespace, documents })
    }

    fn aggregate(&mut self, namespace: String, body: &Document) -> Result<Done, Refused> {
        let database = body.get_str("$db").expect("a database");
        let mut found = self.found(&namespace, body, "no filter")?;
        for stage in documents(body, "pipeline") {
            let (kind, value) = stage.iter().next().expect("a stage has a name");
            match (&**kind, value) {
                ("$out" | "$merge", place) => {
                    let into = place.as_document().and_then(|place| place.get_str("into").ok());
                    let name = place.as_str().or(into).expect("a collection");
                    let target = self.collections.entry(format!("{database}.{name}")).or_default();
                    target.documents = std::mem::take(&mut found);
                }
                (kind, value) => query::pass(kind, value, &mut found)?,
            }
        }
        Ok(Done::Cursor { namespace, documents: found })
    }

    fn distinct(&self, namespace: &str, body: &Document) -> Result<Document, Refused> {
        let key = body.get_str("key").expect("a key");
        let mut values: Vec<Bson> = Vec::new();
        for document in self.found(namespace, body, "query")? {
            let value = document.get(key).filter(|value| !values.contains(value));
            values.extend(value.cloned());
        }
        Ok(doc! { "values": values })
    }

    /// Runs each write of a command, and counts.
    fn write(
        &mut self,
        namespace: &str,
        body: &Document,
        list: &str,
        one: fn(&mut Self, &str, &Document) -> Result<Count, Refused>,
    ) -> Document {
        let (mut total, mut errors, mut upserted) = (Count::default(), Vec::new(), Vec::new());
        for (at, statement) in documents(body, list).enumerate() {
            match one(self, namespace, statement) {
                Ok(count) => {
                    (total.n, total.modified) =
                        (total.n + count.n, total.modified + count.modified);
                    let entry = |id| doc! { "index": at as i32, "_id": id };
                    upserted.extend(count.upserted.map(entry));
                }
                Err(mut error) => {
                    error.insert("index", at as i32);
                    errors.push(error);
                    if body.get_bool("ordered").unwrap_or(true) {
                        break;
                    }
                }
            }
        }
        let mut reply = doc! { "n": total.n };
        if list == "updates" {
            reply.insert("nModified", total.modified);
        }
        if !upserted.is_empty() {
            reply.insert("upserted", upserted);
        }
        if !errors.is_empty() {
            reply.insert("writeErrors", errors);
        }
        reply
    }

    fn insert(&mut self, namespace: &str, new: &Document) -> Result<Count, Refused> {
        if !self.collections.contains_key(namespace) {
            self.create(namespace, Document::new());
        }
        let things = self.collections.get_mut(namespace).expect("it was made");
        // A series has no keys.
        let is_series = things.options.contains_key("timeseries");
        let is_there =
            || things.documents.iter().any(|it| query::same(it.get("_id"), new.get("_id")));
        if !is_series && is_there() {
            return Err(refused(11000, "DuplicateKey", "E11000 duplicate key error"));
        }
        things.documents.push(new.clone());
        self.note(namespace, doc! { "operationType": "insert" }, None, Some(new.clone()));
        Ok(Count { n: 1, ..Count::default() })
    }

    fn update(&mut self, namespace: &str, statement: &Document) -> Result<Count, Refused> {
        let filter = statement.get_document("q").expect("a filter");
        query::check(filter)?;
        let is_multi = statement.get_bool("multi").unwrap_or_default();
        let mut count = Count::default();
        let order = statement.get_document("sort").ok();
        for at in self.places(namespace, filter, order, is_multi) {
            let old = self.collections[namespace].documents[at].clone();
            let new = query::updated(old.clone(), &statement["u"], false)?;
            count.n += 1;
            if new != old {
                count.modified += 1;
                self.replace(namespace, at, &statement["u"], new);
            }
        }
        if count.n == 0 && statement.get_bool("upsert").unwrap_or_default() {
            let id = self.upsert(namespace, filter, &statement["u"])?;
            count = Count { n: 1, modified: 0, upserted: id.get("_id").cloned() };
        }
        Ok(count)
    }

    fn delete(&mut self, namespace: &str, statement: &Document) -> Result<Count, Refused> {
        let filter = statement.get_document("q").expect("a filter");
        query::check(filter)?;
        let is_multi = statement.get("limit").map_or(0, query::whole) == 0;
        let places = self.places(namespace, filter, None, is_multi);
        for at in places.iter().rev() {
            self.remove(namespace, *at);
        }
        Ok(Count { n: places.len() as i32, ..Count::default() })
    }

    fn find_and_modify(&mut self, namespace: &str, body: &Document) -> Result<Document, Refused> {
        let nothing = Document::new();
        let filter = body.get_document("query").unwrap_or(&nothing);
        query::check(filter)?;
        let flag = |name| body.get_bool(name).unwrap_or_default();
        let order = body.get_document("sort").ok();
        let (old, new) = match self.places(namespace, filter, order, false).first() {
            Some(at) if flag("remove") => (Some(self.remove(namespace, *at)), None),
            Some(at) => {
                let old = self.collections[namespace].documents[*at].clone();
                let new = query::updated(old.clone(), &body["update"], false)?;
                self.replace(namespace, *at, &body["update"], new.clone());
                (Some(old), Some(new))
            }
            None if flag("upsert") => {
                (None, Some(self.upsert(namespace, filter, &body["update"])?))
            }
            None => (None, None),
        };
        let shown = if flag("new") { new } else { old };
        let shown = shown.map(|it| query::projected(it, body.get_document("fields").ok()));
        Ok(doc! { "value": shown.map_or(Bson::Null, Bson::from) })
    }

    fn places(
        &self,
        namespace: &str,
        filter: &Document,
        order: Option<&Document>,
        is_multi: bool,
    ) -> Vec<usize> {
        let all = self.collections.get(namespace).map_or(&[][..], |things| &things.documents);
        let mut found: Vec<_> = all.iter().filter(|it| matches(it, filter)).cloned().collect();
        sorted(&mut found, order);
        found.truncate(if is_multi { usize::MAX } else { 1 });
        let place = |document: Document| all.iter().position(|it| *it == document);
        let mut places: Vec<_> = found.into_iter().filter_map(place).collect();
        places.sort_unstable();
        places
    }

    fn replace(&mut self, namespace: &str, at: usize, update: &Bson, new: Document) {
        let things = self.collections.get_mut(namespace).expect("it has the document");
        let old = std::mem::replace(&mut things.documents[at], new.clone());
        let event = query::update_event(update, &old, &new);
        self.note(namespace, event, Some(old), Some(new));
    }

    fn remove(&mut self, namespace: &str, at: usize) -> Document {
        let things = self.collections.get_mut(namespace).expect("it has the document");
        let old = things.documents.remove(at);
        self.note(namespace, doc! { "operationType": "delete" }, Some(old.clone()), None);
        old
    }

    fn upsert(
        &mut self,
        namespace: &str,
        filter: &Document,
        update: &Bson,
    ) -> Result<Document, Refused> {
        let is_value = |value: &Bson| {
            value.as_document().is_none_or(|it| !it.keys().any(|key| key.starts_with('$')))
        };
        let fields = filter.iter().filter(|(_, value)| is_value(value));
        let mut new: Document = fields.map(|(key, value)| (key.clone(), value.clone())).collect();
        if let Some(id) = update.as_document().and_then(|update| update.get("_id")) {
            new.insert("_id", id.clone());
        }
        if !new.contains_key("_id") {
            new.insert("_id", bson::oid::ObjectId::new());
        }
        let new = query::updated(new, update, true)?;
        self.insert(namespace, &new)?;
        Ok(new)
    }

    fn bulk_write(&mut self, body: &Document) -> Document {
        let done = bulk_double::execute(body, |single| match self.execute(&single) {
            Ok(Done::Reply(reply)) => Some(reply),
            Ok(Done::Cursor { .. }) => None,
            Err(error) => Some(error),
        });
        done.expect("writes only")
    }

    fn rename(&mut self, body: &Document) -> Result<Document, Refused> {
        let text = |name| body.get_str(name).expect("a namespace");
        let (from, to) = (text("renameCollection"), text("to"));
        let Some(things) = self.collections.remove(from) else {
            return Err(refused(26, "NamespaceNotFound", "the source does not exist"));
        };
        self.collections.insert(to.to_owned(), things);
        let (database, collection) = to.split_once('.').expect("both names");
        let event =
            doc! { "operationType": "rename", "to": { "db": database, "coll": collection } };
        self.note(from, event, None, None);
        Ok(doc! {})
    }

    fn create_indexes(&mut self, namespace: &str, body: &Document) -> Document {
        if !self.collections.contains_key(namespace) {
            self.create(namespace, Document::new());
        }
        let things = self.collections.get_mut(namespace).expect("it was made");
        for index in documents(body, "indexes") {
            let mut index = index.clone();
            index.insert("v", 2);
            things.indexes.push(index);
        }
        self.note(namespace, doc! { "operationType": "createIndexes" }, None, None);
        doc! {}
    }

    fn drop_indexes(&mut self, namespace: &str, body: &Document) -> Result<Document, Refused> {
        let Some(things) = self.collections.get_mut(namespace) else {
            return Err(refused(26, "NamespaceNotFound", "ns not found"));
        };
        let name = body.get_str("index").unwrap_or("*");
        things
            .indexes
            .retain(|index| name != "*" && index.get_str("name").is_ok_and(|it| it != name));
        self.note(namespace, doc! { "operationType": "dropIndexes" }, None, None);
        Ok(doc! {})
    }

    fn listed(&self, database: &str, body: &Document) -> Result<Vec<Document>, Refused> {
        let nothing = Document::new();
        let filter = body.get_document("filter").unwrap_or(&nothing);
        query::check(filter)?;
        let entry = |(namespace, things): (&String, &Things)| {
            let (its, name) = namespace.split_once('.').expect("both names");
            let entry =
                doc! { "name": name, "type": "collection", "options": things.options.clone() };
            (its == database).then_some(entry)
        };
        let entries = self.collections.iter().filter_map(entry);
        Ok(entries.filter(|entry| matches(entry, filter)).collect())
    }
}

#[derive(Default)]
struct Count {
    n: i32,
    modified: i32,
    upserted: Option<Bson>,
}

fn proper(mut reply: Document) -> Document {
    reply.insert("ok", 1.0);
    reply
}
