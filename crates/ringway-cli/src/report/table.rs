//! The report for people: one aligned table a suite and unit, and notes below.

use std::fmt::Write;

use serde_json::Value;

use super::row::{Row, Rows};
use super::{Report, humane, reference};

/// The cells of one table, its columns decided: those that no row fills are left out.
pub(super) struct Grid {
    /// The suite, and the parameters that all its rows share.
    pub(super) title: String,
    pub(super) columns: Vec<Column>,
}

pub(super) struct Column {
    pub(super) name: String,
    /// May be empty.
    pub(super) unit: &'static str,
    /// One for each row.
    pub(super) cells: Vec<String>,
    /// Text is set to the left, numbers to the right.
    pub(super) is_text: bool,
}

pub(super) fn render(report: &Report) -> String {
    let mut out = String::new();
    for rows in Rows(&report.rows).by_table() {
        let grid = grid(rows);
        writeln!(out, "{}", grid.title).expect("writing to a string");
        write_grid(&mut out, &grid);
        out.push('\n');
    }
    for note in notes(report) {
        writeln!(out, "{note}").expect("writing to a string");
    }
    out
}

/// Lays out rows that count the same; there is at least one.
pub(super) fn grid(rows: &[Row]) -> Grid {
    let (shared, distinct) = parameter_names(rows);
    let mut columns: Vec<Column> =
        distinct.into_iter().map(|name| parameter_column(name, rows)).collect();
    let mut number = |name: &str, unit, cell: &dyn Fn(&Row) -> String| {
        columns.push(column(name, unit, rows, cell));
    };
    number("rate", rows[0].unit, &|row| humane::count(Some(row.rate.median)));
    number("±", "cv", &|row| humane::percent(row.rate.cv));
    number("begun", rows[0].unit, &|row| humane::count(row.open_loop.map(|open| open.begun)));
    number("achieved", "of due", &|row| humane::percent(row.open_loop.map(|open| open.achieved)));
    number("goodput", "MiB/s", &|row| humane::plain(row.goodput_mib_s));
    number("p50", "µs", &|row| humane::plain(row.latency.p50_us));
    number("p99", "µs", &|row| humane::plain(row.latency.p99_us));
    number("p99.9", "µs", &|row| humane::plain(row.latency.p999_us));
    number("server cpu", "µs/op", &|row| humane::plain(row.server.cpu_us_per_op));
    number("syscalls", "/op", &|row| humane::plain(row.server.syscalls_per_op));
    number("allocs", "/op", &|row| humane::plain(row.server.allocations_per_op));
    number("client cpu", "µs/op", &|row| humane::plain(row.client.cpu_us_per_op));
    number("rate", "× epoll", &|row| humane::plain(row.versus_epoll.rate));
    number("server cpu", "× epoll", &|row| humane::plain(row.versus_epoll.server_cpu));
    number("rate", "× epoll both sides", &|row| humane::plain(row.versus_epoll.rate_both_sides));
    if rows.iter().any(|row| row.errors.total() > 0) {
        number("errors", "", &|row| humane::grouped(row.errors.total() as i64));
    }
    let figure = |row: &Row| reference::find(row).map_or(humane::UNKNOWN.into(), |(cell, _)| cell);
    columns.push(Column { is_text: true, ..column("report", "", rows, &figure) });
    columns.retain(|column| column.cells.iter().any(|cell| cell != humane::UNKNOWN));
    Grid { title: title(&rows[0], &shared), columns }
}

/// The names of the parameters in the order in which they first occur: those with one value in all of
/// several rows, and the others. Whose server it is always counts among the others.
fn parameter_names(rows: &[Row]) -> (Vec<&str>, Vec<&str>) {
    let mut names: Vec<&str> = Vec::new();
    for name in rows.iter().flat_map(|row| row.parameters.keys()) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let is_shared = |name: &&str| {
        let mut values = rows.iter().map(|row| row.parameters.get(*name));
        let first = values.next();
        rows.len() > 1 && *name != "server" && values.all(|value| Some(value) == first)
    };
    names.into_iter().partition(is_shared)
}

/// `receive: transport tcp, size 32 B`.
fn title(row: &Row, shared: &[&str]) -> String {
    let parameters = shared.iter().map(|name| {
        let text =
            format!("{name} {} {}", humane::parameter(row.parameters.get(*name)), unit(name));
        text.trim_end().to_owned()
    });
    let parameters: Vec<String> = parameters.collect();
    if parameters.is_empty() {
        return row.suite.to_owned();
    }
    format!("{}: {}", row.suite, parameters.join(", "))
}

fn unit(parameter: &str) -> &'static str {
    if parameter == "size" { "B" } else { "" }
}

fn parameter_column(name: &str, rows: &[Row]) -> Column {
    let is_text = rows.iter().any(|row| row.parameters.get(name).is_some_and(Value::is_string));
    let cell = |row: &Row| humane::parameter(row.parameters.get(name));
    Column { is_text, ..column(name, unit(name), rows, &cell) }
}

fn column(name: &str, unit: &'static str, rows: &[Row], cell: &dyn Fn(&Row) -> String) -> Column {
    Column { name: name.to_owned(), unit, cells: rows.iter().map(cell).collect(), is_text: false }
}

/// Two lines of header, names and units, then one for each row.
fn write_grid(out: &mut String, grid: &Grid) {
    write_line(out, grid, |column| &column.name);
    write_line(out, grid, |column| column.unit);
    let row_count = grid.columns.first().map_or(0, |column| column.cells.len());
    for row in 0..row_count {
        write_line(out, grid, |column| &column.cells[row]);
    }
}

fn write_line(out: &mut String, grid: &Grid, cell: impl Fn(&Column) -> &str) {
    let mut line = String::new();
    for column in &grid.columns {
        let (cell, width) = (cell(column), column.width());
        if column.is_text {
            write!(line, "  {cell:<width$}").expect("writing to a string");
        } else {
            write!(line, "  {cell:>width$}").expect("writing to a string");
        }
    }
    writeln!(out, "{}", line.trim_end()).expect("writing to a string");
}

impl Column {
    /// Characters of the widest cell or header line.
    fn width(&self) -> usize {
        let texts = self.cells.iter().map(String::as_str).chain([self.name.as_str(), self.unit]);
        texts.map(|text| text.chars().count()).max().unwrap_or(0)
    }
}

/// What stands below the tables: errors and warnings of rows, sources of the figures, the environment.
pub(super) fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    for row in &report.rows {
        for (kind, count) in row.errors.kinds() {
            notes.push(format!(
                "error: {}: {} {kind}",
                name_of(row),
                humane::grouped(count as i64)
            ));
        }
        notes.extend(row.warnings.iter().map(|text| format!("warning: {}: {text}", name_of(row))));
    }
    let mut sources: Vec<&reference::Source> = Vec::new();
    for (_, source) in report.rows.iter().filter_map(reference::find) {
        if !sources.contains(&source) {
            sources.push(source);
        }
    }
    notes.extend(sources.iter().map(|source| format!("report: {}", source.note)));
    if !sources.is_empty() {
        notes.push("report: other hardware, so for the size of things only".to_owned());
    }
    notes.push(verdict(report));
    notes.extend(report.environment.lines());
    notes
}

fn verdict(report: &Report) -> String {
    let sum = |part: &dyn Fn(&Row) -> u64| report.rows.iter().map(part).sum::<u64>() as i64;
    let verified = humane::grouped(sum(&|row| row.verified));
    match sum(&|row| row.errors.total()) {
        0 => format!("{verified} payloads compared, all right"),
        errors => format!("{verified} payloads compared, {} errors", humane::grouped(errors)),
    }
}

/// The row as a note speaks of it: `pingpong ringway tcp 100 16,384`.
fn name_of(row: &Row) -> String {
    let mut name = row.suite.to_owned();
    for value in row.parameters.values() {
        write!(name, " {}", humane::parameter(Some(value))).expect("writing to a string");
    }
    name
}
