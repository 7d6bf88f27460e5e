//! What a check has found.

use std::fmt;

/// A place that breaks a rule.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(super) rule: &'static str,
    /// The file, which an exception names.
    pub(super) path: String,
    pub(super) line: usize,
    message: String,
}

impl Finding {
    pub(super) fn new(
        rule: &'static str,
        path: &str,
        line: usize,
        message: impl Into<String>,
    ) -> Self {
        Finding { rule, path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { rule, path, line, message } = self;
        write!(f, "{path}:{line}: [{rule}] {message}")
    }
}
