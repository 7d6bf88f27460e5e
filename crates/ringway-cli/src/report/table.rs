//! The report for people: one aligned table a suite and unit, and notes below.

use std::fmt::Write;

use serde_json::Value;

use super::row::Row;
use super::{Report, humane, reference};

/// The cells of one table, its columns decided: those that no row fills are left out.
pub(super) struct Grid {
    /// The suite, and the parameters that all its rows share.
    pub(super) title: String,
    pub(super) columns: Vec<Column>,
    /// How many of them, the first ones, say which row it is.
    keys: usize,
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

/// One table, of rows that count the same.
pub(super) fn render(rows: &[Row]) -> String {
    let mut out = String::new();
    let grid = grid(rows);
    writeln!(out, "{}", grid.title).expect("writing to a string");
    write_grid(&mut out, &grid);
    out.push('\n');
    out
}

/// What stands below the tables.
pub(super) fn render_notes(report: &Report) -> String {
    notes(report).iter().map(|note| format!("{note}\n")).collect()
}

/// Lays out rows that count the same; there is at least one.
pub(super) fn grid(rows: &[Row]) -> Grid {
    let (shared, distinct) = parameter_names(rows);
    let mut columns: Vec<Column> =
        distinct.into_iter().map(|name| parameter_column(name, rows)).collect();
    let keys = columns.len();
    let mut number = |name: &str, unit, cell: &dyn Fn(&Row) -> String| {
        columns.push(column(name, unit, rows, cell));
    };
    number("rate", "/s", &|row| humane::count(Some(row.rate.median)));
    number("±", "cv", &|row| humane::percent(row.rate.cv));
    number("begun", "/s", &|row| humane::count(row.open_loop.map(|open| open.begun)));
    number("achieved", "of due", &|row| humane::percent(row.open_loop.map(|open| open.achieved)));
    number("goodput", "MiB/s", &|row| humane::plain(row.goodput_mib_s));
    number("p50", "µs", &|row| humane::plain(row.latency.p50_us));
    number("p99", "µs", &|row| humane::plain(row.latency.p99_us));
    number("p99.9", "µs", &|row| humane::plain(row.latency.p999_us));
    number("server", "µs/op", &|row| humane::plain(row.server.cpu_us_per_op));
    number("syscalls", "/op", &|row| humane::plain(row.server.syscalls_per_op));
    number("allocs", "/op", &|row| humane::plain(row.server.allocations_per_op));
    number("client", "µs/op", &|row| humane::plain(row.client.cpu_us_per_op));
    number("rate", "×epoll", &|row| humane::plain(row.versus_epoll.rate));
    number("server", "×epoll", &|row| humane::plain(row.versus_epoll.server_cpu));
    number("both", "×epoll", &|row| humane::plain(row.versus_epoll.rate_both_sides));
    if rows.iter().any(|row| row.errors.total() > 0) {
        number("errors", "", &|row| humane::grouped(row.errors.total() as i64));
    }
    let found = |row: &Row| reference::find(row).map(|(figure, _)| figure.to_owned());
    let figure = |row: &Row| found(row).unwrap_or_else(|| humane::UNKNOWN.to_owned());
    let source = rows.iter().find_map(reference::find).map_or("", |(_, source)| source.name);
    columns.push(Column { is_text: true, ..column("report", source, rows, &figure) });
    columns.retain(|column| column.cells.iter().any(|cell| cell != humane::UNKNOWN));
    Grid { title: title(&rows[0], &shared), columns, keys }
}

/// The names of the parameters in the order in which they first occur: those with one value in all rows, and
/// the others. Whose server it is always counts among the others.
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
        *name != "server" && values.all(|value| Some(value) == first)
    };
    names.into_iter().partition(is_shared)
}

/// `receive, packets/s: transport tcp, size 32 B`.
fn title(row: &Row, shared: &[&str]) -> String {
    let parameters = shared.iter().map(|name| {
        let text =
            format!("{name} {} {}", humane::parameter(row.parameters.get(*name)), unit(name));
        text.trim_end().to_owned()
    });
    let parameters: Vec<String> = parameters.collect();
    let mut title = format!("{}, {}", row.suite, row.unit);
    if !parameters.is_empty() {
        title = format!("{title}: {}", parameters.join(", "));
    }
    title
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

/// Blocks of columns that fit [`WIDTH_MAX`], each with those that say which row it is.
fn write_grid(out: &mut String, grid: &Grid) {
    let (keys, mut rest) = grid.columns.split_at(grid.keys);
    let width = |columns: &[Column]| columns.iter().map(|column| column.width() + 2).sum::<usize>();
    loop {
        let fits = |count: &usize| width(keys) + width(&rest[..*count]) <= WIDTH_MAX;
        let count = (1..=rest.len()).rev().find(fits).unwrap_or(rest.len().min(1));
        let (block, left) = rest.split_at(count);
        let columns: Vec<&Column> = keys.iter().chain(block).collect();
        write_block(out, &columns);
        if left.is_empty() {
            return;
        }
        rest = left;
        out.push('\n');
    }
}

/// Two lines of header, names and units, then one for each row.
fn write_block(out: &mut String, columns: &[&Column]) {
    write_line(out, columns, |column| &column.name);
    write_line(out, columns, |column| column.unit);
    let row_count = columns.first().map_or(0, |column| column.cells.len());
    for row in 0..row_count {
        write_line(out, columns, |column| &column.cells[row]);
    }
}

fn write_line(out: &mut String, columns: &[&Column], cell: impl Fn(&Column) -> &str) {
    let mut line = String::new();
    for column in columns {
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

/// Columns of a terminal that shows two files beside each other, or of a page.
const WIDTH_MAX: usize = 100;

/// What stands below the tables: errors and warnings of rows, sources of the figures, the environment.
pub(super) fn notes(report: &Report) -> Vec<String> {
    let mut notes: Vec<String> =
        report.failure.iter().map(|why| format!("error: the bench ended early: {why}")).collect();
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
        0 if report.failure.is_none() => format!("{verified} payloads compared, all right"),
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
