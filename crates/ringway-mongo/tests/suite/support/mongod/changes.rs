//! Change streams of the double.

use bson::{Bson, Document, Timestamp, doc};

use super::super::unified::documents;
use super::data::{Change, Data, Refused, refused};
use super::query;

/// All changes, in their order. The position of one is its number from 1, which is also its time.
#[derive(Default)]
pub(super) struct Log(Vec<Logged>);

struct Logged {
    change: Change,
    has_images: bool,
}

/// A change stream.
pub(super) struct Stream {
    database: String,
    /// `None` for all of the database.
    collection: Option<String>,
    is_of_cluster: bool,
    options: Document,
    stages: Vec<Document>,
    /// How many changes it has passed.
    at: usize,
    invalidated: bool,
}

const TOKEN_OF_INVALIDATE: &str = "invalidate";

impl Log {
    pub(super) fn add(&mut self, data: &mut Data) {
        for change in std::mem::take(&mut data.changes) {
            let has_images = data.has_images(&change.namespace);
            self.0.push(Logged { change, has_images });
        }
    }

    /// The time of the last change.
    pub(super) fn now(&self) -> Timestamp {
        time(self.0.len().max(1))
    }
}

fn time(number: usize) -> Timestamp {
    Timestamp { time: 1, increment: u32::try_from(number).expect("few") }
}

fn token(number: usize) -> Document {
    doc! { "_data": number.to_string() }
}

impl Stream {
    /// Opens a stream by its `aggregate`; `None` if it is no stream.
    pub(super) fn open(log: &Log, body: &Document) -> Option<Result<Self, Refused>> {
        let mut stages = documents(body, "pipeline");
        let options = stages.next()?.get_document("$changeStream").ok()?.clone();
        let mut stream = Self {
            database: body.get_str("$db").expect("a database").to_owned(),
            collection: body.get_str("aggregate").ok().map(str::to_owned),
            is_of_cluster: options.get_bool("allChangesForCluster").unwrap_or_default(),
            options,
            stages: stages.cloned().collect(),
            at: log.0.len(),
            invalidated: false,
        };
        for name in ["resumeAfter", "startAfter"] {
            let Ok(token) = stream.options.get_document(name) else { continue };
            let data = token.get_str("_data").expect("a token of ours");
            let (number, rest) = data.split_once(' ').unwrap_or((data, ""));
            if rest == TOKEN_OF_INVALIDATE && name == "resumeAfter" {
                let why = "a stream goes on behind its end by startAfter only";
                return Some(Err(refused(260, "InvalidResumeToken", why)));
            }
            stream.at = number.parse().expect("a number");
        }
        if let Ok(time) = stream.options.get_timestamp("startAtOperationTime") {
            stream.at = (time.increment as usize).saturating_sub(1).min(log.0.len());
        }
        let known = |stage: &Document| query::pass_name(stage);
        match stream.stages.iter().find_map(|stage| known(stage).err()) {
            Some(error) => Some(Err(error)),
            None => Some(Ok(stream)),
        }
    }

    /// The changes that are there, and the token behind them.
    ///
    /// # Errors
    /// That of the server, when it shall show what it has not.
    pub(super) fn next(
        &mut self,
        log: &Log,
        most: usize,
    ) -> Result<(Vec<Document>, Document), Refused> {
        let (mut found, mut end) = (Vec::new(), None);
        while found.len() < most && !self.invalidated && end.is_none() {
            let Some(logged) = log.0.get(self.at) else { break };
            let kind = logged.change.event.get_str("operationType").expect("a kind");
            if self.is_watched(logged) {
                let event = self.show(logged, self.at + 1)?;
                found.extend(self.pass(event, self.at + 1)?);
                let is_over = self.collection.is_some() && ["drop", "rename"].contains(&kind);
                end = is_over.then_some(self.at + 1);
            }
            self.at += 1;
        }
        if let Some(number) = end {
            self.invalidated = true;
            let id = doc! { "_data": format!("{number} {TOKEN_OF_INVALIDATE}") };
            let time = time(number);
            found.push(
                doc! { "_id": id.clone(), "operationType": "invalidate", "clusterTime": time },
            );
            return Ok((found, id));
        }
        Ok((found, token(self.at)))
    }

    pub(super) fn namespace(&self) -> String {
        format!("{}.{}", self.database, self.collection.as_deref().unwrap_or("$cmd.aggregate"))
    }

    pub(super) fn is_over(&self) -> bool {
        self.invalidated
    }

    fn is_watched(&self, logged: &Logged) -> bool {
        let namespace = &logged.change.namespace;
        let (database, collection) = namespace.split_once('.').expect("both names");
        let is_there = self.is_of_cluster
            || database == self.database
                && self.collection.as_ref().is_none_or(|it| it == collection);
        let kind = logged.change.event.get_str("operationType").expect("a kind");
        let is_expanded = ["create", "createIndexes", "dropIndexes", "modify"].contains(&kind);
        is_there && (!is_expanded || self.is_expanded())
    }

    fn is_expanded(&self) -> bool {
        self.options.get_bool("showExpandedEvents").unwrap_or_default()
    }

    fn show(&self, logged: &Logged, number: usize) -> Result<Document, Refused> {
        let Change { namespace, event, before, after } = &logged.change;
        let (database, collection) = namespace.split_once('.').expect("both names");
        let mut shown = doc! { "_id": token(number) };
        shown.extend(event.clone());
        shown.insert("clusterTime", time(number));
        shown.insert("wallTime", bson::DateTime::from_millis(number as i64));
        shown.insert("ns", doc! { "db": database, "coll": collection });
        if self.is_expanded() {
            let id = bson::Uuid::from_bytes([7; 16]);
            shown.insert("collectionUUID", id);
            let mut description = doc! { "dropTarget": bson::Bson::Null };
            description.extend(event.get("to").map(|to| ("to".to_owned(), to.clone())));
            shown.insert("operationDescription", description);
            shown.insert("nsType", "collection");
        }
        let one = after.as_ref().or(before.as_ref());
        if let Some(id) = one.and_then(|one| one.get("_id")) {
            shown.insert("documentKey", doc! { "_id": id.clone() });
        }
        let mode = |name| self.options.get_str(name).unwrap_or("off");
        let kind = event.get_str("operationType").expect("a kind");
        let image = |document: &Option<Document>, mode: &str| match (mode, document) {
            (_, Some(document)) if logged.has_images => Ok(Bson::from(document.clone())),
            ("required", _) => Err(refused(286, "NoMatchingDocument", "there is no image")),
            _ => Ok(Bson::Null),
        };
        match (kind, mode("fullDocument")) {
            ("insert" | "replace", _) | ("update", "updateLookup") => {
                shown.insert("fullDocument", after.clone());
            }
            ("update", mode @ ("whenAvailable" | "required")) => {
                shown.insert("fullDocument", image(after, mode)?);
            }
            _ => {}
        }
        let shows_before = ["update", "replace", "delete"].contains(&kind);
        let mode = mode("fullDocumentBeforeChange");
        if shows_before && mode != "off" {
            shown.insert("fullDocumentBeforeChange", image(before, mode)?);
        }
        Ok(shown)
    }

    /// Passes a change through the further stages.
    fn pass(&self, event: Document, number: usize) -> Result<Option<Document>, Refused> {
        let mut events = vec![event];
        for stage in &self.stages {
            let (kind, value) = stage.iter().next().expect("a stage has a name");
            query::pass(kind, value, &mut events)?;
        }
        let passed = events.pop();
        let own = Bson::from(token(number));
        if passed.as_ref().is_some_and(|it| it.get("_id") != Some(&own)) {
            let why = "Encountered an event whose _id field, which contains the resume token, was modified by the pipeline";
            let mut error = refused(280, "ChangeStreamFatalError", why);
            error.insert("errorLabels", ["NonResumableChangeStreamError"]);
            return Err(error);
        }
        Ok(passed)
    }
}
