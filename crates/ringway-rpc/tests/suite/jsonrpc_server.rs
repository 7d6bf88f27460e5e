//! JSON-RPC in lines over TCP: pieces, order, deadlines, limits and drains.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use ringway_rpc::{Health, ServerHandle, ServingStatus};
use serde_json::Value;

use crate::support::json_lines::JsonLines;
use crate::support::json_vectors::VECTORS;
use crate::support::math::{Plain, serve_math};
use crate::support::{end, eventually, socket_addr};

fn serve(plain: &Plain) -> ServerHandle {
    serve_math("tcp://127.0.0.1:0".parse().expect("an address"), plain, |server| server)
}

/// The replies of a batch. On a loaded machine calls begin in several turns, so that others may be answered first.
fn replies(batch: &str) -> BTreeSet<String> {
    let replies: Vec<Value> = serde_json::from_str(batch).expect("an array");
    replies.iter().map(Value::to_string).collect()
}

#[test]
fn lines_may_come_in_any_pieces() {
    let handle = serve(&Plain::default());
    let (text, expected) = VECTORS[13];
    let expected = replies(expected);
    let line = format!("\r\n {text}\r\n");
    let mut connection = JsonLines::tcp(socket_addr(&handle));
    for at in 1..line.len() {
        connection.send(&line[..at]);
        // The reply to another request shows that the first piece was read by itself, or not at all.
        connection.send(&line[at..]);
        assert_eq!(replies(&connection.line()), expected, "cut at {at}");
    }
    for byte in line.as_bytes() {
        connection.send([*byte]);
    }
    assert_eq!(replies(&connection.line()), expected);
    end(handle);
}

#[test]
fn the_last_line_needs_no_end_and_a_mark_of_byte_order_is_ignored() {
    let handle = serve(&Plain::default());
    for (text, answer) in [
        (r#"{"jsonrpc":"2.0","method":"sum","params":[1,2],"id":7}"#, Some("\"result\":3")),
        (r#"{"jsonrpc":"2.0","method":"sum","params":[1"#, Some("-32700")),
        (r#"{"jsonrpc":"2.0","method":"sum","params":[1]}"#, None),
        ("  ", None),
    ] {
        for (before, mark) in [(0, ""), (0, "\u{feff}"), (2, "\u{feff}")] {
            let mut connection = JsonLines::tcp(socket_addr(&handle));
            let first = format!("{mark}{}\n", VECTORS[0].0);
            for _ in 0..before {
                connection.send(&first);
                assert_eq!(connection.line(), VECTORS[0].1);
            }
            let mark = if text.starts_with('{') { mark } else { "" };
            connection.send(format!("{mark}{text}"));
            connection.end_half();
            let line = connection.try_line();
            let is_expected = match answer {
                Some(answer) => line.as_deref().is_some_and(|line| line.contains(answer)),
                None => line.is_none(),
            };
            assert!(is_expected, "{mark:?}{text}: {line:?}");
            assert_eq!(connection.try_line(), None);
        }
    }
    end(handle);
}

#[test]
fn answers_come_when_they_are_there() {
    let plain = Plain::default();
    let handle = serve(&plain);
    let mut connection = JsonLines::tcp(socket_addr(&handle));
    let call = |method: &str, params: &str, id: u64| {
        format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params},"id":{id}}}"#)
    };
    let batch = format!("[{},{}]", call("later", "[50]", 1), call("sum", "[1]", 2));
    connection.send(format!("{batch}\n{}\n", call("sum", "[2]", 3)));
    assert_eq!(connection.line(), r#"{"jsonrpc":"2.0","result":2,"id":3}"#);
    let replies = r#"[{"jsonrpc":"2.0","result":1,"id":2},{"jsonrpc":"2.0","result":50,"id":1}]"#;
    assert_eq!(connection.line(), replies);
    assert_eq!(handle.stats().in_flight, 0);
    end(handle);
}

#[test]
fn a_call_has_the_deadline_and_the_trace_that_its_client_gives() {
    let plain = Plain::default();
    let handle = serve(&plain);
    let mut connection = JsonLines::tcp(socket_addr(&handle));
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let asked = connection.ask(&format!(
        r#"{{"jsonrpc":"2.0","method":"asked","ringway":{{"timeout_ms":60000,"traceparent":"{trace}"}},"id":1}}"#
    ));
    let asked: Value = serde_json::from_str(&asked).expect("JSON");
    let left = asked["result"][0].as_u64().expect("a number");
    assert!((1..=60_000).contains(&left), "{asked}");
    assert_eq!(asked["result"][1], trace);
    let late =
        connection.ask(r#"{"jsonrpc":"2.0","method":"never","ringway":{"timeout_ms":1},"id":2}"#);
    assert!(late.contains(r#""code":-32004"#) && late.ends_with(r#","id":2}"#), "{late}");
    let none = connection
        .ask(r#"{"jsonrpc":"2.0","method":"sum","params":[1],"ringway":{"timeout_ms":0},"id":3}"#);
    assert!(none.contains(r#""code":-32004"#), "{none}");
    end(handle);
}

#[test]
fn calls_end_with_their_connection() {
    let plain = Plain::default();
    let handle = serve(&plain);
    let mut connection = JsonLines::tcp(socket_addr(&handle));
    connection.send("{\"jsonrpc\":\"2.0\",\"method\":\"never\",\"id\":1}\n");
    connection.send("{\"jsonrpc\":\"2.0\",\"method\":\"never\"}\n");
    eventually("they have begun", || plain.seen.begun.load(Ordering::SeqCst) == 2);
    drop(connection);
    eventually("they are dropped", || plain.seen.dropped.load(Ordering::SeqCst) == 2);
    end(handle);
}

#[test]
fn calls_beyond_a_limit_wait_and_more_are_refused() {
    let plain = Plain::default();
    let address = "tcp://127.0.0.1:0".parse().expect("an address");
    let handle = serve_math(address, &plain, |server| server.in_flight_per_connection_max(2));
    let mut connection = JsonLines::tcp(socket_addr(&handle));
    let never = |id: u64| format!("{{\"jsonrpc\":\"2.0\",\"method\":\"never\",\"id\":{id}}}\n");
    let late = |ms: u64, id: u64| {
        format!("{{\"jsonrpc\":\"2.0\",\"method\":\"later\",\"params\":[{ms}],\"id\":{id}}}\n")
    };
    connection.send(never(1) + &late(50, 2) + &late(1, 3) + &never(4) + &never(5));
    let refused = connection.line();
    assert!(refused.contains(r#""code":-32008"#) && refused.ends_with(r#","id":5}"#), "{refused}");
    assert_eq!(connection.line(), r#"{"jsonrpc":"2.0","result":50,"id":2}"#);
    assert_eq!(connection.line(), r#"{"jsonrpc":"2.0","result":1,"id":3}"#);
    assert!(refused.contains(r#""data":{"ringway":{"executed":false}}"#), "{refused}");
    assert_eq!(handle.stats().refused, 1);
    drop(connection);
    end(handle);
}

#[test]
fn requests_that_wait_for_others_of_their_connection_count_as_calls_in_flight() {
    let plain = Plain::default();
    let address = "tcp://127.0.0.1:0".parse().expect("an address");
    let handle = serve_math(address, &plain, |server| {
        server.in_flight_per_connection_max(1).in_flight_max(2)
    });
    let mut connection = JsonLines::tcp(socket_addr(&handle));
    connection.send("{\"jsonrpc\":\"2.0\",\"method\":\"never\",\"id\":1}\n".repeat(2));
    let mut other = JsonLines::tcp(socket_addr(&handle));
    let mut sum = || other.ask(r#"{"jsonrpc":"2.0","method":"sum","params":[1,2],"id":7}"#);
    eventually("one runs, and one waits", || sum().contains("in_flight_max"));
    assert_eq!(handle.stats().in_flight, 1, "the one that waits has not begun");
    drop(connection);
    eventually("there is room again", || sum().contains(r#""result":3"#));
    end(handle);
}

#[test]
fn a_drain_lets_calls_finish_and_refuses_new_ones() {
    let plain = Plain::default();
    let handle = serve(&plain);
    let mut connection = JsonLines::tcp(socket_addr(&handle));
    connection.send("{\"jsonrpc\":\"2.0\",\"method\":\"later\",\"params\":[300],\"id\":1}\n");
    eventually("it has begun", || plain.seen.begun.load(Ordering::SeqCst) == 1);
    handle.shutdown();
    let refused = loop {
        let answer = connection.ask(r#"{"jsonrpc":"2.0","method":"sum","id":2}"#);
        if answer.contains("error") {
            break answer;
        }
    };
    assert!(refused.contains(r#""code":-32014"#), "{refused}");
    assert!(refused.contains(r#"{"ringway":{"executed":false}}"#), "{refused}");
    assert_eq!(connection.line(), r#"{"jsonrpc":"2.0","result":300,"id":1}"#);
    assert_eq!(connection.try_line(), None);
    crate::support::wait(handle);
}

#[test]
fn a_drain_ends_what_does_not_end() {
    let plain = Plain::default();
    let address = "tcp://127.0.0.1:0".parse().expect("an address");
    let handle = serve_math(address, &plain, |server| {
        server.drain_timeout(std::time::Duration::from_millis(50))
    });
    let mut connection = JsonLines::tcp(socket_addr(&handle));
    connection.send("{\"jsonrpc\":\"2.0\",\"method\":\"never\",\"id\":1}\n");
    eventually("it has begun", || plain.seen.begun.load(Ordering::SeqCst) == 1);
    handle.shutdown();
    let ended = connection.line();
    assert!(ended.contains(r#""code":-32014"#) && ended.ends_with(r#","id":1}"#), "{ended}");
    assert_eq!(connection.try_line(), None);
    crate::support::wait(handle);
    assert_eq!(plain.seen.dropped.load(Ordering::SeqCst), 1);
}

#[test]
fn messages_without_serde_have_the_form_of_their_descriptors() {
    let health = Health::default();
    let address = "tcp://127.0.0.1:0".parse().expect("an address");
    let handle = serve_math(address, &Plain::default(), |server| {
        server.health().set("math", ServingStatus::Serving);
        server
    });
    drop(health);
    let mut connection = JsonLines::tcp(socket_addr(&handle));
    for params in [r#"{"service":"math"}"#, r#"["math"]"#, r#"[{"service":"math"}]"#] {
        let answer = connection.ask(&format!(
            r#"{{"jsonrpc":"2.0","method":"grpc.health.v1.Health/Check","params":{params},"id":1}}"#
        ));
        assert_eq!(answer, r#"{"jsonrpc":"2.0","result":{"status":"SERVING"},"id":1}"#, "{params}");
    }
    let wrong = connection
        .ask(r#"{"jsonrpc":"2.0","method":"Health.Check","params":{"service":7},"id":1}"#);
    assert!(wrong.contains(r#""code":-32602"#), "{wrong}");
    end(handle);
}

#[test]
fn many_calls_at_once_are_answered_once_each() {
    let handle = serve(&Plain::default());
    let mut connection = JsonLines::tcp(socket_addr(&handle));
    let all: BTreeSet<u64> = (0..2_000).collect();
    let call = |id: &u64| {
        let (method, params) = if id.is_multiple_of(7) { ("later", 1) } else { ("sum", *id) };
        format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":[{params}],\"id\":{id}}}\n"
        )
    };
    connection.send(all.iter().map(call).collect::<String>());
    let answered: BTreeSet<u64> = all
        .iter()
        .map(|_| {
            let answer: Value = serde_json::from_str(&connection.line()).expect("JSON");
            let id = answer["id"].as_u64().expect("a number");
            assert_eq!(answer["result"], if id.is_multiple_of(7) { 1 } else { id }, "{answer}");
            id
        })
        .collect();
    assert_eq!(answered, all);
    end(handle);
}

#[test]
fn long_messages_come_through() {
    let handle = serve(&Plain::default());
    let mut connection = JsonLines::tcp(socket_addr(&handle));
    for len in [3_000, 5_000, 100_000, 3_000_000] {
        let text = "x".repeat(len);
        let answer = connection
            .ask(&format!(r#"{{"jsonrpc":"2.0","method":"shout","params":["{text}"],"id":1}}"#));
        let expected = text.to_uppercase();
        assert!(answer == format!(r#"{{"jsonrpc":"2.0","result":"{expected}","id":1}}"#), "{len}");
    }
    end(handle);
}
