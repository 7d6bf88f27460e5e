//! Tables of the program's own on the console.

use std::fmt;

use ringway_runtime::contain;
use serde_json::{Value, json};

use crate::limits;
use crate::server::Server;

/// A table whose rows the program makes whenever somebody looks.
pub(in crate::server) struct ConsoleTable {
    title: String,
    columns: Vec<String>,
    rows: Box<dyn Fn() -> Vec<Vec<String>> + Send + Sync>,
}

impl Server {
    /// Adds a table to the [console](Self::console): `rows` is called once a second while somebody looks, on a core of the
    /// server, and must not block. The page shows the first 500 rows, as text.
    ///
    /// ```no_run
    /// use ringway_rpc::Server;
    ///
    /// let server = Server::bind("tcp://127.0.0.1:9000")?;
    /// server.console_table("Queues", ["queue", "jobs"], || vec![["mail".to_owned(), "7".to_owned()]]);
    /// # Ok::<(), ringway_rpc::Status>(())
    /// ```
    #[must_use]
    pub fn console_table<const N: usize>(
        mut self,
        title: &str,
        columns: [&str; N],
        rows: impl Fn() -> Vec<[String; N]> + Send + Sync + 'static,
    ) -> Self {
        self.http.tables.push(ConsoleTable {
            title: title.to_owned(),
            columns: columns.map(str::to_owned).into(),
            rows: Box::new(move || rows().into_iter().map(Vec::from).collect()),
        });
        self
    }
}

impl ConsoleTable {
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
