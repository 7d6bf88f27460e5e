//! axum on tokio queries MongoDB: the client is `Send + Sync`, and a core of ours in the background has the
//! connections.
//!
//! Run it: `cargo run --release --example mongo_axum -- mongodb://127.0.0.1`, then `curl` the address it prints with
//! `/books/Emma`. It ends on Ctrl-C and SIGTERM.

use std::error::Error;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, put};
use ringway::mongo::bson::doc;
use ringway::mongo::{Client, Collection};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Serialize, Deserialize)]
struct Book {
    title: String,
    year: i32,
}

type Books = Collection<Book>;

async fn find(State(books): State<Books>, Path(title): Path<String>) -> Result<String, StatusCode> {
    let book = books.find_one(doc! { "title": title }).await.map_err(status)?;
    book.map(|book| book.year.to_string()).ok_or(StatusCode::NOT_FOUND)
}

async fn store(
    State(books): State<Books>,
    Path((title, year)): Path<(String, i32)>,
) -> Result<StatusCode, StatusCode> {
    let year = doc! { "$set": { "year": year } };
    let stored = books.update_one(doc! { "title": title }, year).upsert(true).await;
    stored.map_err(status)?;
    Ok(StatusCode::NO_CONTENT)
}

fn status(error: ringway::mongo::Error) -> StatusCode {
    eprintln!("the database: {error}");
    match error.is_timeout() {
        true => StatusCode::GATEWAY_TIMEOUT,
        false => StatusCode::BAD_GATEWAY,
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "mongodb://127.0.0.1".into());
    let books: Books = Client::connect(&uri)?.database("axum").collection("books");
    let routes = Router::new()
        .route("/books/{title}", get(find))
        .route("/books/{title}/{year}", put(store))
        .with_state(books);
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}", listener.local_addr()?);
    let end = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    Ok(axum::serve(listener, routes).with_graceful_shutdown(end).await?)
}
