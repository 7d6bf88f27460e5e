//! What operations allocate in the steady state.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use bson::{RawDocumentBuf, doc, rawdoc};
use ringway_mongo::{Collection, Database};

use crate::support::allocations::allocations;
use crate::support::alone::alone;
use crate::support::fake::{hello, last_batch, reply};
use crate::support::{client, on_core};

/// Operations before counting begins, so that buffers and lists grow to what they need.
const WARM_UP: usize = 100;

const COUNTED: usize = 1_000;

/// Timers and lists grow now and then.
const SLACK: usize = 16;

/// Bytes of a command of this test, at the most.
const COMMAND_MAX: usize = 4 << 10;

/// Where the name of a command begins: behind the header, the flags, the kind of the section, the length of the document
/// and the type of its first field.
const NAME_AT: usize = 16 + 4 + 1 + 4 + 1;

/// Answers everything but `hello` with one document. It allocates nothing, because the counter is that of the process.
fn answer_all(mut stream: TcpStream) {
    let mut greeting = reply(0, &hello());
    let mut batch = reply(0, &last_batch(vec![doc! { "_id": 7, "title": "Emma" }]));
    let mut message = [0; COMMAND_MAX];
    while stream.read_exact(&mut message[..4]).is_ok() {
        let len = u32::from_le_bytes(message[..4].try_into().expect("four")) as usize;
        stream.read_exact(&mut message[4..len]).expect("a whole command");
        let is_hello = message[NAME_AT..].starts_with(b"isMaster\0");
        let out = if is_hello { &mut greeting } else { &mut batch };
        out[8..12].copy_from_slice(&message[4..8]);
        stream.write_all(out).expect("the client reads");
    }
}

fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("mongodb://{}", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.expect("a connection");
            thread::spawn(move || answer_all(stream));
        }
    });
    address
}

/// The fewest allocations of so many operations in three rounds. `operate` is given the documents of a round.
async fn fewest(operate: impl AsyncFn(Vec<RawDocumentBuf>)) -> usize {
    let mut fewest = usize::MAX;
    for count in [WARM_UP, COUNTED, COUNTED, COUNTED] {
        let documents = vec![rawdoc! { "_id": 7 }; count];
        let before = allocations();
        operate(documents).await;
        if count == COUNTED {
            fewest = fewest.min(allocations() - before);
        }
    }
    fewest
}

fn assert_each(what: &str, allocated: usize, most: usize) {
    println!("{what}: {:.3} allocations", allocated as f64 / COUNTED as f64);
    assert!(allocated <= most * COUNTED + SLACK, "{what}: {allocated} in {COUNTED} operations");
}

fn books(database: &Database) -> Collection<RawDocumentBuf> {
    database.collection("c")
}

#[test]
fn an_operation_allocates_its_future_and_what_it_returns() {
    alone(|| {
        let address = serve();
        on_core(async move {
            let database = client(&address).database("d");
            let books = books(&database);
            let pinged = fewest(async |documents| {
                for _ in documents {
                    database.ping().await.expect("an answer");
                }
            });
            assert_each("ping", pinged.await, 1);
            let found = fewest(async |filters| {
                for filter in filters {
                    let book = books.find_one(filter).await.expect("an answer").expect("a book");
                    assert_eq!(book.get_i32("_id").ok(), Some(7));
                }
            });
            assert_each("find_one, with the document", found.await, 2);
            let new = rawdoc! { "title": "Emma" };
            let inserted = fewest(async |documents| {
                for _ in documents {
                    books.insert_one(&new).await.expect("an answer");
                }
            });
            // Encoded once for serde, and once behind its `_id`.
            assert_each("insert_one", inserted.await, 4);
        });
    });
}
