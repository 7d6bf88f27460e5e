//! The result of a bench: rows and their environment, and the three forms in which they are printed.

mod compare;
mod histograms;
mod humane;
mod json;
mod markdown;
mod names;
mod page;
mod printer;
mod read;
mod reference;
mod row;
mod screen;
mod table;

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::args::ReportConfig;
use crate::environment::Environment;
use read::ReadReport;

pub(crate) use printer::Printer;
pub(crate) use row::{Cost, Detail, Errors, OpenLoop, Row, Versus};
pub(crate) use screen::Screen;

/// All results of one invocation of the bench.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    pub(crate) environment: Environment,
    /// In the order in which they were measured; rows of a suite stand together.
    pub(crate) rows: Vec<Row>,
    /// Rows that could not be measured here, each with its reason: `Go's net/rpc: Go is not installed`.
    pub(crate) left_out: Vec<String>,
    /// Why the bench ended early, if it did.
    pub(crate) failure: Option<String>,
}

/// Compares the results of two benches on `out`, or draws those of one.
///
/// # Errors
/// A file has no results, or the output cannot be written.
pub(crate) fn run(config: &ReportConfig, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    match config {
        ReportConfig::Compare { before, after, format } => {
            let (before, after) = (ReadReport::read(before)?, ReadReport::read(after)?);
            compare::print(&before, &after, *format, &Screen::of_stdout(false), out)?;
        }
        ReportConfig::Draw { results, page } => write_page(&ReadReport::read(results)?, page)?,
    }
    Ok(())
}

fn write_page(document: &ReadReport, path: &Path) -> io::Result<()> {
    let named = |error| io::Error::other(format!("cannot write {}: {error}", path.display()));
    fs::write(path, page::render(document)).map_err(named)
}

impl Report {
    /// Writes a page with charts to `path`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn draw(&self, path: &Path) -> io::Result<()> {
        let document = ReadReport::parse(&json::render(self)).map_err(io::Error::other)?;
        write_page(&document, path)
    }

    /// Writes the latencies of its rows to `path`, or to files beside it if there are several. Returns their names.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn write_histograms(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        histograms::write(&self.rows, path)
    }

    /// Whether every payload was right and no request failed; a report without rows is no success.
    pub(crate) fn is_clean(&self) -> bool {
        let all_right = |row: &Row| row.errors.total() == 0;
        self.failure.is_none() && !self.rows.is_empty() && self.rows.iter().all(all_right)
    }

    /// Returns the report's text with its last newline.
    #[cfg(test)]
    pub(crate) fn render(&self, format: crate::args::Format, screen: Screen) -> String {
        let mut out = Vec::new();
        let mut printer = Printer::new(format, screen, &mut out);
        printer.add(&self.rows).expect("a vector has room");
        printer.finish(self).expect("a vector has room");
        String::from_utf8(out).expect("reports are UTF-8")
    }
}

#[cfg(test)]
mod tests;
