//! `bulkWrite`, which FerretDB does not have, by the commands that it has.

use bson::{Bson, Document, doc};

use super::unified::documents;

/// Executes a `bulkWrite` write by write; `ask` has the server execute a command.
pub(crate) fn execute(
    command: &Document,
    mut ask: impl FnMut(Document) -> Option<Document>,
) -> Option<Document> {
    let flag = |name, default| command.get_bool(name).unwrap_or(default);
    let names: Vec<&str> =
        documents(command, "nsInfo").map(|info| info.get_str("ns").expect("a name")).collect();
    let (mut entries, mut counts) = (Vec::<Bson>::new(), Counts::default());
    for (at, op) in documents(command, "ops").enumerate() {
        let reply = ask(single(command, op, &names))?;
        let mut entry = entry(&reply);
        entry.insert("idx", at as i32);
        let is_error = entry.get_f64("ok").is_ok_and(|ok| ok == 0.0);
        counts.add(op, &entry, is_error);
        if is_error || !flag("errorsOnly", true) {
            entries.push(entry.into());
        }
        if is_error && flag("ordered", true) {
            break;
        }
    }
    Some(doc! {
        "cursor": { "id": 0_i64, "ns": "admin.$cmd.bulkWrite", "firstBatch": entries },
        "nErrors": counts.errors, "nInserted": counts.inserted, "nUpserted": counts.upserted,
        "nMatched": counts.matched, "nModified": counts.modified, "nDeleted": counts.deleted, "ok": 1.0,
    })
}

#[derive(Default)]
struct Counts {
    errors: i32,
    inserted: i32,
    upserted: i32,
    matched: i32,
    modified: i32,
    deleted: i32,
}

impl Counts {
    fn add(&mut self, op: &Document, entry: &Document, is_error: bool) {
        let number = |name| entry.get_i32(name).unwrap_or(0);
        let upserted = i32::from(entry.contains_key("upserted"));
        self.errors += i32::from(is_error);
        match op.keys().next().map(String::as_str) {
            Some("insert") => self.inserted += number("n"),
            Some("update") => {
                self.upserted += upserted;
                self.matched += number("n") - upserted;
                self.modified += number("nModified");
            }
            _ => self.deleted += number("n"),
        }
    }
}

/// One write as a command of its own.
fn single(command: &Document, op: &Document, names: &[&str]) -> Document {
    let (kind, at) = op.iter().next().expect("a kind");
    let name = names[usize::try_from(at.as_i32().expect("a number")).expect("not negative")];
    let (database, collection) = name.split_once('.').expect("both names");
    let mut statement = Document::new();
    for (field, value) in op.iter().skip(1) {
        match (&**kind, &**field) {
            ("insert", _) => statement = value.as_document().expect("a document").clone(),
            (_, "filter") => drop(statement.insert("q", value.clone())),
            (_, "updateMods") => drop(statement.insert("u", value.clone())),
            ("delete", "multi") => {
                drop(statement.insert("limit", i32::from(value == &Bson::Boolean(false))));
            }
            _ => drop(statement.insert(field, value.clone())),
        }
    }
    let list = match &**kind {
        "insert" => "documents",
        "update" => "updates",
        _ => "deletes",
    };
    let mut single = doc! { kind: collection, list: [statement], "$db": database };
    for option in ["let", "comment", "bypassDocumentValidation"] {
        single.extend(command.get(option).map(|value| (option.to_owned(), value.clone())));
    }
    single
}

/// What becomes of a write, by the reply to its command.
fn entry(reply: &Document) -> Document {
    let failed = |error: &Document| {
        let field = |name| error.get(name).cloned().unwrap_or(Bson::Null);
        doc! { "ok": 0.0, "code": field("code"), "errmsg": field("errmsg"), "n": 0, "nModified": 0 }
    };
    if !reply.get_f64("ok").is_ok_and(|ok| ok == 1.0) {
        return failed(reply);
    }
    if let Some(error) = documents(reply, "writeErrors").next() {
        return failed(error);
    }
    let number = |name| reply.get_i32(name).unwrap_or(0);
    let mut entry = doc! { "ok": 1.0, "n": number("n"), "nModified": number("nModified") };
    if let Some(upserted) = documents(reply, "upserted").next() {
        entry.insert("upserted", doc! { "_id": upserted.get("_id").cloned() });
    }
    entry
}
