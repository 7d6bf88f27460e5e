//! An HTTP service: JSON under a path, the files of a folder, and a WebSocket that counts along.
//!
//! Run it: `cargo run --release --example http_service tcp://127.0.0.1:8080 ./www`; then open
//! `http://127.0.0.1:8080/`, or `curl -d '{"by":2}' http://127.0.0.1:8080/counters/visits`.
//! The arguments are the address to listen on and the folder with the files.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use ringway::http::{
    Error, Files, Request, Response, Router, WebSocketUpgrade, json, param, serve,
};
use ringway::net::Server;

/// Counters by name, shared by all cores.
type Counters = Arc<Mutex<HashMap<String, u64>>>;

#[derive(serde::Deserialize)]
struct Add {
    by: u64,
}

fn main() -> ringway::Result {
    let mut args = std::env::args().skip(1);
    let address = args.next().unwrap_or("tcp://127.0.0.1:8080".into());
    let folder = args.next().unwrap_or("./www".into());

    let counters = Counters::default();
    let (reading, adding, following) = (counters.clone(), counters.clone(), counters);
    let routes = Router::new()
        .get("/counters/{name}", async move |request| read(&reading, &request))
        .post("/counters/{name}", async move |request| add(&adding, request).await)
        .get("/follow", async move |request| follow(following.clone(), request))
        .files("/", Files::new(folder).cache_control("max-age=60"));

    let server = Server::bind(address.as_str())?;
    server.on_ready(|addresses| println!("listening on {}", addresses[0])).serve(serve(routes))
}

fn read(counters: &Counters, request: &Request) -> Result<Response, Error> {
    let name = param(request, "name");
    match counters.lock().expect("no panic").get(name) {
        Some(count) => json(count),
        None => Err(Error::not_found(format!("there is no counter {name}"))),
    }
}

async fn add(counters: &Counters, request: Request) -> Result<Response, Error> {
    let name = param(&request, "name").to_owned();
    let Add { by } = request.into_body().json().await?;
    let mut counters = counters.lock().expect("no panic");
    let count = counters.entry(name).or_default();
    *count = count.saturating_add(by);
    json(count)
}

/// Answers each text, the name of a counter, with its count.
fn follow(counters: Counters, request: Request) -> Result<Response, Error> {
    WebSocketUpgrade::new(request).answer(async move |socket| {
        while let Some(message) = socket.recv().await? {
            let name = message.as_text().unwrap_or_default();
            let count = counters.lock().expect("no panic").get(name).copied();
            socket.send(count.unwrap_or(0).to_string()).await?;
        }
        Ok(())
    })
}
