//! The result of a bench: rows and their environment, and the three forms in which they are printed.

mod humane;
mod json;
mod markdown;
mod printer;
mod reference;
mod row;
mod screen;
mod table;

use crate::environment::Environment;

pub(crate) use printer::Printer;
pub(crate) use row::{Cost, Errors, OpenLoop, Row, Versus};
pub(crate) use screen::Screen;

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
