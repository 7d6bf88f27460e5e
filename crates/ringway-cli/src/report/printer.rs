//! Prints a report while it grows.

use std::io::{self, Write};

use super::row::Row;
use super::screen::Screen;
use super::{Report, json, markdown, table};
use crate::args::Format;

/// Prints a report while it is measured. A table is printed as soon as it is complete, so a later failure does not
/// lose it. JSON is one object and is printed at the end.
pub(crate) struct Printer<'a> {
    format: Format,
    screen: Screen,
    out: &'a mut dyn Write,
    /// Rows of the current table.
    pending: Vec<Row>,
}

impl<'a> Printer<'a> {
    pub(crate) fn new(format: Format, screen: Screen, out: &'a mut dyn Write) -> Self {
        Self { format, screen, out, pending: Vec::new() }
    }

    /// Adds rows, and prints the current table first if they do not belong to it.
    ///
    /// # Errors
    /// Writing the output fails.
    pub(crate) fn add(&mut self, rows: &[Row]) -> io::Result<()> {
        for row in rows {
            if self.pending.first().is_some_and(|first| first.table() != row.table()) {
                self.print_table()?;
            }
            self.pending.push(row.clone());
        }
        Ok(())
    }

    /// Prints the rest of `report` after its last row.
    ///
    /// # Errors
    /// Writing the output fails.
    pub(crate) fn finish(mut self, report: &Report) -> io::Result<()> {
        if !self.pending.is_empty() {
            self.print_table()?;
        }
        let text = match self.format {
            Format::Table => table::render_notes(report, &self.screen),
            Format::Json => json::render(report),
            Format::Markdown => markdown::render_notes(report),
        };
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    fn print_table(&mut self) -> io::Result<()> {
        let rows = std::mem::take(&mut self.pending);
        let text = match self.format {
            Format::Table => table::render(&rows, &self.screen),
            Format::Markdown => markdown::render(&rows),
            Format::Json => return Ok(()),
        };
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}
