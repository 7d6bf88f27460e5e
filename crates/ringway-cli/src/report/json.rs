//! The report for programs: one object, `environment`, `rows`, `left_out` and `failure`.

use serde::Serialize;

use super::Report;
use super::row::Row;
use crate::environment::Environment;

pub(super) fn render(report: &Report) -> String {
    let Report { environment, rows, left_out, failure } = report;
    let document = Document { environment, rows, left_out, failure };
    let text = serde_json::to_string_pretty(&document);
    // Maps have string keys here and other numbers become null, so serialising cannot fail.
    format!("{}\n", text.expect("a report has only values that JSON knows"))
}

#[derive(Serialize)]
struct Document<'a> {
    environment: &'a Environment,
    rows: &'a [Row],
    left_out: &'a [String],
    failure: &'a Option<String>,
}
