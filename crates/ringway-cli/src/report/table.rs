//! The report for people: an aligned table for each suite and unit, with notes below.

use std::fmt::Write;

use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table};
use serde_json::Value;

use super::names::{name_of, parameter_names};
use super::row::Row;
use super::screen::Screen;
use super::{Report, humane, reference};

/// The cells of one table without the columns that no row fills.
pub(super) struct Grid {
    /// The suite with the parameters that all its rows share.
    pub(super) title: String,
    pub(super) columns: Vec<Column>,
    /// The number of key columns, which come first and identify a row.
    keys: usize,
}

pub(super) struct Column {
    pub(super) name: String,
    /// May be empty.
    pub(super) unit: &'static str,
    /// One for each row.
    pub(super) cells: Vec<String>,
    /// Text is aligned to the left, numbers to the right.
    pub(super) is_text: bool,
    /// Indices of the rows whose cells are highlighted.
    alarms: Vec<usize>,
}

/// Prints one table of rows with the same unit.
pub(super) fn render(rows: &[Row], screen: &Screen) -> String {
    let mut out = String::new();
    let Grid { title, mut columns, keys } = grid(rows);
    if screen.is_terminal && rows.len() > 1 {
        columns.insert(keys + 1, bars(rows));
    }
    for line in screen.wrapped(&title) {
        writeln!(out, "{}", screen.bold(&line)).expect("writing to a string");
    }
    let (keys, rest) = columns.split_at(keys);
    write_grid(&mut out, keys, rest, screen);
    out.push('\n');
    out
}

/// Draws the rates as bars; the greatest of the table is the longest.
fn bars(rows: &[Row]) -> Column {
    let most = rows.iter().map(|row| row.rate.median).fold(0.0, f64::max);
    let bar = |row: &Row| humane::bar(row.rate.median / most);
    Column { is_text: true, ..column("", "", rows, &bar) }
}

/// The notes below the tables.
pub(super) fn render_notes(report: &Report, screen: &Screen) -> String {
    notes(report).iter().map(|note| screen.note(note)).collect()
}

/// Lays out rows with the same unit; there is at least one.
pub(super) fn grid(rows: &[Row]) -> Grid {
    let (shared, distinct) = parameter_names(&rows.iter().collect::<Vec<_>>());
    let mut columns: Vec<Column> =
        distinct.into_iter().map(|name| parameter_column(name, rows)).collect();
    let keys = columns.len();
    columns.push(column("rate", "/s", rows, &|row| humane::count(Some(row.rate.median))));
    columns.push(spread(rows));
    let mut number = |name: &str, unit, cell: &dyn Fn(&Row) -> String| {
        columns.push(column(name, unit, rows, cell));
    };
    number("time", "ns/op", &|row| humane::plain(row.nanoseconds()));
    number("iteration", "µs", &|row| humane::plain(row.iteration_us()));
    number("begun", "/s", &|row| humane::count(row.open_loop.map(|open| open.begun)));
    number("achieved", "of due", &|row| humane::percent(row.open_loop.map(|open| open.achieved)));
    number("goodput", "MiB/s", &|row| humane::plain(row.goodput_mib_s));
    number("p50", "µs", &|row| humane::plain(row.latency.p50_us));
    number("p99", "µs", &|row| humane::plain(row.latency.p99_us));
    number("p99.9", "µs", &|row| humane::plain(row.latency.p999_us));
    number("memory", "B/conn", &|row| humane::plain(row.detail.memory));
    number("offset", "µs", &|row| humane::plain(row.clock.map(|clock| clock.offset_us)));
    number("within", "±µs", &|row| humane::plain(row.clock.map(|clock| clock.error_us)));
    number("server", "µs/op", &|row| humane::plain(row.server.cpu_us_per_op));
    number("syscalls", "/op", &|row| humane::plain(row.measured_side().syscalls_per_op));
    number("allocs", "/op", &|row| humane::plain(row.allocations()));
    number("client", "µs/op", &|row| humane::plain(row.client.cpu_us_per_op));
    number("rate", "×epoll", &|row| humane::plain(row.versus_epoll.rate));
    number("server", "×epoll", &|row| humane::plain(row.versus_epoll.server_cpu));
    number("both", "×epoll", &|row| humane::plain(row.versus_epoll.rate_both_sides));
    columns.extend(errors(rows));
    let found = |row: &Row| reference::find(row).map(|(figure, _)| figure.to_owned());
    let figure = |row: &Row| found(row).unwrap_or_else(|| humane::UNKNOWN.to_owned());
    let source = rows.iter().find_map(reference::find).map_or("", |(_, source)| source.name);
    columns.push(Column { is_text: true, ..column("report", source, rows, &figure) });
    columns.retain(|column| column.cells.iter().any(|cell| cell != humane::UNKNOWN));
    Grid { title: title(&rows[0], &shared), columns, keys }
}

/// The column of the spread between the runs of each row.
fn spread(rows: &[Row]) -> Column {
    let cell = |row: &Row| {
        let mark = if is_unsteady(row) { " !" } else { "" };
        format!("{}{mark}", humane::percent(row.rate.cv))
    };
    alarming(is_unsteady, rows, column("±", "cv", rows, &cell))
}

fn is_unsteady(row: &Row) -> bool {
    row.rate.cv.is_some_and(|cv| cv > SPREAD_MAX)
}

/// Failed operations, if there are any.
fn errors(rows: &[Row]) -> Option<Column> {
    let has_errors = |row: &Row| row.errors.total() > 0;
    let cell = |row: &Row| humane::grouped(row.errors.total() as i64);
    rows.iter()
        .any(has_errors)
        .then(|| alarming(has_errors, rows, column("errors", "", rows, &cell)))
}

fn alarming(is_bad: fn(&Row) -> bool, rows: &[Row], column: Column) -> Column {
    let alarms = (0..rows.len()).filter(|&at| is_bad(&rows[at])).collect();
    Column { alarms, ..column }
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
    Column {
        name: name.to_owned(),
        unit,
        cells: rows.iter().map(cell).collect(),
        is_text: false,
        alarms: Vec::new(),
    }
}

/// Splits the columns into blocks that fit the screen, each with the columns that identify a row.
fn write_grid(out: &mut String, keys: &[Column], mut rest: &[Column], screen: &Screen) {
    let width =
        |columns: &[Column]| columns.iter().map(|column| column.width() + GAP).sum::<usize>();
    loop {
        let fits = |count: &usize| {
            screen.columns.is_none_or(|most| width(keys) + width(&rest[..*count]) <= most)
        };
        let count = (1..=rest.len()).rev().find(fits).unwrap_or(rest.len().min(1));
        let (block, left) = rest.split_at(count);
        let columns: Vec<&Column> = keys.iter().chain(block).collect();
        write_block(out, &columns, screen);
        if left.is_empty() {
            return;
        }
        rest = left;
        out.push('\n');
    }
}

/// Prints two header lines, names and units, then a line for each row.
fn write_block(out: &mut String, columns: &[&Column], screen: &Screen) {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    match screen.is_coloured {
        true => table.enforce_styling(),
        false => table.force_no_tty(),
    };
    let head = |column: &&Column| {
        Cell::new(format!("{}\n{}", column.name, column.unit)).add_attribute(Attribute::Bold)
    };
    table.set_header(columns.iter().map(head));
    let row_count = columns.first().map_or(0, |column| column.cells.len());
    for row in 0..row_count {
        table.add_row(columns.iter().map(|column| {
            let cell = Cell::new(&column.cells[row]);
            if column.alarms.contains(&row) { cell.fg(Color::Yellow) } else { cell }
        }));
    }
    for (of_table, column) in table.column_iter_mut().zip(columns) {
        of_table.set_padding((GAP as u16, 0));
        of_table.set_cell_alignment(match column.is_text {
            true => CellAlignment::Left,
            false => CellAlignment::Right,
        });
    }
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end()).expect("writing to a string");
    }
}

impl Column {
    /// Returns the width of the widest cell or header line.
    fn width(&self) -> usize {
        let texts = self.cells.iter().map(String::as_str).chain([self.name.as_str(), self.unit]);
        texts.map(|text| text.chars().count()).max().unwrap_or(0)
    }
}

/// The gap between two columns.
const GAP: usize = 2;

/// The coefficient of variation above which a median says little.
const SPREAD_MAX: f64 = 0.1;

/// The notes below the tables: errors and warnings of rows, sources of the figures, the environment.
pub(super) fn notes(report: &Report) -> Vec<String> {
    let mut notes: Vec<String> =
        report.failure.iter().map(|why| format!("error: the bench ended early: {why}")).collect();
    notes.extend(report.left_out.iter().map(|what| format!("left out: {what}")));
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
    if report.rows.iter().any(is_unsteady) {
        notes.push(format!(
            "warning: !: the runs of the row differ by more than {:.0} % (coefficient of variation); repeat it \
             on a quieter machine before you quote it",
            SPREAD_MAX * 100.0
        ));
    }
    let mut sources: Vec<&reference::Source> = Vec::new();
    for (_, source) in report.rows.iter().filter_map(reference::find) {
        if !sources.contains(&source) {
            sources.push(source);
        }
    }
    notes.extend(sources.iter().map(|source| format!("report: {}", source.note)));
    if !sources.is_empty() {
        notes.push(
            "report: measured on other hardware, so it shows the order of magnitude only"
                .to_owned(),
        );
    }
    notes.push(verdict(report));
    notes.extend(report.environment.lines());
    notes
}

fn verdict(report: &Report) -> String {
    let sum = |part: &dyn Fn(&Row) -> u64| report.rows.iter().map(part).sum::<u64>() as i64;
    let verified = humane::grouped(sum(&|row| row.verified));
    match sum(&|row| row.errors.total()) {
        0 if report.failure.is_none() && verified == "0" => {
            "no call failed; no reply was compared (use `--expect` to compare)".to_owned()
        }
        0 if report.failure.is_none() => format!("{verified} payloads compared, all right"),
        errors => format!("{verified} payloads compared, {} errors", humane::grouped(errors)),
    }
}
