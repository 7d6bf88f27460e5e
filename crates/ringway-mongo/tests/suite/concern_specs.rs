//! The specification "Read and Write Concern".

use std::time::Duration;

use bson::{Bson, Document};
use ringway_mongo::{Acknowledgment, ConnectionString, ReadConcern, WriteConcern};
use serde_json::{Value, json};

use crate::support::specs::{Case, cases};

/// The concern of these settings; `None` if they are invalid.
fn write_concern(value: &Value) -> Option<WriteConcern> {
    let mut concern = WriteConcern::default();
    concern.w = match &value["w"] {
        Value::String(name) if name == "majority" => Some(Acknowledgment::Majority),
        Value::String(name) => Some(Acknowledgment::Custom(name.clone())),
        Value::Number(count) => Some(Acknowledgment::Nodes(count.as_u64()?.try_into().ok()?)),
        _ => None,
    };
    concern.journal = value["journal"].as_bool();
    concern.w_timeout = match &value["wtimeoutMS"] {
        Value::Number(ms) => Some(Duration::from_millis(ms.as_u64()?)),
        _ => None,
    };
    concern.check().is_ok().then_some(concern)
}

fn as_json(document: &Document) -> Value {
    let value = |value: &Bson| match value {
        Bson::Int32(number) => json!(number),
        Bson::Int64(number) => json!(number),
        Bson::Boolean(is_set) => json!(is_set),
        Bson::String(text) => json!(text),
        other => panic!("{other:?} in a concern"),
    };
    document.iter().map(|(key, found)| (key.clone(), value(found))).collect()
}

fn check_document(case: &Case) {
    if let Some(level) = case.test["readConcern"]["level"].as_str() {
        let concern = ReadConcern { level: level.to_owned() };
        assert_eq!(
            as_json(&concern.to_document()),
            case.test["readConcernDocument"],
            "{}",
            case.name
        );
    }
    let Some(settings) = case.test.get("writeConcern") else { return };
    let concern = write_concern(settings);
    assert_eq!(concern.is_some(), case.flag("valid"), "{}", case.name);
    let Some(concern) = concern else { return };
    assert_eq!(as_json(&concern.to_document()), case.test["writeConcernDocument"], "{}", case.name);
    assert_eq!(concern.is_server_default(), case.flag("isServerDefault"), "{}", case.name);
    assert_eq!(concern.is_acknowledged(), case.flag("isAcknowledged"), "{}", case.name);
}

#[test]
fn concerns_become_documents() {
    for case in cases("read_write_concern/document").unwrap_or_default() {
        check_document(&case);
    }
}

#[test]
fn concerns_are_read_from_connection_strings() {
    for case in cases("read_write_concern/connection-string").unwrap_or_default() {
        let parsed = ConnectionString::parse(case.text("uri"));
        assert_eq!(parsed.is_ok(), case.flag("valid"), "{}: {parsed:?}", case.name);
        let Ok(parsed) = parsed else { continue };
        assert_eq!(parsed.warnings.is_empty(), !case.flag("warning"), "{}", case.name);
        if let Some(expected) = case.test.get("writeConcern") {
            assert_eq!(
                Some(parsed.options.write_concern),
                write_concern(expected),
                "{}",
                case.name
            );
        }
        if let Some(expected) = case.test.get("readConcern") {
            let read = parsed
                .options
                .read_concern
                .map_or(json!({}), |read| json!({ "level": read.level }));
            assert_eq!(read, *expected, "{}", case.name);
        }
    }
}
