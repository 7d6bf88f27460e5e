//! What a program sets about the ways into its server beside gRPC and the native protocol.

use super::Server;
use super::console_access::Console;
use super::cors::Cors;

impl Server {
    /// Lets pages of other origins call the server over HTTP. Without this setting they are refused.
    pub fn cors(mut self, cors: Cors) -> Self {
        self.http.cors = Some(cors);
        self
    }

    /// Answers JSON-RPC over HTTP, and WebSockets that speak it, at these paths instead of `/` and `/rpc`; at
    /// none if there are none.
    pub fn json_rpc_paths<P: Into<String>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        self.settings.json_paths = paths.into_iter().map(Into::into).collect();
        self
    }

    /// Sets whether a connection may speak JSON-RPC without HTTP, with a text on each line; by default it may. If
    /// not, such a connection is closed, and [`json_rpc_paths`](Self::json_rpc_paths) decides about HTTP alone.
    pub fn json_rpc_lines(mut self, are_served: bool) -> Self {
        self.settings.has_json_lines = are_served;
        self
    }

    /// Sets whether clients may ask which services and methods there are; by default they may, as far as the
    /// server's interceptors let them. If not, there is no reflection, native or of gRPC, and no
    /// `rpc.discover`. The [console](Self::console) has a setting of its own.
    pub fn reflection(mut self, is_served: bool) -> Self {
        self.settings.describes = is_served;
        self
    }

    /// Sets whether the counters of the server can be read at `/metrics`; by default they can, by whoever reaches
    /// the port, as interceptors see calls alone. If not, the program may have a route of its own there.
    pub fn metrics_page(mut self, is_served: bool) -> Self {
        self.http.has_no_metrics = !is_served;
        self
    }

    /// Sets who may see the console, the page at `/`.
    pub fn console(mut self, console: Console) -> Self {
        self.http.console = console;
        self
    }
}
