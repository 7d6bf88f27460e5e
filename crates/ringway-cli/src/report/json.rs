//! The report for programs: one object, `environment`, `rows` and `failure`.

use serde::Serialize;

use super::Report;
use super::row::Row;
use crate::environment::Environment;

pub(super) fn render(report: &Report) -> String {
    let Report { environment, rows, failure } = report;
    let document = Document { environment, rows, failure };
    let text = serde_json::to_string_pretty(&document);
    // Maps have string keys here and other numbers become null, so serialising cannot fail.
    format!("{}\n", text.expect("a report has only values that JSON knows"))
}

#[derive(Serialize)]
struct Document<'a> {
    environment: &'a Environment,
    rows: &'a [Row],
    failure: &'a Option<String>,
}
