//! The result of a bench: rows and their environment, and the three forms in which they are printed.

mod humane;
mod json;
mod markdown;
mod reference;
mod row;
mod table;

use crate::args::Format;
use crate::environment::Environment;

pub(crate) use row::{Cost, Errors, OpenLoop, Row, Versus};

/// Everything one invocation of the bench measured.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    pub(crate) environment: Environment,
    /// In the order in which they were measured; rows of a suite stand together.
    pub(crate) rows: Vec<Row>,
}

impl Report {
    /// The report's text, its last newline included.
    pub(crate) fn render(&self, format: Format) -> String {
        match format {
            Format::Table => table::render(self),
            Format::Json => json::render(self),
            Format::Markdown => markdown::render(self),
        }
    }

    /// Whether every payload was right and no request failed; a report without rows is no success.
    pub(crate) fn is_clean(&self) -> bool {
        !self.rows.is_empty() && self.rows.iter().all(|row| row.errors.total() == 0)
    }
}

#[cfg(test)]
mod tests;
