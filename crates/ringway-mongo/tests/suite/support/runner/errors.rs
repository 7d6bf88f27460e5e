//! How the error of an operation is compared with what a test expects.

use bson::{Bson, Document};

use super::super::unified::{Entities, documents, matches};
use super::{Why, crud, failed};

pub(crate) fn compare_errors(expected: &Document, error: &ringway_mongo::Error) -> Result<(), Why> {
    let is_of_client = error.server().is_none();
    let code = error.server().map(|server| server.code);
    let contains = |part: &str| error.to_string().to_lowercase().contains(&part.to_lowercase());
    let flag = |name| expected.get_bool(name).ok();
    let labels = |name| expected.get_array(name).map_or(&[][..], Vec::as_slice).iter();
    let has = |label: &Bson| error.has_label(label.as_str().expect("a label"));
    if flag("isClientError").is_some_and(|it| it != is_of_client)
        || flag("isTimeoutError").is_some_and(|it| it != error.is_timeout())
        || expected.get_i32("errorCode").is_ok_and(|it| Some(it) != code)
        || expected.get_str("errorContains").is_ok_and(|part| !contains(part))
        || !labels("errorLabelsContain").all(has)
        || labels("errorLabelsOmit").any(has)
    {
        return Err(failed(format!("{expected} is expected, not {error}")));
    }
    compare_parts(expected, error)?;
    match (expected.get("expectResult"), error.bulk()) {
        // Nothing was done, which the test calls unset.
        (Some(Bson::Document(expected)), Some(bulk))
            if bulk.result == ringway_mongo::BulkWriteResult::default()
                && expected.contains_key("$$unsetOrMatches") =>
        {
            Ok(())
        }
        (Some(expected), Some(bulk)) => matches(&Entities::new(), expected, &crud::partly(bulk))
            .map_err(|why| failed(format!("what was done before: {why}"))),
        _ => Ok(()),
    }
}

/// Compares the errors of single writes, and of their concern.
fn compare_parts(expected: &Document, error: &ringway_mongo::Error) -> Result<(), Why> {
    let nothing = ringway_mongo::BulkFailure::default();
    let bulk = error.bulk().unwrap_or(&nothing);
    if let Ok(expected) = expected.get_document("writeErrors") {
        let code = |it: &ringway_mongo::ServerError| (it.index.to_string(), it.code);
        let told: Vec<_> = bulk.write_errors.iter().map(code).collect();
        let code = |(at, it): (&String, &Bson)| {
            (at.clone(), it.as_document().and_then(|it| it.get_i32("code").ok()).unwrap_or(0))
        };
        let mut wanted: Vec<_> = expected.iter().map(code).collect();
        wanted.sort();
        if wanted != told {
            return Err(failed(format!("the writes {wanted:?} were to fail, not {told:?}")));
        }
    }
    let concerns: Vec<_> = documents(expected, "writeConcernErrors").collect();
    let is_it = |(wanted, told): (&&Document, &ringway_mongo::ServerError)| {
        wanted.get_i32("code").is_ok_and(|code| code == told.code)
    };
    let told = &bulk.write_concern_errors;
    let are_same = concerns.len() <= told.len() && concerns.iter().zip(told).all(is_it);
    if are_same { Ok(()) } else { Err(failed(format!("{concerns:?} are expected, not {told:?}"))) }
}
