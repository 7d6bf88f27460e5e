//! The result of a bench: rows and their environment, and the three forms in which they are printed.

mod humane;
mod json;
mod markdown;
mod reference;
mod row;
mod table;

use std::io::{self, Write};

use crate::args::Format;
use crate::environment::Environment;

pub(crate) use row::{Cost, Errors, OpenLoop, Row, Versus};

/// Everything one invocation of the bench measured.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    pub(crate) environment: Environment,
    /// In the order in which they were measured; rows of a suite stand together.
    pub(crate) rows: Vec<Row>,
    /// Why there are no more rows, if the bench ended early.
    pub(crate) failure: Option<String>,
}

impl Report {
    /// Whether every payload was right and no request failed; a report without rows is no success.
    pub(crate) fn is_clean(&self) -> bool {
        let all_right = |row: &Row| row.errors.total() == 0;
        self.failure.is_none() && !self.rows.is_empty() && self.rows.iter().all(all_right)
    }

    /// The report's text, its last newline included.
    #[cfg(test)]
    pub(crate) fn render(&self, format: Format) -> String {
        let mut out = Vec::new();
        let mut printer = Printer::new(format, &mut out);
        printer.add(&self.rows).expect("a vector has room");
        printer.finish(self).expect("a vector has room");
        String::from_utf8(out).expect("reports are UTF-8")
    }
}

/// Prints a report while it is measured: a table as soon as it is whole, so that what goes wrong later does not
/// take it away. JSON is one object, and so printed at the end.
pub(crate) struct Printer<'a> {
    format: Format,
    out: &'a mut dyn Write,
    /// Rows of the table that has begun.
    pending: Vec<Row>,
}

impl<'a> Printer<'a> {
    pub(crate) fn new(format: Format, out: &'a mut dyn Write) -> Self {
        Self { format, out, pending: Vec::new() }
    }

    /// Takes the next rows, and prints the table before if they do not belong to it.
    ///
    /// # Errors
    /// That of the output.
    pub(crate) fn add(&mut self, rows: &[Row]) -> io::Result<()> {
        for row in rows {
            if self.pending.first().is_some_and(|first| first.table() != row.table()) {
                self.print_table()?;
            }
            self.pending.push(row.clone());
        }
        Ok(())
    }

    /// Prints what is left of `report`, whose rows have all been added.
    ///
    /// # Errors
    /// That of the output.
    pub(crate) fn finish(mut self, report: &Report) -> io::Result<()> {
        if !self.pending.is_empty() {
            self.print_table()?;
        }
        let text = match self.format {
            Format::Table => table::render_notes(report),
            Format::Json => json::render(report),
            Format::Markdown => markdown::render_notes(report),
        };
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    fn print_table(&mut self) -> io::Result<()> {
        let rows = std::mem::take(&mut self.pending);
        let text = match self.format {
            Format::Table => table::render(&rows),
            Format::Markdown => markdown::render(&rows),
            Format::Json => return Ok(()),
        };
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests;
