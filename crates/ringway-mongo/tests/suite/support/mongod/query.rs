//! The part of the query language that the specifications' tests use.

use std::cmp::Ordering;

use bson::{Bson, Document, doc};

use super::data::{Refused, refused};

/// Refuses what is no filter.
pub(super) fn check(filter: &Document) -> Result<(), Refused> {
    let is_unknown = |value: &Bson| {
        let operators = value.as_document().filter(|it| has_operators(it));
        operators.is_some_and(|it| it.keys().any(|key| !OPERATORS.contains(&&**key)))
    };
    let wrong = |(key, value): &(&String, &Bson)| match &***key {
        "$or" | "$and" => value.as_array().is_none(),
        key => key.starts_with('$') || is_unknown(value),
    };
    match filter.iter().find(wrong) {
        None => Ok(()),
        Some((key, _)) => {
            Err(refused(2, "BadValue", &format!("unknown or malformed operator: {key}")))
        }
    }
}

const OPERATORS: [&str; 10] =
    ["$gt", "$gte", "$lt", "$lte", "$eq", "$ne", "$in", "$nin", "$exists", "$type"];

pub(super) fn matches(document: &Document, filter: &Document) -> bool {
    filter.iter().all(|(key, wanted)| {
        let parts = || wanted.as_array().into_iter().flatten().filter_map(Bson::as_document);
        match &**key {
            "$or" => parts().any(|part| matches(document, part)),
            "$and" => parts().all(|part| matches(document, part)),
            key => fits(at_path(document, key), wanted),
        }
    })
}

fn fits(value: Option<&Bson>, wanted: &Bson) -> bool {
    let Some(operators) = wanted.as_document().filter(|it| has_operators(it)) else {
        return same(value, Some(wanted)) || value.is_none() && *wanted == Bson::Null;
    };
    operators.iter().all(|(operator, wanted)| {
        let order = value.and_then(|value| compare(value, wanted));
        let is_one_of = |list: &Bson| {
            list.as_array().into_iter().flatten().any(|wanted| same(value, Some(wanted)))
        };
        match &**operator {
            "$gt" => order == Some(Ordering::Greater),
            "$gte" => order.is_some_and(Ordering::is_ge),
            "$lt" => order == Some(Ordering::Less),
            "$lte" => order.is_some_and(Ordering::is_le),
            "$eq" => same(value, Some(wanted)),
            "$ne" => !same(value, Some(wanted)),
            "$in" => is_one_of(wanted),
            "$nin" => !is_one_of(wanted),
            "$exists" => value.is_some() == (*wanted != Bson::Boolean(false)),
            // Of types, `null` is asked for.
            "$type" => value == Some(&Bson::Null) && wanted.as_str() == Some("null"),
            other => unreachable!("{other} was refused"),
        }
    })
}

fn has_operators(value: &Document) -> bool {
    value.keys().next().is_some_and(|key| key.starts_with('$'))
}

fn at_path<'a>(document: &'a Document, path: &str) -> Option<&'a Bson> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(a, b)| (a, Some(b)));
    let value = document.get(first)?;
    match rest {
        None => Some(value),
        Some(rest) => at_path(value.as_document()?, rest),
    }
}

/// Numbers are the same by their value, whatever their type.
pub(super) fn same(one: Option<&Bson>, two: Option<&Bson>) -> bool {
    match (one, two) {
        (Some(one), Some(two)) => one == two || compare(one, two) == Some(Ordering::Equal),
        _ => false,
    }
}

fn compare(one: &Bson, two: &Bson) -> Option<Ordering> {
    match (one, two) {
        (Bson::String(one), Bson::String(two)) => Some(one.cmp(two)),
        (Bson::ObjectId(one), Bson::ObjectId(two)) => Some(one.cmp(two)),
        (Bson::DateTime(one), Bson::DateTime(two)) => Some(one.cmp(two)),
        _ => number(one)?.partial_cmp(&number(two)?),
    }
}

fn number(value: &Bson) -> Option<f64> {
    match value {
        Bson::Int32(number) => Some(f64::from(*number)),
        Bson::Int64(number) => Some(*number as f64),
        Bson::Double(number) => Some(*number),
        _ => None,
    }
}

pub(super) fn whole(value: &Bson) -> i64 {
    number(value).expect("a number") as i64
}

pub(super) fn sorted(documents: &mut [Document], order: Option<&Document>) {
    let fields: Vec<_> = order.into_iter().flatten().collect();
    for (key, direction) in fields.into_iter().rev() {
        let is_down = whole(direction) < 0;
        documents.sort_by(|one, two| {
            let order = match (at_path(one, key), at_path(two, key)) {
                (Some(one), Some(two)) => compare(one, two).unwrap_or(Ordering::Equal),
                (one, two) => one.is_some().cmp(&two.is_some()),
            };
            if is_down { order.reverse() } else { order }
        });
    }
}

/// The document with the fields that are wanted. Texts and documents become constants, as `$literal` would.
pub(super) fn projected(document: Document, projection: Option<&Document>) -> Document {
    let Some(projection) = projection.filter(|it| !it.is_empty()) else { return document };
    let is_off = |value: &Bson| number(value) == Some(0.0) || *value == Bson::Boolean(false);
    if projection.values().all(is_off) {
        return document.into_iter().filter(|(key, _)| !projection.contains_key(key)).collect();
    }
    let mut shown = Document::new();
    if !projection.get("_id").is_some_and(is_off) {
        shown.extend(document.get("_id").map(|id| ("_id".to_owned(), id.clone())));
    }
    for (key, value) in projection.iter().filter(|(key, value)| *key != "_id" && !is_off(value)) {
        let value = match value {
            Bson::String(_) | Bson::Document(_) => Some(expressed(&document, value)),
            _ => at_path(&document, key).cloned(),
        };
        if let Some(value) = value {
            *place(&mut shown, key) = value;
        }
    }
    shown
}

/// The value of an expression: a constant, or the name of a field.
fn expressed(document: &Document, value: &Bson) -> Bson {
    match value {
        Bson::String(text) if text.starts_with('$') => {
            at_path(document, &text[1..]).cloned().unwrap_or(Bson::Null)
        }
        Bson::Document(fields) => {
            let field = |(key, value): (&String, &Bson)| (key.clone(), expressed(document, value));
            fields.iter().map(field).collect::<Document>().into()
        }
        value => value.clone(),
    }
}

/// Passes documents through a stage that changes nothing.
pub(super) fn pass(kind: &str, value: &Bson, found: &mut Vec<Document>) -> Result<(), Refused> {
    let count = || usize::try_from(whole(value)).expect("a number");
    match (kind, value) {
        ("$match", Bson::Document(filter)) => {
            check(filter)?;
            found.retain(|it| matches(it, filter));
        }
        ("$sort", Bson::Document(order)) => sorted(found, Some(order)),
        ("$limit", _) => found.truncate(count()),
        ("$skip", _) => drop(found.drain(..count().min(found.len()))),
        ("$project", Bson::Document(wanted)) => {
            *found = found.drain(..).map(|it| projected(it, Some(wanted))).collect();
        }
        ("$addFields" | "$set", Bson::Document(more)) => {
            found.iter_mut().for_each(|it| it.extend(more.clone()));
        }
        ("$count", Bson::String(name)) => {
            let count = i32::try_from(found.len()).expect("few");
            *found = if count == 0 { Vec::new() } else { vec![doc! { name: count }] };
        }
        // How the number of documents is asked for.
        ("$group", _) => {
            let count = i32::try_from(found.len()).expect("few");
            *found = if count == 0 { Vec::new() } else { vec![doc! { "_id": 1, "n": count }] };
        }
        ("$listLocalSessions", _) => *found = vec![doc! { "_id": 1 }],
        _ => {
            let why = format!("Unrecognized pipeline stage name: '{kind}'");
            return Err(refused(40324, "Location40324", &why));
        }
    }
    Ok(())
}

/// Refuses a stage that [`pass`] does not have.
pub(super) fn pass_name(stage: &Document) -> Result<(), Refused> {
    let (kind, value) = stage.iter().next().expect("a stage has a name");
    pass(kind, value, &mut Vec::new())
}

/// The document as an update makes it.
pub(super) fn updated(
    mut document: Document,
    update: &Bson,
    is_new: bool,
) -> Result<Document, Refused> {
    let update = match update {
        // Stages, of which `$set` is known.
        Bson::Array(stages) => {
            for stage in stages {
                document = updated(document, stage, is_new)?;
            }
            return Ok(document);
        }
        Bson::Document(update) => update,
        _ => return Err(refused(9, "FailedToParse", "this is no update")),
    };
    if !has_operators(update) {
        let mut new = update.clone();
        let id = document.remove("_id").expect("each document has one");
        let mut whole = doc! { "_id": id };
        new.remove("_id");
        whole.extend(new);
        return Ok(whole);
    }
    for (operator, fields) in update {
        for (path, value) in fields.as_document().into_iter().flatten() {
            if path.contains("$[") {
                return Err(refused(238, "NotImplemented", "array filters are not there"));
            }
            match &**operator {
                "$set" => *place(&mut document, path) = value.clone(),
                "$setOnInsert" if is_new => *place(&mut document, path) = value.clone(),
                "$setOnInsert" => {}
                "$inc" => {
                    let place = place(&mut document, path);
                    let sum = if *place == Bson::Null { 0 } else { whole(place) } + whole(value);
                    *place = i32::try_from(sum).map_or(Bson::Int64(sum), Bson::Int32);
                }
                "$unset" => drop(document.remove(path)),
                other => {
                    let why = format!("Unknown modifier: {other}");
                    return Err(refused(9, "FailedToParse", &why));
                }
            }
        }
    }
    Ok(document)
}

/// Where a value is, or will be.
fn place<'a>(document: &'a mut Document, path: &str) -> &'a mut Bson {
    let mut parts = path.split('.');
    let first = parts.next().expect("a path has a part");
    let mut value = document.entry(first.to_owned()).or_insert(Bson::Null);
    for part in parts {
        value = match value {
            Bson::Array(list) => &mut list[part.parse::<usize>().expect("a number")],
            value => {
                if !matches!(value, Bson::Document(_)) {
                    *value = Bson::Document(Document::new());
                }
                let Bson::Document(inner) = value else { unreachable!("it was made one") };
                inner.entry(part.to_owned()).or_insert(Bson::Null)
            }
        };
    }
    value
}

/// What those who watch are told of an update.
pub(super) fn update_event(update: &Bson, old: &Document, new: &Document) -> Document {
    let by_operators = match update {
        Bson::Document(update) => has_operators(update),
        _ => true,
    };
    if !by_operators {
        return doc! { "operationType": "replace" };
    }
    let (mut fields, mut truncated) = (Document::new(), Vec::new());
    for (key, value) in new.iter().filter(|(key, value)| old.get(key) != Some(value)) {
        match (old.get(key), value) {
            (Some(Bson::Array(old)), Bson::Array(new)) if old.starts_with(new) => {
                truncated.push(doc! { "field": key, "newSize": new.len() as i32 });
            }
            _ => drop(fields.insert(key, value.clone())),
        }
    }
    let removed: Vec<_> = old.keys().filter(|key| !new.contains_key(*key)).collect();
    let description =
        doc! { "updatedFields": fields, "removedFields": removed, "truncatedArrays": truncated };
    doc! { "operationType": "update", "updateDescription": description }
}
