//! The report for documents: the same cells as the table's, in GitHub's notation.

use std::fmt::Write;

use super::Report;
use super::row::Rows;
use super::table::{self, Column, Grid};

pub(super) fn render(report: &Report) -> String {
    let mut out = String::new();
    for rows in Rows(&report.rows).by_table() {
        let grid = table::grid(rows);
        writeln!(out, "### {}\n", grid.title).expect("writing to a string");
        write_grid(&mut out, &grid);
        out.push('\n');
    }
    for note in table::notes(report) {
        writeln!(out, "- {}", escaped(&note)).expect("writing to a string");
    }
    out
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

/// Text may name a command line, which may hold what a table cell must not.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
