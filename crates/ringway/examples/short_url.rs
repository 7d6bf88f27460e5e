//! Short addresses: `/key` is redirected to where a table says, and the table can be added to.
//!
//! Run it: `cargo run --release --example short_url`; add to it by
//! `curl -d https://example.org/ http://127.0.0.1:8080/docs`, and follow
//! `http://127.0.0.1:8080/docs`. An argument is the address to listen on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use ringway::http::http::{HeaderValue, StatusCode, header::LOCATION};
use ringway::http::{Error, Request, Response, Router, param, serve, status, text};
use ringway::net::Server;

/// Addresses by key, shared by all cores.
type Table = Arc<Mutex<HashMap<String, String>>>;

fn main() -> ringway::Result {
    let address = std::env::args().nth(1).unwrap_or("tcp://127.0.0.1:8080".into());
    let table = Table::default();
    let adding = table.clone();
    let routes = Router::new()
        .get("/{key}", async move |request| redirect(&table, &request))
        .post("/{key}", async move |request| add(&adding, request).await);
    let server = Server::bind(address.as_str())?;
    server.on_ready(|addresses| println!("listening on {}", addresses[0])).serve(serve(routes))
}

fn redirect(table: &Table, request: &Request) -> Result<Response, Error> {
    let key = param(request, "key");
    let Some(url) = table.lock().expect("no panic").get(key).cloned() else {
        return Err(Error::not_found(format!("nobody has added {key}")));
    };
    let url = HeaderValue::try_from(url).map_err(|error| Error::internal(error.to_string()))?;
    let mut reply = status(StatusCode::FOUND);
    reply.headers_mut().insert(LOCATION, url);
    Ok(reply)
}

async fn add(table: &Table, request: Request) -> Result<Response, Error> {
    let key = param(&request, "key").to_owned();
    let url = String::from_utf8(request.into_body().bytes().await?.into()).unwrap_or_default();
    // A line break would be another header, and a long address would be kept and sent as one.
    if url.len() > URL_BYTES_MAX
        || !url.starts_with("http")
        || url.contains(|letter: char| !letter.is_ascii_graphic())
    {
        return Err(Error::bad_request("send the address to go to, such as https://example.org/"));
    }
    let mut table = table.lock().expect("no panic");
    if table.len() >= KEYS_MAX && !table.contains_key(&key) {
        return Err(Error::unavailable("the table is full"));
    }
    table.insert(key, url);
    Ok(text("added\n"))
}

const KEYS_MAX: usize = 100_000;
const URL_BYTES_MAX: usize = 2048;
