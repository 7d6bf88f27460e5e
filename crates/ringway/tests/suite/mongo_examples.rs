//! The examples of the MongoDB client, each a process, against FerretDB, which is built by Go.

#[path = "../../../ringway-mongo/tests/suite/support/ferret.rs"]
#[expect(dead_code, reason = "the examples want its address, and not its place alone")]
mod ferret;

use std::io::{Read, Write};

use ferret::Ferret;

use crate::alone;
use crate::example::{Example, connect};

/// Starts a server, and an example that talks to it; `None` where there is no Go.
fn start(name: &'static str) -> Option<(Ferret, Example)> {
    let ferret = Ferret::start()?;
    let example = Example::start(name, &[&ferret.address]);
    Some((ferret, example))
}

/// What an example prints that ends by itself.
fn lines(name: &'static str) -> Option<Vec<String>> {
    let (_ferret, example) = start(name)?;
    let lines = example.rest();
    example.wait();
    Some(lines)
}

/// The number in the line that starts with `label`.
fn number(lines: &[String], label: &str) -> f64 {
    let line = lines.iter().find_map(|line| line.strip_prefix(label));
    let line = line.unwrap_or_else(|| panic!("no {label:?} in {lines:?}"));
    line.trim_start_matches(": ").parse().expect("a number")
}

#[test]
fn mongo_quickstart() {
    let Some(lines) = lines("mongo_quickstart") else { return };
    let emma = r#"{ "_id": 1, "title": "Emma", "year": 1816 }"#;
    let middlemarch = r#"{ "_id": 2, "title": "Middlemarch", "year": 1872 }"#;
    let first = ["found: Some(3)", "refused: the _id is taken", "changed: 2"];
    assert_eq!(lines[..3], first);
    assert_eq!(lines[3..], [emma, middlemarch, "removed: 1", "left: 1"]);
}

#[test]
fn mongo_typed() {
    let Some(lines) = lines("mongo_typed") else { return };
    let paid = r#"paid: Some(Account { name: "ada", cents: 750 })"#;
    assert_eq!(lines[..4], ["opened: 3", paid, "grace has 1200", "ada has 750"]);
    assert!(lines[4].starts_with("does not fit: ") && lines[4].contains("cents"), "{lines:?}");
}

#[test]
fn mongo_cursor() {
    let Some(lines) = lines("mongo_cursor") else { return };
    assert_eq!(lines[..2], ["documents: 100000", "sum: 299995"]);
    let (all, more) =
        (number(&lines, "KiB of documents"), number(&lines, "KiB more than before at the most"));
    assert!(all > 30_000.0 && more < all / 4.0, "all batches were in memory: {lines:?}");
}

#[test]
fn mongo_bulk() {
    let Some(lines) = lines("mongo_bulk") else { return };
    let failed = "  write 1 failed with code 11000";
    assert_eq!(lines[..3], ["ordered: true", failed, "  inserted 1, modified 0, deleted 0"]);
    assert_eq!(lines[3..], ["ordered: false", failed, "  inserted 2, modified 1, deleted 1"]);
}

#[test]
fn mongo_pipeline() {
    let Some(lines) = lines("mongo_pipeline") else { return };
    assert_eq!(lines[..2], ["one by one: 20160", "pipelined: 20160"]);
    assert!(number(&lines, "times as fast") > 0.0, "{lines:?}");
}

#[test]
fn mongo_gridfs() {
    let Some(lines) = lines("mongo_gridfs") else { return };
    assert!(lines[0].starts_with("read 2621440 of 2621440 bytes in "), "{lines:?}");
    let expected = ["across the first border: [0, 0, 1, 1]", "latest revision: short"];
    assert_eq!(lines[1..3], expected);
    assert_eq!(lines[3..], ["left: 5 bytes", "the first is gone"]);
}

#[test]
fn mongo_rpc() {
    let Some((_ferret, example)) = start("mongo_rpc") else { return };
    example.listening();
    let found = r#"found: Book { title: "Emma", year: 1815 }"#;
    assert_eq!(example.rest(), [found, "refused: there is no Ulysses"]);
    example.wait();
}

#[test]
fn mongo_axum() {
    let Some((_ferret, example)) = start("mongo_axum") else { return };
    let (_, address) = example.listening();
    let ask = |request: &str| {
        let mut socket = connect(address);
        let rest = "HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        socket.write_all(format!("{request} {rest}").as_bytes()).expect("a request");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("an answer");
        answer
    };
    assert!(ask("GET /books/Emma").starts_with("HTTP/1.1 404 "));
    assert!(ask("PUT /books/Emma/1815").starts_with("HTTP/1.1 204 "));
    let found = ask("GET /books/Emma");
    assert!(found.starts_with("HTTP/1.1 200 ") && found.ends_with("\r\n1815"), "{found}");
    example.stop();
}
