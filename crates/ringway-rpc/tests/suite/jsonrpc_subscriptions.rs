//! Server streams over JSON-RPC: subscriptions.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

use ringway_rpc::ServerHandle;
use serde_json::Value;

use crate::support::json_lines::JsonLines;
use crate::support::math::{Plain, serve_math};
use crate::support::{LIMIT, end, eventually, socket_addr};

fn serve(plain: &Plain) -> ServerHandle {
    serve_math("tcp://127.0.0.1:0".parse().expect("an address"), plain, |server| server)
}

fn repeat(text: &str, times: u64) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"repeat","params":["{text}",{times}],"id":"r"}}"#)
}

fn json(line: &str) -> Value {
    serde_json::from_str(line).expect("JSON")
}

/// Subscribes and returns the subscription's id.
#[track_caller]
fn subscribe(connection: &mut JsonLines, text: &str, times: u64) -> u64 {
    let answer = json(&connection.ask(&repeat(text, times)));
    assert_eq!(answer["id"], "r", "{answer}");
    answer["result"].as_u64().expect("an id")
}

#[track_caller]
fn item(connection: &mut JsonLines, id: u64, text: &str) {
    let expected = format!(
        r#"{{"jsonrpc":"2.0","method":"spec.v1.Math/Repeat","params":{{"subscription":{id},"result":"{text}"}}}}"#
    );
    assert_eq!(connection.line(), expected);
}

#[test]
fn messages_are_notifications_and_the_end_is_one_too() {
    let handle = serve(&Plain::default());
    let mut connection = JsonLines::tcp(socket_addr(&handle));
    let mut ids = Vec::new();
    for times in [0, 3, 1] {
        let id = subscribe(&mut connection, "tick", times);
        for _ in 0..times {
            item(&mut connection, id, "tick");
        }
        let end = json(&connection.line());
        assert_eq!(end["params"], serde_json::json!({"subscription": id, "end": true}));
        ids.push(id);
    }
    ids.dedup();
    assert_eq!(ids.len(), 3, "no id is used twice");
    let id = subscribe(&mut connection, "fail", 1);
    item(&mut connection, id, "fail");
    let failed = json(&connection.line());
    let error = serde_json::json!({"code": -32015, "message": "lost", "data": [1]});
    assert_eq!(failed["params"], serde_json::json!({"subscription": id, "error": error}));
    assert!(failed.get("id").is_none());
    end(handle);
}

#[test]
fn a_subscription_that_is_refused_is_an_error() {
    let handle = serve(&Plain::default());
    let mut connection = JsonLines::tcp(socket_addr(&handle));
    assert_eq!(
        connection.ask(&repeat("", 1)),
        r#"{"jsonrpc":"2.0","error":{"code":-32602,"message":"there is no text"},"id":"r"}"#
    );
    let in_batch = connection.ask(&format!("[{}]", repeat("tick", 1)));
    assert_eq!(json(&in_batch)[0]["error"]["code"], -32601, "{in_batch}");
    connection.send("{\"jsonrpc\":\"2.0\",\"method\":\"repeat\",\"params\":[\"a\",1]}\n");
    assert_eq!(json(&connection.ask(&repeat("", 1)))["id"], "r", "a notification has no answer");
    end(handle);
}

#[test]
fn who_has_heard_enough_unsubscribes() {
    let plain = Plain::default();
    let handle = serve(&plain);
    let mut connection = JsonLines::tcp(socket_addr(&handle));
    let [first, second] = [0; 2].map(|_| {
        let id = subscribe(&mut connection, "stay", 1);
        item(&mut connection, id, "stay");
        id
    });
    let unsubscribe = |params: String| {
        format!(r#"{{"jsonrpc":"2.0","method":"rpc.unsubscribe","params":{params},"id":1}}"#)
    };
    for (params, result) in [
        (format!("[{first}]"), true),
        (format!("[{first}]"), false),
        (format!(r#"{{"subscription":{second}}}"#), true),
        ("[\"x\"]".into(), false),
        ("[]".into(), false),
    ] {
        let answer = connection.ask(&unsubscribe(params.clone()));
        assert_eq!(answer, format!(r#"{{"jsonrpc":"2.0","result":{result},"id":1}}"#), "{params}");
    }
    eventually("handlers are dropped", || plain.seen.dropped.load(Ordering::SeqCst) == 2);
    eventually("they are counted", || handle.stats().cancelled == 2);
    end(handle);
}

#[test]
fn a_slow_reader_makes_its_handler_wait() {
    let plain = Plain::default();
    let handle = serve(&plain);
    let mut connection = JsonLines::tcp(socket_addr(&handle));
    let text = "x".repeat(50_000);
    let times = 600;
    let id = subscribe(&mut connection, &text, times);
    // Meanwhile another connection is served, and little of the 30 MB is held for the slow one.
    let mut other = JsonLines::tcp(socket_addr(&handle));
    let sum = r#"{"jsonrpc":"2.0","method":"sum","params":[1],"id":1}"#;
    for _ in 0..100 {
        assert_eq!(other.ask(sum), r#"{"jsonrpc":"2.0","result":1,"id":1}"#);
    }
    assert_eq!(plain.seen.dropped.load(Ordering::SeqCst), 0, "the handler waits");
    for _ in 0..times {
        item(&mut connection, id, &text);
    }
    assert_eq!(json(&connection.line())["params"]["end"], true);
    end(handle);
}

/// Opens a connection that asks for endless messages and reads none of them.
fn open_slow_reader(path: &Path, is_web_socket: bool, text: &str) -> UnixStream {
    let mut socket = UnixStream::connect(path).expect("the server listens");
    let request = format!(r#"{{"jsonrpc":"2.0","method":"forever","params":["{text}"],"id":1}}"#);
    if !is_web_socket {
        socket.write_all(format!("{request}\n").as_bytes()).expect("it is taken");
        return socket;
    }
    let handshake = "GET /rpc HTTP/1.1\r\nhost: here\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
    let len = request.len() as u16;
    let head = [&[0x81, 0xFE][..], &len.to_be_bytes(), &[0; 4]].concat();
    let bytes = [handshake.as_bytes(), &head, request.as_bytes()].concat();
    socket.write_all(&bytes).expect("it is taken");
    socket
}

/// A thousand readers that do not read: each makes its handler wait, and costs others nothing. The kernel keeps little
/// for a Unix socket, so the server has to.
fn check_slow_readers(name: &str, is_web_socket: bool) {
    const READERS: usize = 1_000;
    let path = std::env::temp_dir().join(format!("ringway-{name}-{}.sock", std::process::id()));
    let address = format!("unix://{}", path.display()).parse().expect("an address");
    let plain = Plain::default();
    let handle = serve_math(address, &plain, |server| server);
    let text = "x".repeat(30_000);
    let readers: Vec<_> =
        (0..READERS).map(|_| open_slow_reader(&path, is_web_socket, &text)).collect();
    let mut other = JsonLines::unix(&path);
    let mut ask_other = || {
        let answer = other.ask(r#"{"jsonrpc":"2.0","method":"sum","params":[1],"id":1}"#);
        assert_eq!(answer, r#"{"jsonrpc":"2.0","result":1,"id":1}"#);
    };
    let until = Instant::now() + 5 * LIMIT; // the kernel takes 200 MB for them first
    while plain.seen.begun.load(Ordering::SeqCst) < READERS {
        ask_other();
        assert!(Instant::now() < until, "not in time: all have begun");
    }
    // What the core holds for them stands still when all handlers wait.
    let held = || handle.cores().iter().map(|core| core.counters().held_bytes).sum::<u64>();
    let mut before = u64::MAX;
    eventually("no handler goes on", || {
        (0..100).for_each(|_| ask_other());
        std::mem::replace(&mut before, held()) == before
    });
    let bound = (READERS * HELD_FOR_A_READER) as u64;
    assert!((1..=bound).contains(&held()), "{} of {bound} bytes are held", held());
    assert_eq!(plain.seen.dropped.load(Ordering::SeqCst), 0, "none was given up");
    assert_eq!(handle.stats().exhausted, 0);
    drop(readers);
    eventually("their handlers end", || plain.seen.dropped.load(Ordering::SeqCst) == READERS);
    ask_other();
    drop(other);
    end(handle);
}

/// What is being sent and what waits behind it: 64 KiB and one message each, in memory that doubles.
const HELD_FOR_A_READER: usize = 2 * 128 * 1024;

#[test]
fn a_thousand_slow_readers_harm_nobody() {
    check_slow_readers("slow-lines", false);
    check_slow_readers("slow-sockets", true);
}
