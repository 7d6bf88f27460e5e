//! A service whose handlers query MongoDB: each core has connections of its own, so a call and its query stay on
//! the core that received it.
//!
//! Run it: `cargo run --release --example mongo_rpc -- mongodb://127.0.0.1`. It calls itself and ends.

use ringway::mongo::bson::doc;
use ringway::mongo::{Client, Collection, Error};
use ringway::rpc::{Server, Status};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Book {
    title: String,
    year: i32,
}

#[ringway::service(package = "library.v1")]
trait Library {
    async fn add(&self, book: Book) -> Result<(), Status>;
    async fn find(&self, title: String) -> Result<Book, Status>;
}

struct Shelf {
    books: Collection<Book>,
}

impl Library for Shelf {
    async fn add(&self, book: Book) -> Result<(), Status> {
        let (title, document) = (book.title.clone(), doc! { "$set": { "year": book.year } });
        self.books
            .update_one(doc! { "title": title }, document)
            .upsert(true)
            .await
            .map_err(status)?;
        Ok(())
    }

    async fn find(&self, title: String) -> Result<Book, Status> {
        let found = self.books.find_one(doc! { "title": &title }).await.map_err(status)?;
        found.ok_or_else(|| Status::not_found(format!("there is no {title}")))
    }
}

/// What callers may know of an error. It may name servers, so its text is for the log.
fn status(error: Error) -> Status {
    eprintln!("the database: {error}");
    match error.may_have_happened() {
        true => Status::internal("the database did not confirm it"),
        false => Status::unavailable("the database cannot be reached"),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "mongodb://127.0.0.1".into());
    let books = Client::connect(&uri)?.database("library").collection("books");
    let service = LibraryServer::new(Shelf { books });
    let server = Server::bind("tcp://127.0.0.1:0")?.service(service).start()?;
    println!("listening on {}", server.addresses()[0]);

    let library = LibraryClient::connect(&server.addresses()[0])?;
    library.add(Book { title: "Emma".into(), year: 1815 }).wait()?;
    println!("found: {:?}", library.find("Emma".into()).wait()?);
    match library.find("Ulysses".into()).wait() {
        Err(status) if status.is_not_found() => println!("refused: {}", status.message()),
        outcome => println!("unexpected: {outcome:?}"),
    }

    server.shutdown();
    server.wait()?;
    Ok(())
}
