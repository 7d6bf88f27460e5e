//! Operations on the documents of a collection.

use std::time::Duration;

use bson::{Bson, Document, doc};
use ringway_mongo::{
    BulkFailure, BulkWriteResult, ClientSession, Collection, DeleteResult, ReturnDocument,
    UpdateResult, WriteModel,
};

use super::super::unified::documents;
use super::settings::timeout;
use super::{Done, Stop, client_bulk};

/// What a test gives with an operation: its arguments, and the session that one of them names.
type Given<'a> = (&'a Document, Option<&'a ClientSession>);

/// Sets the options of an action that a test gives.
macro_rules! with {
    ($action:expr, $given:expr, $($option:ident),*) => {{
        let (arguments, session) = $given;
        let mut action = $action;
        if let Some(session) = session {
            action = action.session(session);
        }
        if let Some(limit) = timeout(arguments) {
            action = action.timeout(limit);
        }
        $( with!(@ action, arguments, $option); )*
        action
    }};
    (statement $action:expr, $arguments:expr, $($option:ident),*) => {{
        let mut action = $action;
        $( with!(@ action, $arguments, $option); )*
        action
    }};
    (@ $action:ident, $arguments:expr, sort) => { with!(@@ $action, $arguments, "sort", document, sort) };
    (@ $action:ident, $arguments:expr, projection) => { with!(@@ $action, $arguments, "projection", document, projection) };
    (@ $action:ident, $arguments:expr, collation) => { with!(@@ $action, $arguments, "collation", document, collation) };
    (@ $action:ident, $arguments:expr, let_vars) => { with!(@@ $action, $arguments, "let", document, let_vars) };
    (@ $action:ident, $arguments:expr, hint) => { with!(@@ $action, $arguments, "hint", any, hint) };
    (@ $action:ident, $arguments:expr, comment) => { with!(@@ $action, $arguments, "comment", any, comment) };
    (@ $action:ident, $arguments:expr, upsert) => { with!(@@ $action, $arguments, "upsert", flag, upsert) };
    (@ $action:ident, $arguments:expr, ordered) => { with!(@@ $action, $arguments, "ordered", flag, ordered) };
    (@ $action:ident, $arguments:expr, allow_disk_use) => { with!(@@ $action, $arguments, "allowDiskUse", flag, allow_disk_use) };
    (@ $action:ident, $arguments:expr, bypass) => {
        with!(@@ $action, $arguments, "bypassDocumentValidation", flag, bypass_document_validation)
    };
    (@ $action:ident, $arguments:expr, min) => { with!(@@ $action, $arguments, "min", document, min) };
    (@ $action:ident, $arguments:expr, max) => { with!(@@ $action, $arguments, "max", document, max) };
    (@ $action:ident, $arguments:expr, return_key) => { with!(@@ $action, $arguments, "returnKey", flag, return_key) };
    (@ $action:ident, $arguments:expr, show_record_id) => {
        with!(@@ $action, $arguments, "showRecordId", flag, show_record_id)
    };
    (@ $action:ident, $arguments:expr, array_filters) => {
        if let Ok(filters) = $arguments.get_array("arrayFilters") {
            let filters = filters.iter().map(|it| it.as_document().expect("a filter").clone());
            $action = $action.array_filters(filters);
        }
    };
    (@ $action:ident, $arguments:expr, max_time) => {
        with!(@@ $action, $arguments, "maxTimeMS", milliseconds, max_time)
    };
    (@ $action:ident, $arguments:expr, time_mode) => {
        if $arguments.get_str("timeoutMode").is_ok_and(|it| it == "iteration") {
            $action = $action.time_per_batch();
        }
    };
    (@ $action:ident, $arguments:expr, skip) => { with!(@@ $action, $arguments, "skip", count, skip) };
    (@ $action:ident, $arguments:expr, limit) => { with!(@@ $action, $arguments, "limit", count, limit) };
    (@ $action:ident, $arguments:expr, batch_size) => { with!(@@ $action, $arguments, "batchSize", count, batch_size) };
    (@@ $action:ident, $arguments:expr, $name:literal, $kind:ident, $option:ident) => {
        if let Some(value) = $arguments.get($name) {
            $action = $action.$option($kind(value));
        }
    };
}

fn document(value: &Bson) -> Document {
    value.as_document().expect("a document").clone()
}

fn any(value: &Bson) -> Bson {
    value.clone()
}

fn flag(value: &Bson) -> bool {
    value.as_bool().expect("a flag")
}

fn count(value: &Bson) -> u32 {
    let count = value.as_i64().or_else(|| value.as_i32().map(i64::from)).expect("a number");
    count.try_into().expect("a small number")
}

fn milliseconds(value: &Bson) -> Duration {
    Duration::from_millis(count(value).into())
}

pub(crate) async fn on_collection(
    things: &Collection<Document>,
    name: &str,
    arguments: &Document,
    session: Option<&ClientSession>,
) -> Done {
    let given = (arguments, session);
    let filter = || arguments.get_document("filter").cloned().unwrap_or_default();
    if let Some(unknown) =
        ["cursorType", "maxAwaitTimeMS"].iter().find(|it| arguments.contains_key(*it))
    {
        return Err(Stop::Missing(format!("{name} with {unknown}")));
    }
    match name {
        "find" => {
            let find = with!(
                things.find(filter()),
                given,
                sort,
                projection,
                collation,
                hint,
                let_vars,
                comment,
                allow_disk_use,
                limit,
                skip,
                batch_size,
                min,
                max,
                return_key,
                show_record_id,
                max_time,
                time_mode
            );
            array(find.await?.collect().await?)
        }
        "findOne" => {
            let find = with!(things.find_one(filter()), given, sort, projection, skip, max_time);
            Ok(find.await?.map_or(Bson::Null, Bson::from))
        }
        "aggregate" => {
            let stages = documents(arguments, "pipeline").cloned();
            let found = with!(
                things.aggregate(stages),
                given,
                collation,
                allow_disk_use,
                let_vars,
                comment,
                bypass,
                batch_size,
                max_time,
                time_mode
            );
            array(found.await?.collect().await?)
        }
        "countDocuments" => {
            let counted =
                with!(things.count_documents(filter()), given, collation, comment, skip, limit);
            Ok(number(counted.await?))
        }
        "estimatedDocumentCount" => {
            let counted = with!(things.estimated_document_count(), given, comment, max_time);
            Ok(number(counted.await?))
        }
        "distinct" => {
            let field = arguments.get_str("fieldName").expect("a field");
            let distinct = things.distinct(field, filter());
            Ok(with!(distinct, given, collation, comment, hint, max_time).await?.into())
        }
        _ => write(things, name, given).await,
    }
}

async fn write(things: &Collection<Document>, name: &str, given: Given<'_>) -> Done {
    let (arguments, _) = given;
    let filter = || arguments.get_document("filter").expect("a filter").clone();
    match name {
        "insertOne" => {
            let new = document(&arguments["document"]);
            let id = with!(things.insert_one(&new), given, comment, bypass).await?;
            Ok(doc! { "insertedId": id }.into())
        }
        "insertMany" => {
            let new: Vec<_> = documents(arguments, "documents").collect();
            let insert = things.insert_many(new);
            let done = with!(insert, given, comment, bypass, ordered).await?;
            Ok(doc! { "insertedIds": numbered(done.ids) }.into())
        }
        "updateOne" | "updateMany" => {
            let update = Update::of(&arguments["update"]);
            let update = match (name, update) {
                ("updateOne", Update::Operators(it)) => things.update_one(filter(), it),
                ("updateOne", Update::Stages(it)) => things.update_one(filter(), it),
                (_, Update::Operators(it)) => things.update_many(filter(), it),
                (_, Update::Stages(it)) => things.update_many(filter(), it),
            };
            let done = with!(
                update,
                given,
                upsert,
                sort,
                array_filters,
                collation,
                hint,
                let_vars,
                comment,
                bypass
            );
            Ok(updated(done.await?))
        }
        "replaceOne" => {
            let new = document(&arguments["replacement"]);
            let replace = things.replace_one(filter(), &new);
            let done =
                with!(replace, given, upsert, sort, collation, hint, let_vars, comment, bypass);
            Ok(updated(done.await?))
        }
        "deleteOne" | "deleteMany" => {
            let delete = match name {
                "deleteOne" => things.delete_one(filter()),
                _ => things.delete_many(filter()),
            };
            let DeleteResult { deleted, .. } =
                with!(delete, given, collation, hint, let_vars, comment).await?;
            Ok(doc! { "deletedCount": number(deleted) }.into())
        }
        "findOneAndUpdate" | "findOneAndReplace" | "findOneAndDelete" => {
            find_and_modify(things, name, given).await
        }
        "bulkWrite" => {
            let writes: Vec<_> = documents(arguments, "requests").map(model).collect();
            let write = things.bulk_write(writes);
            let done = with!(write, given, ordered, comment, let_vars, bypass).await?;
            Ok(bulk_written(&done))
        }
        other => Err(Stop::Missing(format!("Collection::{other}"))),
    }
}

async fn find_and_modify(things: &Collection<Document>, name: &str, given: Given<'_>) -> Done {
    let (arguments, _) = given;
    let filter = arguments.get_document("filter").expect("a filter").clone();
    let mut action = match name {
        "findOneAndDelete" => things.find_one_and_delete(filter),
        "findOneAndReplace" => {
            things.find_one_and_replace(filter, &document(&arguments["replacement"]))
        }
        _ => match Update::of(&arguments["update"]) {
            Update::Operators(it) => things.find_one_and_update(filter, it),
            Update::Stages(it) => things.find_one_and_update(filter, it),
        },
    };
    if let Ok(which) = arguments.get_str("returnDocument") {
        let is_after = which == "After";
        action = action.return_document(match is_after {
            true => ReturnDocument::After,
            false => ReturnDocument::Before,
        });
    }
    let found = with!(
        action,
        given,
        sort,
        projection,
        upsert,
        array_filters,
        collation,
        hint,
        let_vars,
        comment,
        bypass,
        max_time
    );
    Ok(found.await?.map_or(Bson::Null, Bson::from))
}

enum Update {
    Operators(Document),
    Stages(Vec<Document>),
}

impl Update {
    fn of(value: &Bson) -> Self {
        match value {
            Bson::Array(stages) => Self::Stages(stages.iter().map(document).collect()),
            operators => Self::Operators(document(operators)),
        }
    }
}

pub(crate) fn model(request: &Document) -> WriteModel {
    let (name, arguments) = request.iter().next().expect("a request");
    let arguments = arguments.as_document().expect("its arguments");
    let filter = || arguments.get_document("filter").expect("a filter").clone();
    let model = match &**name {
        "insertOne" => return WriteModel::insert_one(&document(&arguments["document"])),
        "updateOne" => match Update::of(&arguments["update"]) {
            Update::Operators(it) => WriteModel::update_one(filter(), it),
            Update::Stages(it) => WriteModel::update_one(filter(), it),
        },
        "updateMany" => match Update::of(&arguments["update"]) {
            Update::Operators(it) => WriteModel::update_many(filter(), it),
            Update::Stages(it) => WriteModel::update_many(filter(), it),
        },
        "replaceOne" => WriteModel::replace_one(filter(), &document(&arguments["replacement"])),
        "deleteOne" => WriteModel::delete_one(filter()),
        _ => WriteModel::delete_many(filter()),
    };
    match name.starts_with("delete") {
        true => with!(statement model, arguments, collation, hint),
        false => with!(statement model, arguments, upsert, sort, collation, hint, array_filters),
    }
}

fn array(documents: Vec<Document>) -> Done {
    Ok(documents.into_iter().map(Bson::from).collect::<Vec<_>>().into())
}

fn number(count: u64) -> Bson {
    i64::try_from(count).expect("few").into()
}

fn numbered(ids: Vec<Bson>) -> Document {
    ids.into_iter().enumerate().map(|(at, id)| (at.to_string(), id)).collect()
}

fn updated(done: UpdateResult) -> Bson {
    let mut result = doc! {
        "matchedCount": number(done.matched), "modifiedCount": number(done.modified),
        "upsertedCount": i32::from(done.upserted_id.is_some()),
    };
    if let Some(id) = done.upserted_id {
        result.insert("upsertedId", id);
    }
    result.into()
}

pub(crate) fn bulk_written(done: &BulkWriteResult) -> Bson {
    let ids = done.upserted_ids.iter().map(|(at, id)| (at.to_string(), id.clone()));
    let ids: Document = ids.collect();
    let mut written = doc! {
        "deletedCount": number(done.deleted), "insertedCount": number(done.inserted),
        "matchedCount": number(done.matched), "modifiedCount": number(done.modified),
        "upsertedCount": number(done.upserted), "upsertedIds": ids,
    };
    written.extend(client_bulk::outcomes(done));
    written.into()
}

/// What many writes had done before they failed.
pub(crate) fn partly(failure: &BulkFailure) -> Bson {
    bulk_written(&failure.result)
}
