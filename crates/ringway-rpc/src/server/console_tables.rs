//! How a program adds tables to the console.

use super::Server;
use super::console::ConsoleTable;

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
    pub fn console_table<const N: usize>(
        mut self,
        title: &str,
        columns: [&str; N],
        rows: impl Fn() -> Vec<[String; N]> + Send + Sync + 'static,
    ) -> Self {
        self.http.tables.push(ConsoleTable::new(title, columns, rows));
        self
    }
}
