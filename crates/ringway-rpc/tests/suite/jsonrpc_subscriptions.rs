//! Server streams over JSON-RPC: subscriptions.

use std::sync::atomic::Ordering;

use ringway_rpc::ServerHandle;
use serde_json::Value;

use crate::support::json_lines::JsonLines;
use crate::support::math::{Plain, serve_math};
use crate::support::{end, eventually, socket_addr};

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
    assert_eq!(handle.stats().cancelled, 2);
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
