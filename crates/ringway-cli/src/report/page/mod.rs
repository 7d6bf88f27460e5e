//! The report as a self-contained page: charts, the environment, the commands, and its JSON.

mod charts;
mod escape;
mod ladder;
mod plot;

use std::fmt::Write;

use serde_json::Value;

use super::humane;
use super::read::{JSON_BEGIN, JSON_END, ReadReport, ReadRow, plain};
use escape::Text;

/// Rows that are drawn together: the same workload, measured with different programs.
struct Group<'d> {
    title: String,
    unit: &'d str,
    rows: Vec<&'d ReadRow>,
}

/// The parameters by which the rows of a group differ.
const CONTENDERS: [&str; 3] = ["server", "client", "protocol"];

/// Makes the page of `document`. All text from outside of the tool is escaped.
pub(super) fn render(document: &ReadReport) -> String {
    let mut page = String::new();
    let title = document.environment.get("command").map_or_else(String::new, plain);
    page.push_str("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    page.push_str("<meta name=\"color-scheme\" content=\"light dark\">\n");
    // The page loads nothing and runs no script.
    page.push_str(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'\">\n",
    );
    push(&mut page, format_args!("<title>{}</title>\n", Text(&title)));
    push(
        &mut page,
        format_args!("<style>\n{}</style></head>\n<body>\n", include_str!("style.css")),
    );
    push(
        &mut page,
        format_args!("<h1>Ringway bench</h1>\n<pre class=\"command\">{}</pre>\n", Text(&title)),
    );
    if let Some(failure) = &document.failure {
        push(&mut page, format_args!("<p class=\"alarm\">It ended early: {}</p>\n", Text(failure)));
    }
    for what in &document.left_out {
        push(&mut page, format_args!("<p class=\"note\">Left out: {}</p>\n", Text(what)));
    }
    for group in groups(document) {
        push(&mut page, format_args!("<section><h2>{}</h2>\n", Text(&group.title)));
        page.push_str(&charts::bars(&group));
        page.push_str("<div class=\"charts\">\n");
        page.push_str(&charts::latencies(&group));
        page.push_str(&charts::rates(&group));
        page.push_str("</div></section>\n");
    }
    page.push_str(&ladder::sections(document));
    page.push_str(&warnings(document));
    page.push_str(&environment(document));
    // A "<" could end the element; JSON allows to escape it.
    let json = document.text.replace('<', "\\u003c");
    push(&mut page, format_args!("{JSON_BEGIN}{json}{JSON_END}\n</body></html>\n"));
    page
}

fn push(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.write_fmt(text).expect("writing to a string");
}

/// Returns the rows that are no rungs of a ladder, by workload.
fn groups(document: &ReadReport) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for row in document.rows.iter().filter(|row| row.open_loop.is_none()) {
        let title = format!("{}: {}", row.suite, row.name(&CONTENDERS));
        match groups.iter_mut().find(|group| group.title == title) {
            Some(group) => group.rows.push(row),
            None => groups.push(Group { title, unit: &row.unit, rows: vec![row] }),
        }
    }
    groups
}

/// Returns the program that a row measures.
fn contender(row: &ReadRow) -> String {
    let part = |name: &str| row.parameter(name);
    let (server, client) = (part("server"), part("client"));
    let sides = match (server, client) {
        (Some(server), Some(client)) if server != client => format!("{client} → {server}"),
        (Some(server), _) => server,
        (None, _) => row.name(&["size"]),
    };
    match part("protocol") {
        Some(protocol) => format!("{sides}, {protocol}"),
        None => sides,
    }
}

fn warnings(document: &ReadReport) -> String {
    let all = document.rows.iter().flat_map(|row| row.warnings.iter().map(move |text| (row, text)));
    let items: String = all
        .map(|(row, text)| {
            format!(
                "<li>{}: {}</li>\n",
                Text(&format!("{} {}", row.suite, row.name(&[]))),
                Text(text)
            )
        })
        .collect();
    match items.is_empty() {
        true => String::new(),
        false => format!("<section><h2>Warnings</h2>\n<ul>{items}</ul></section>\n"),
    }
}

fn environment(document: &ReadReport) -> String {
    let line = |(key, value): (&String, &Value)| {
        let value = match value {
            Value::Object(side) => {
                let parts = side.iter().map(|(key, value)| format!("{key} {}", plain(value)));
                parts.collect::<Vec<_>>().join("; ")
            }
            other => plain(other),
        };
        format!("<tr><th>{}</th><td>{}</td></tr>\n", Text(key), Text(&value))
    };
    let lines: String = document.environment.iter().map(line).collect();
    format!(
        "<section><h2>Where it was measured</h2>\n<table class=\"facts\">{lines}</table></section>\n"
    )
}

/// Formats a rate with its unit.
fn rate(value: f64) -> String {
    humane::count(Some(value))
}
