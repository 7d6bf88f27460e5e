//! Tables of the program's own on the console.

use std::fmt;

use ringway_runtime::contain;
use serde_json::{Value, json};

use crate::limits;

/// A table whose rows the program makes whenever somebody looks.
pub(crate) struct ConsoleTable {
    title: String,
    columns: Vec<String>,
    rows: Box<dyn Fn() -> Vec<Vec<String>> + Send + Sync>,
}

impl ConsoleTable {
    pub(crate) fn new<const N: usize>(
        title: &str,
        columns: [&str; N],
        rows: impl Fn() -> Vec<[String; N]> + Send + Sync + 'static,
    ) -> Self {
        Self {
            title: title.to_owned(),
            columns: columns.map(str::to_owned).into(),
            rows: Box::new(move || rows().into_iter().map(Vec::from).collect()),
        }
    }

    /// The table as it is now. Without rows if the program's function panics.
    pub(super) fn describe(&self) -> Value {
        let mut rows = contain("a table of the console", || (self.rows)()).unwrap_or_default();
        let all = rows.len();
        rows.truncate(limits::CONSOLE_ROWS_MAX);
        json!({ "title": self.title, "columns": self.columns, "rows": rows, "all": all })
    }
}

impl fmt::Debug for ConsoleTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ConsoleTable").field(&self.title).finish()
    }
}
