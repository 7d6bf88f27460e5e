//! HTTP/1.1 by hyper on our runtime: hyper reads and writes through the connection's copying face,
//! and its timeouts and tasks are those of the core.
//!
//! Run it: `cargo run --release --example hyper_hello`; ask it: `curl http://127.0.0.1:8080/you`.
//! An argument is the address to listen on.

use std::convert::Infallible;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use ringway::net::{Connection, HyperTimer, Server};

fn main() -> ringway::Result {
    let address = std::env::args().nth(1).unwrap_or("tcp://127.0.0.1:8080".into());
    let server = Server::bind(address.as_str())?;
    let server = server.on_ready(|addresses| println!("listening on {}", addresses[0]));
    server.serve(async |connection: Connection| {
        http1::Builder::new()
            .timer(HyperTimer)
            .header_read_timeout(Duration::from_secs(10))
            .serve_connection(connection.into_io(), service_fn(hello))
            .await
            .map_err(ringway::Error::other)
    })
}

async fn hello(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let name = match request.uri().path() {
        "/" => "world",
        path => &path[1..],
    };
    Ok(Response::new(Full::from(format!("Hello, {name}!\n"))))
}
