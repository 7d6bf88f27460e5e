//! The client of MongoDB's driver, against a server of the test that knows a few commands.

mod coming;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Output};

use mongodb::bson::{Document, RawDocument, doc};

use crate::process::{BINARY, measured, number, serve_in_test, stdout};

fn run(op: &str, address: &str, seconds: &str) -> Output {
    run_with(&[], op, address, seconds)
}

fn run_with(more: &[&str], op: &str, address: &str, seconds: &str) -> Output {
    let words = ["client", "mongo", "--addr", address, "--op", op, "-c", "2", "-d", seconds];
    let mut command = Command::new(BINARY);
    command.args(words).args(["--warmup", "0.05"]).args(more).output().expect("the client starts")
}

#[test]
fn replies_are_counted_and_compared() {
    let address = serve_in_test(|stream| serve(stream, 0));
    for op in ["ping", "find_one", "insert_one", "mixed"] {
        measured(op, "messages", |seconds| run(op, &address, seconds));
        measured(op, "messages", |seconds| run_with(&["--sync"], op, &address, seconds));
    }
}

#[test]
fn the_document_of_another_request_is_a_mismatch() {
    let address = serve_in_test(|stream| serve(stream, 1));
    let output = run("find_one", &address, "0.2");
    let json = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{json}");
    assert!(number(&json, "mismatches") > 0.0 && number(&json, "messages") == 0.0, "{json}");
}

/// Answers one connection to its end. Documents have the `_id` that was asked for, and `shift` more.
fn serve(stream: &mut TcpStream, shift: i32) {
    loop {
        let mut header = [0; 21];
        if stream.read_exact(&mut header).is_err() {
            return;
        }
        let number = |at: usize| i32::from_le_bytes(header[at..at + 4].try_into().expect("four"));
        let mut rest = vec![0; number(0) as usize - header.len()];
        stream.read_exact(&mut rest).expect("a whole message");
        // A client that knows nothing of the server asks by OP_QUERY: a number of flags, then the name of a
        // collection, two numbers and a document.
        let is_query = number(12) == 2004;
        let answer = if is_query {
            hello()
        } else {
            let len = i32::from_le_bytes(rest[..4].try_into().expect("four")) as usize;
            answer(RawDocument::from_bytes(&rest[..len]).expect("a document"), shift)
        };
        let mut out = Vec::new();
        let (opcode, front): (i32, &[u8]) = match is_query {
            true => (1, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]),
            false => (2013, &[0; 5]),
        };
        let body = answer.to_vec().expect("a document");
        let len = (16 + front.len() + body.len()) as i32;
        for number in [len, 1, number(4), opcode] {
            out.extend(number.to_le_bytes());
        }
        out.extend(front);
        out.extend(body);
        if stream.write_all(&out).is_err() {
            return;
        }
    }
}

fn answer(command: &RawDocument, shift: i32) -> Document {
    let first = command.iter().next().expect("a name").expect("well formed");
    match first.0.as_str() {
        "hello" | "isMaster" | "ismaster" => hello(),
        "find" => {
            let filter = command.get_document("filter").expect("a filter");
            let id = filter.get_i32("_id").expect("a number") + shift;
            let check = id.wrapping_mul(0x19E3_779B).rotate_left(7);
            let book = doc! { "_id": id, "batch": id / 1000, "check": check };
            let cursor = doc! { "id": 0_i64, "ns": "ringway_bench.books", "firstBatch": [book] };
            doc! { "cursor": cursor, "ok": 1 }
        }
        "insert" => doc! { "n": 1, "ok": 1 },
        _ => doc! { "ok": 1 },
    }
}

fn hello() -> Document {
    doc! {
        "helloOk": true, "isWritablePrimary": true, "ismaster": true,
        "maxBsonObjectSize": 16 << 20, "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000,
        "logicalSessionTimeoutMinutes": 30, "connectionId": 1,
        "minWireVersion": 0, "maxWireVersion": 21, "readOnly": false, "ok": 1,
    }
}
