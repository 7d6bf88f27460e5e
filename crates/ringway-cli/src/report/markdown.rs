//! The report for documents: the same cells as the table's, in GitHub's notation.

use std::fmt::Write;

use super::Report;
use super::row::Row;
use super::table::{self, Column, Grid};

/// Prints one table of rows with the same unit.
pub(super) fn render(rows: &[Row]) -> String {
    let mut out = String::new();
    let grid = table::grid(rows);
    writeln!(out, "### {}\n", grid.title).expect("writing to a string");
    write_grid(&mut out, &grid);
    out.push('\n');
    out
}

/// The notes below the tables.
pub(super) fn render_notes(report: &Report) -> String {
    table::notes(report).iter().map(|note| format!("- {}\n", escaped(note))).collect()
}

fn write_grid(out: &mut String, grid: &Grid) {
    write_line(out, grid, |column| escaped(format!("{} {}", column.name, column.unit).trim_end()));
    write_line(out, grid, |column| if column.is_text { "---" } else { "--:" }.to_owned());
    let row_count = grid.columns.first().map_or(0, |column| column.cells.len());
    for row in 0..row_count {
        write_line(out, grid, |column| escaped(&column.cells[row]));
    }
}

fn write_line(out: &mut String, grid: &Grid, cell: impl Fn(&Column) -> String) {
    for column in &grid.columns {
        write!(out, "| {} ", cell(column)).expect("writing to a string");
    }
    out.push_str("|\n");
}

/// Escapes text, such as a command line, that a table cell must not hold as it is.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
