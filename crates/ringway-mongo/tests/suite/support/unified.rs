//! The rules by which tests of the unified format compare what they expect with what there is.

use std::collections::HashMap;

use bson::{Bson, Document};

/// What operations of a test have saved, by their names.
pub(crate) type Entities = HashMap<String, Bson>;

/// Compares by the rules of the format.
///
/// # Errors
/// What is different, and where.
pub(crate) fn matches(entities: &Entities, expected: &Bson, actual: &Bson) -> Result<(), String> {
    compare(entities, expected, actual, true)
}

/// In the document at the root there may be more fields than are expected, in those inside not.
fn compare(
    entities: &Entities,
    expected: &Bson,
    actual: &Bson,
    is_root: bool,
) -> Result<(), String> {
    match (expected, actual) {
        (Bson::Document(expected), actual) if is_operator(expected) => {
            compare_by_operator(entities, expected, actual, is_root)
        }
        (Bson::Document(expected), Bson::Document(actual)) => {
            compare_documents(entities, expected, actual, is_root)
        }
        (Bson::Array(expected), Bson::Array(actual)) => {
            same(expected.len() == actual.len(), || format!("{expected:?} is not {actual:?}"))?;
            let pairs = expected.iter().zip(actual);
            let each = pairs.enumerate().map(|(at, (expected, actual))| {
                compare(entities, expected, actual, is_root).map_err(|why| format!("{at}: {why}"))
            });
            each.collect()
        }
        _ if number(expected).is_some() => {
            same(number(expected) == number(actual), || format!("{expected} is not {actual}"))
        }
        _ => same(expected == actual, || format!("{expected} is not {actual}")),
    }
}

fn compare_documents(
    entities: &Entities,
    expected: &Document,
    actual: &Document,
    is_root: bool,
) -> Result<(), String> {
    for (name, value) in expected {
        let operator = |name| value.as_document().and_then(|it| it.get(name));
        if let Some(exists) = operator("$$exists").and_then(Bson::as_bool) {
            same(actual.contains_key(name) == exists, || format!("{name} exists or not"))?;
            continue;
        }
        match (actual.get(name), operator("$$unsetOrMatches")) {
            (None, Some(_)) => {}
            (None, None) => return Err(format!("there is no {name} in {actual}")),
            (Some(actual), _) => {
                compare(entities, value, actual, false).map_err(|why| format!("{name}: {why}"))?
            }
        }
    }
    let unexpected = actual.keys().find(|name| !expected.contains_key(name));
    same(is_root || unexpected.is_none(), || format!("nobody expects {unexpected:?} in {actual}"))
}

fn compare_by_operator(
    entities: &Entities,
    operator: &Document,
    actual: &Bson,
    is_root: bool,
) -> Result<(), String> {
    let (name, value) = operator.iter().next().expect("an operator");
    match name.as_str() {
        "$$exists" => Ok(()),
        "$$type" => {
            let kind = kind(actual);
            let is_any = |allowed: &Bson| {
                let allowed = allowed.as_str().unwrap_or_default();
                allowed == kind || allowed == "number" && number(actual).is_some()
            };
            let is_it = match value {
                Bson::Array(allowed) => allowed.iter().any(is_any),
                allowed => is_any(allowed),
            };
            same(is_it, || format!("{actual} is no {value}"))
        }
        "$$matchesEntity" => {
            let entity = entities.get(value.as_str().unwrap_or_default());
            same(entity == Some(actual), || format!("{actual} is not {value}"))
        }
        "$$matchesHexBytes" => {
            let is_it = match actual {
                Bson::Binary(binary) => {
                    binary.bytes == from_hex(value.as_str().unwrap_or_default())
                }
                _ => false,
            };
            same(is_it, || format!("{actual} is not {value}"))
        }
        "$$sessionLsid" => {
            let name = lsid_of(value.as_str().unwrap_or_default());
            let is_it = entities.get(&name) == Some(actual);
            same(is_it, || format!("{actual} is not the session {value}"))
        }
        "$$lte" => {
            let is_it = number(actual) <= number(value) && number(actual).is_some();
            same(is_it, || format!("{actual} is more than {value}"))
        }
        "$$matchAsRoot" => compare(entities, value, actual, true),
        "$$matchAsDocument" => {
            let text = actual.as_str().unwrap_or_default();
            let read = serde_json::from_str(text).map_err(|error| error.to_string())?;
            compare(entities, value, &json(&read).into(), is_root)
        }
        "$$unsetOrMatches" => match actual {
            Bson::Null => Ok(()),
            actual => compare(entities, value, actual, is_root),
        },
        other => Err(format!("unknown operator {other}")),
    }
}

/// How the session of that name is saved.
pub(crate) fn lsid_of(session: &str) -> String {
    format!("$$sessionLsid {session}")
}

fn same(is_same: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if is_same { Ok(()) } else { Err(why()) }
}

fn kind(value: &Bson) -> &'static str {
    match value {
        Bson::Double(_) => "double",
        Bson::String(_) => "string",
        Bson::Document(_) => "object",
        Bson::Array(_) => "array",
        Bson::Binary(_) => "binData",
        Bson::ObjectId(_) => "objectId",
        Bson::Boolean(_) => "bool",
        Bson::DateTime(_) => "date",
        Bson::Null => "null",
        Bson::Int32(_) => "int",
        Bson::Int64(_) => "long",
        Bson::Timestamp(_) => "timestamp",
        _ => "another type",
    }
}

fn is_operator(document: &Document) -> bool {
    document.len() == 1 && document.keys().all(|name| name.starts_with("$$"))
}

/// Numbers are compared by their value, whatever their type.
fn number(value: &Bson) -> Option<f64> {
    match value {
        Bson::Int32(number) => Some(f64::from(*number)),
        Bson::Int64(number) => Some(*number as f64),
        Bson::Double(number) => Some(*number),
        Bson::Decimal128(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

pub(crate) fn from_hex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("ASCII"));
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal")).collect()
}

/// Extended JSON, also `$$hexBytes` and the like, as a document.
pub(crate) fn json(value: &serde_json::Value) -> Document {
    match value.clone().try_into().expect("extended JSON") {
        Bson::Document(document) => document,
        other => panic!("not an object: {other}"),
    }
}

/// The documents of an array; none if it is missing.
pub(crate) fn documents<'a>(
    document: &'a Document,
    name: &str,
) -> impl Iterator<Item = &'a Document> {
    let array = document.get_array(name).map_or(&[][..], Vec::as_slice);
    array.iter().map(|entry| entry.as_document().expect("documents only"))
}
