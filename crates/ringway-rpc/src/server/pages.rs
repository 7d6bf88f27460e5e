//! What programs and libraries add to a server's HTTP.

use ringway_http::{Request, Response, Result, Router};

use super::Server;
use super::hosts::Hosts;

impl Server {
    /// Names the hosts by which browsers reach the server, such as `shop.example`, or `shop.example:8080` for one port
    /// alone. Two things follow:
    ///
    /// - A page of these hosts may call the server, even if a proxy in front of it changes `Host`.
    /// - A request for another name with a dot counts as one of a foreign page, from wherever it comes: somebody else's name
    ///   may have been made to lead here (DNS rebinding). Addresses, `localhost` and names without a dot are always good.
    ///
    /// Without this setting, the latter holds for connections over loopback that come directly. Both hold for calls, and for
    /// WebSockets of [routes](Self::http_routes) that have not allowed the page's origin themselves.
    ///
    /// ```
    /// # fn main() -> ringway_net::Result {
    /// let server = ringway_rpc::Server::bind("tcp://127.0.0.1:0")?.hosts(["shop.example"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn hosts<S: Into<String>>(mut self, hosts: impl IntoIterator<Item = S>) -> Self {
        self.http.hosts = Some(Hosts::new(hosts.into_iter().map(Into::into)));
        self
    }

    /// Answers other HTTP requests on the server's port, such as pages and webhooks. Calls, `/metrics` unless it
    /// is [switched off](Self::metrics_page), `/healthz` and `/readyz` are always served, and `routes` cannot
    /// replace them.
    pub fn http_routes(mut self, routes: Router) -> Self {
        self.http.routes = Some(routes);
        self
    }

    /// Answers GET requests for `path`, unless the program has a [route](Self::http_routes) for it or a fallback. It is for
    /// libraries that serve something on the server of a program; of two pages at one path the first counts. At a path of
    /// [JSON-RPC](Self::json_rpc_paths), such as `/`, a POST is still JSON-RPC, and a page at `/` takes the place of the
    /// [console](Self::console).
    ///
    /// ```no_run
    /// use ringway_http::text;
    /// use ringway_rpc::Server;
    ///
    /// let server = Server::bind("tcp://127.0.0.1:9000")?;
    /// server.http_page("/version", async |_request| Ok(text("1.4.2")));
    /// # Ok::<(), ringway_rpc::Status>(())
    /// ```
    ///
    /// # Panics
    /// Panics if the path does not begin with `/` or is malformed, which is a mistake of the library.
    pub fn http_page<F>(mut self, path: &str, page: F) -> Self
    where
        F: AsyncFn(Request) -> Result<Response> + Send + Sync + 'static,
    {
        if !self.http.pages.has(path) {
            self.http.pages = std::mem::take(&mut self.http.pages).get(path, page);
        }
        self
    }

    /// Calls a method by POST at a path of its own, as grpc-gateway does: with the JSON of protobuf, in whose answers
    /// the names are those of the .proto file and members that have their default are left out. Each reply of a stream
    /// of replies is a line, `{"result":…}`; requests are the whole body, of a stream one text behind the other. Content types are not looked at. Such a call is one
    /// as any other: interceptors, limits and the guard against foreign pages hold for it.
    ///
    /// A path without a method of this name has what else the server has there.
    ///
    /// ```no_run
    /// use ringway_rpc::Server;
    ///
    /// let server = Server::bind("tcp://127.0.0.1:9000")?;
    /// server.json_gateway("/v1/echo", "echo.v1.Echo/Say");
    /// # Ok::<(), ringway_rpc::Status>(())
    /// ```
    pub fn json_gateway(mut self, path: &str, method: &str) -> Self {
        self.http.gateway.insert(path.to_owned(), method.to_owned());
        self
    }
}
