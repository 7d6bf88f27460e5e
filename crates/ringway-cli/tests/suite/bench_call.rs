//! `ringway bench call` as a user meets it: load on services of a user's own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use bytes::Bytes;
use ringway_rpc::{Context, Next, Server, ServerHandle, Sink, Status, Streaming, service};
use serde_json::Value;

use crate::support;
use crate::support::{Ended, run};

#[service(package = "shop.v1", crate = "ringway_rpc")]
trait Shop {
    async fn greet(&self, name: String) -> Result<String, Status>;
    async fn double(&self, number: u64) -> Result<u64, Status>;
    async fn raw(&self, request: Bytes) -> Result<Bytes, Status>;
    /// Every third call is refused.
    async fn scarce(&self, name: String) -> Result<String, Status>;
    /// Every fourth reply is wrong.
    async fn odd(&self, name: String) -> Result<String, Status>;
    async fn three(&self, name: String, replies: Sink<String>) -> Result<(), Status>;
    /// Succeeds without a reply.
    async fn nothing(&self, name: String, replies: Sink<String>) -> Result<(), Status>;
    async fn last(&self, names: Streaming<String>) -> Result<String, Status>;
    async fn echo(&self, names: Streaming<String>, replies: Sink<String>) -> Result<(), Status>;
}

#[derive(Default)]
struct Counting {
    calls: AtomicU64,
    /// Hears of calls of `double`, as far as it has room.
    heard: Option<SyncSender<()>>,
}

impl Shop for Counting {
    async fn greet(&self, name: String) -> Result<String, Status> {
        Ok(format!("Hello, {name}!"))
    }

    async fn double(&self, number: u64) -> Result<u64, Status> {
        self.heard.as_ref().inspect(|heard| _ = heard.try_send(()));
        Ok(2 * number)
    }

    async fn raw(&self, request: Bytes) -> Result<Bytes, Status> {
        Ok(request)
    }

    async fn scarce(&self, name: String) -> Result<String, Status> {
        match self.calls.fetch_add(1, Ordering::Relaxed) % 3 {
            0 => Err(Status::failed_precondition("sold out")),
            _ => Ok(name),
        }
    }

    async fn odd(&self, name: String) -> Result<String, Status> {
        match self.calls.fetch_add(1, Ordering::Relaxed) % 4 {
            0 => Ok("\x1b[2Jnobody".to_owned()),
            _ => Ok(name),
        }
    }

    async fn three(&self, name: String, mut replies: Sink<String>) -> Result<(), Status> {
        for _ in 0..3 {
            replies.send(name.clone()).await?;
        }
        Ok(())
    }

    async fn nothing(&self, _: String, _: Sink<String>) -> Result<(), Status> {
        Ok(())
    }

    async fn last(&self, mut names: Streaming<String>) -> Result<String, Status> {
        let mut last = String::new();
        while let Some(name) = names.next().await? {
            last = name;
        }
        Ok(last)
    }

    async fn echo(
        &self,
        mut names: Streaming<String>,
        mut replies: Sink<String>,
    ) -> Result<(), Status> {
        while let Some(name) = names.next().await? {
            replies.send(name).await?;
        }
        Ok(())
    }
}

fn serve() -> (ServerHandle, String) {
    let server = Server::bind("tcp://127.0.0.1:0").expect("a port").threads(1);
    let server = server.service(ShopServer::new(Counting::default())).start().expect("it starts");
    let address = server.addresses()[0].to_string();
    (server, address)
}

/// One short run.
fn bench(address: &str, words: &str) -> Ended {
    run(&format!("bench call {address} shop.v1.Shop/{words} -d 0.05 --warmup 0 --repeat 1"))
}

/// The rows of one that exits with `code`.
#[track_caller]
fn rows(address: &str, words: &str, code: i32) -> Vec<Value> {
    let ended = bench(address, &format!("{words} --format json"));
    assert_eq!(ended.status.code(), Some(code), "{words}: {}{}", ended.out, ended.err);
    let report: Value = serde_json::from_str(&ended.out).expect("one JSON object");
    report["rows"].as_array().expect("an array").clone()
}

#[track_caller]
fn number(row: &Value, name: &str) -> u64 {
    row[name].as_u64().unwrap_or_else(|| panic!("{name}: {row}"))
}

#[test]
fn every_kind_of_method_and_message_is_called() {
    let (server, address) = serve();
    for words in [
        "Greet Ada --expect Hello,\u{a0}Ada!",
        "Greet \"Ada\" --expect \"Hello,\u{a0}Ada!\"",
        "Double 21 --expect 42",
        "Raw x --expect x",
        "Raw x --expect x --binary",
        "Three Ada --expect Ada",
        "Last Ada --expect Ada",
        "Echo Ada --expect Ada",
    ] {
        // The words are split at ASCII spaces; the reply has one.
        let words: Vec<String> = words.split(' ').map(|word| word.replace('\u{a0}', " ")).collect();
        let method = format!("shop.v1.Shop/{}", words[0]);
        let fixed = "-c 2 -p 3 -d 0.05 --warmup 0 --repeat 1 --format json".split(' ');
        let all = ["bench", "call", &address, &method].into_iter();
        let all = all.chain(words[1..].iter().map(String::as_str)).chain(fixed);
        let ended = support::Ringway::start_with(all).wait();
        assert_eq!(ended.status.code(), Some(0), "{words:?}: {}{}", ended.out, ended.err);
        let report: Value = serde_json::from_str(&ended.out).expect("one JSON object");
        let row = &report["rows"][0];
        assert!(number(row, "verified") > 0 && number(row, "errors") == 0, "{row}");
        assert!(row["rate"].as_f64().is_some_and(|rate| rate > 0.0), "{row}");
        let parameters = &row["parameters"];
        assert_eq!((&row["suite"], &row["unit"]), (&"call".into(), &"calls/s".into()));
        assert_eq!(parameters["method"], method);
        assert_eq!((&parameters["connections"], &parameters["depth"]), (&2.into(), &3.into()));
    }
    server.abort();
}

#[test]
fn calls_that_fail_are_counted_by_their_status() {
    let (server, address) = serve();
    let row = &rows(&address, "Scarce x -c 2 -p 4", 1)[0];
    let failed = number(row, "errors");
    assert!(failed > 1, "a lane goes on after a call that failed: {row}");
    assert_eq!(number(&row["errors_by_status"], "FAILED_PRECONDITION"), failed, "{row}");
    assert_eq!(number(&row["errors_by_kind"], "other"), failed, "{row}");
    assert!(row["rate"].as_f64().is_some_and(|rate| rate > 0.0), "{row}");
    let warning = row["warnings"][0].as_str().expect("what the first one said");
    assert!(warning.contains("FAILED_PRECONDITION: sold out"), "{warning}");
    let table = bench(&address, "Scarce x -c 1");
    assert!(table.out.contains(" FAILED_PRECONDITION\n"), "{}", table.out);
    assert!(!table.out.contains(" other\n"), "{}", table.out);
    server.abort();
}

#[test]
fn a_reply_that_was_not_expected_is_an_error() {
    let (server, address) = serve();
    let row = &rows(&address, "Odd Ada --expect Ada -c 1 -p 2", 1)[0];
    let wrong = number(&row["errors_by_kind"], "mismatched");
    assert!(wrong > 0 && number(row, "errors") == wrong, "{row}");
    assert!(number(row, "verified") > wrong, "{row}");
    assert_eq!(row["errors_by_status"], serde_json::json!({}), "{row}");
    let warning = row["warnings"][0].as_str().expect("what it was");
    assert!(warning.ends_with("--expect says: \"\\u001b[2Jnobody\""), "{warning}");
    // Who expects nothing compares nothing.
    let ended = bench(&address, "Odd Ada -c 1");
    assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
    assert!(ended.out.contains("no reply was compared"), "{}", ended.out);
    server.abort();
}

#[test]
fn no_reply_is_not_the_one_that_was_expected() {
    let (server, address) = serve();
    let row = &rows(&address, "Nothing Ada --expect Ada -c 1", 1)[0];
    assert!(number(&row["errors_by_kind"], "mismatched") > 0, "{row}");
    assert!(row["rate"] == 0.0 && row["max_us"].is_null(), "{row}");
    let warning = row["warnings"][0].as_str().expect("what it was");
    assert!(warning.contains("without a reply"), "{warning}");
    assert_eq!(bench(&address, "Nothing Ada -c 1").status.code(), Some(0), "nothing was expected");
    server.abort();
}

#[test]
fn an_open_loop_calls_as_often_as_was_asked_for() {
    let (server, address) = serve();
    let row = &rows(&address, "Greet Ada --rate 2000 -c 2", 0)[0];
    assert_eq!(
        (&row["parameters"]["due"], &row["open_loop"]["due"]),
        (&2000.into(), &2000.0.into())
    );
    // Without a pace there are tens of thousands; a stall moves some out of the interval.
    assert!(row["rate"].as_f64().is_some_and(|rate| (1.0..=4000.0).contains(&rate)), "{row}");
    let many = &rows(&address, "Greet Ada -c 1,2 -p 1,4", 0);
    assert_eq!(many.len(), 4);
    server.abort();
}

#[test]
fn what_cannot_be_measured_is_said_before_the_clock_starts() {
    let (server, address) = serve();
    let fails = |words: &str, part: &str| {
        let ended = bench(&address, words);
        assert_eq!((ended.status.code(), &*ended.out), (Some(1), ""), "{words}");
        assert!(ended.err.contains(part), "{words}: {}", ended.err);
        assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
    };
    fails("Great Ada", "has no method Great; it has Greet, ");
    fails("Double x", "the request is not google.protobuf.UInt64Value as JSON");
    fails("Double 1 --expect x", "--expect is not google.protobuf.UInt64Value as JSON");
    let nobody = run("bench call unix:///tmp/ringway-nobody.sock a.B/C");
    assert!(nobody.err.contains("UNAVAILABLE"), "{}", nobody.err);
    server.abort();
}

#[test]
fn metadata_goes_with_every_call() {
    let server = Server::bind("tcp://127.0.0.1:0").expect("a port").threads(1);
    let server = server.service(ShopServer::new(Counting::default()));
    let server = server.intercept(async |context: Context, next: Next| {
        match context.metadata().get("authorization") {
            Some("sesame") => next.run(context).await,
            _ => Err(Status::unauthenticated("a token is needed")),
        }
    });
    let server = server.start().expect("it starts");
    let address = server.addresses()[0].to_string();
    let row = &rows(&address, "Greet Ada -H authorization=sesame -c 2", 0)[0];
    assert!(row["rate"].as_f64().is_some_and(|rate| rate > 0.0), "{row}");
    let ended = bench(&address, "Greet Ada");
    assert!(ended.err.contains("UNAUTHENTICATED"), "{}", ended.err);
    server.abort();
}

/// Each call fails at once, without a wait of its client in which something else could run.
#[test]
fn calls_that_fail_by_themselves_leave_the_clock_running() {
    let (server, address) = serve();
    let words = format!("bench call {address} shop.v1.Shop/Raw - -c 1 -d 0.05 --warmup 0");
    let words = format!("{words} --repeat 1 --format json");
    let ended = support::run_with_input(&words, &"x".repeat(20 << 20));
    assert_eq!(ended.status.code(), Some(1), "{}", ended.err);
    let report: Value = serde_json::from_str(&ended.out).expect("one JSON object");
    let row = &report["rows"][0];
    assert!(number(&row["errors_by_status"], "RESOURCE_EXHAUSTED") > 1, "{row}");
    server.abort();
}

/// The server goes while it is measured: the bench ends, and says what became of the calls.
#[test]
fn a_server_that_goes_is_counted_and_not_waited_for() {
    let (heard, calls) = sync_channel(1);
    let service = Counting { heard: Some(heard), ..Counting::default() };
    let server = Server::bind("tcp://127.0.0.1:0").expect("a port").threads(1);
    let server = server.service(ShopServer::new(service)).start().expect("it starts");
    let address = &server.addresses()[0];
    let words = format!("bench call {address} shop.v1.Shop/Double 1 -c 2 -d 1 --repeat 1");
    let bench = support::Ringway::start(&format!("{words} --warmup 0 --format json"));
    calls.recv_timeout(Duration::from_secs(60)).expect("the bench calls");
    server.abort();
    let ended = bench.wait();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.err);
    let report: Value = serde_json::from_str(&ended.out).expect("one JSON object");
    let row = &report["rows"][0];
    assert!(number(&row["errors_by_status"], "UNAVAILABLE") > 0, "{row}");
}
