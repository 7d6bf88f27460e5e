//! Many writes to several collections at once.

use bson::{Bson, Document};
use ringway_mongo::{Client, ClientSession, NamespacedWrite};

use super::super::unified::documents;
use super::{Done, Stop, crud, has_only, settings};

pub(crate) async fn run(
    client: &Client,
    arguments: &Document,
    session: Option<&ClientSession>,
) -> Done {
    let known = [
        "models",
        "ordered",
        "verboseResults",
        "bypassDocumentValidation",
        "let",
        "comment",
        "writeConcern",
        "session",
    ];
    has_only("clientBulkWrite", arguments, &known)?;
    let writes: Vec<_> = documents(arguments, "models").map(|it| model(client, it)).collect();
    let mut write = client.bulk_write(writes);
    let flag = |name| arguments.get_bool(name).ok();
    if let Some(is_ordered) = flag("ordered") {
        write = write.ordered(is_ordered);
    }
    if let Some(is_verbose) = flag("verboseResults") {
        write = write.verbose_results(is_verbose);
    }
    if let Some(is_bypassed) = flag("bypassDocumentValidation") {
        write = write.bypass_document_validation(is_bypassed);
    }
    if let Ok(variables) = arguments.get_document("let") {
        write = write.let_vars(variables.clone());
    }
    if let Some(comment) = arguments.get("comment") {
        write = write.comment(comment.clone());
    }
    if let Ok(concern) = arguments.get_document("writeConcern") {
        let concern = settings::write_concern(concern)
            .map_err(|_| Stop::Missing(format!("a write concern {concern}")))?;
        write = write.write_concern(&concern);
    }
    if let Some(session) = session {
        write = write.session(session);
    }
    Ok(crud::bulk_written(&write.await?))
}

fn model(client: &Client, request: &Document) -> NamespacedWrite {
    let (_, arguments) = request.iter().next().expect("a request");
    let arguments = arguments.as_document().expect("its arguments");
    let namespace = arguments.get_str("namespace").expect("a name");
    let (database, collection) = namespace.split_once('.').expect("both names");
    let things = client.database(database).collection::<Document>(collection);
    things.model(crud::model(request))
}

/// What each write has done, by its kind and its number.
pub(crate) fn outcomes(done: &ringway_mongo::BulkWriteResult) -> [(String, Bson); 3] {
    use ringway_mongo::WriteOutcome;
    let (mut inserted, mut updated, mut deleted) =
        (Document::new(), Document::new(), Document::new());
    for (at, outcome) in &done.outcomes {
        let at = at.to_string();
        match outcome {
            WriteOutcome::Inserted { id } => {
                inserted.insert(at, bson::doc! { "insertedId": id.clone() });
            }
            WriteOutcome::Updated { matched, modified, upserted_id } => {
                let mut result = bson::doc! {
                    "matchedCount": *matched as i64, "modifiedCount": *modified as i64,
                };
                upserted_id.iter().for_each(|id| drop(result.insert("upsertedId", id.clone())));
                updated.insert(at, result);
            }
            WriteOutcome::Deleted { deleted: count } => {
                deleted.insert(at, bson::doc! { "deletedCount": *count as i64 });
            }
            other => panic!("unknown outcome {other:?}"),
        }
    }
    [("insertResults", inserted), ("updateResults", updated), ("deleteResults", deleted)]
        .map(|(name, results)| (name.to_owned(), results.into()))
}
