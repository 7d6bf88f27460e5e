//! JSON-RPC in lines over TCP and Unix sockets: the specification's vectors and edge cases.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use ringway_rpc::{Health, ServerHandle, ServingStatus};
use serde_json::Value;

use crate::support::json_lines::JsonLines;
use crate::support::math::{Plain, serve_math};
use crate::support::{end, eventually, socket_addr};

fn serve(plain: &Plain) -> ServerHandle {
    serve_math("tcp://127.0.0.1:0".parse().expect("an address"), plain, |server| server)
}

/// A text and its reply, which is empty if there is none.
const VECTORS: &[(&str, &str)] = &[
    (
        r#"{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}"#,
        r#"{"jsonrpc":"2.0","result":19,"id":1}"#,
    ),
    (
        r#"{"jsonrpc": "2.0", "method": "subtract", "params": [23, 42], "id": 2}"#,
        r#"{"jsonrpc":"2.0","result":-19,"id":2}"#,
    ),
    (
        r#"{"jsonrpc": "2.0", "method": "subtract", "params": {"subtrahend": 23, "minuend": 42}, "id": 3}"#,
        r#"{"jsonrpc":"2.0","result":19,"id":3}"#,
    ),
    (
        r#"{"jsonrpc": "2.0", "method": "subtract", "params": {"minuend": 42, "subtrahend": 23}, "id": 4}"#,
        r#"{"jsonrpc":"2.0","result":19,"id":4}"#,
    ),
    (r#"{"jsonrpc": "2.0", "method": "update", "params": [1,2,3,4,5]}"#, ""),
    (r#"{"jsonrpc": "2.0", "method": "foobar"}"#, ""),
    (
        r#"{"jsonrpc": "2.0", "method": "foobar", "id": "1"}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"the server has no method foobar"},"id":"1"}"#,
    ),
    (
        r#"{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}"#,
    ),
    (
        r#"{"jsonrpc": "2.0", "method": 1, "params": "bar"}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null}"#,
    ),
    (
        r#"[ {"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"}, {"jsonrpc": "2.0", "method" ]"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}"#,
    ),
    ("[]", r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null}"#),
    ("[1]", r#"[{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null}]"#),
    (
        "[1,2,3]",
        r#"[{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null},{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null},{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null}]"#,
    ),
    (
        r#"[ {"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"}, {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]}, {"jsonrpc": "2.0", "method": "subtract", "params": [42,23], "id": "2"}, {"foo": "boo"}, {"jsonrpc": "2.0", "method": "foo.get", "params": {"name": "myself"}, "id": "5"}, {"jsonrpc": "2.0", "method": "get_data", "id": "9"} ]"#,
        r#"[{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null},{"jsonrpc":"2.0","result":7,"id":"1"},{"jsonrpc":"2.0","result":19,"id":"2"},{"jsonrpc":"2.0","error":{"code":-32601,"message":"the server has no method foo.get"},"id":"5"},{"jsonrpc":"2.0","result":["hello",5],"id":"9"}]"#,
    ),
    (
        r#"[ {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]}, {"jsonrpc": "2.0", "method": "update", "params": [1,2,4]} ]"#,
        "",
    ),
];

/// Edge cases of ids, parameters, names and failures.
const EDGES: &[(&str, &str)] = &[
    (
        r#"{"jsonrpc":"2.0","method":"sum","id":123456789012345678901234567890.50}"#,
        r#"{"jsonrpc":"2.0","result":0,"id":123456789012345678901234567890.50}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"sum","params":[[1,2]],"id":null}"#,
        r#"{"jsonrpc":"2.0","result":3,"id":null}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"sum","params":{"numbers":[1,2]},"id":"\u0061 a rather long id"}"#,
        r#"{"jsonrpc":"2.0","result":3,"id":"\u0061 a rather long id"}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"raw","params":[12345678901234567890.123456789012345678901],"id":1}"#,
        r#"{"jsonrpc":"2.0","result":12345678901234567890.123456789012345678901,"id":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"raw","params":[null],"id":1,"id":2}"#,
        r#"{"jsonrpc":"2.0","result":null,"id":2}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"person","params":{"name":"Ann"},"id":1}"#,
        r#"{"jsonrpc":"2.0","result":{"name":"Ann","age":0},"id":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"spec.v1.Math/Person","params":[{"name":"Ann","age":3}],"id":1}"#,
        r#"{"jsonrpc":"2.0","result":{"name":"Ann","age":3},"id":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"Math.Person","params":["Ann",3],"id":1}"#,
        r#"{"jsonrpc":"2.0","result":{"name":"Ann","age":3},"id":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"sh\u006fut","params":{"text":"\u00e9"},"id":1}"#,
        r#"{"jsonrpc":"2.0","result":"É","id":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"bytes","params":["aGk="],"id":1}"#,
        r#"{"jsonrpc":"2.0","result":"aGk=","id":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"shout","params":[7],"id":1}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32602,"message":"the message is not a valid String in JSON: invalid type: integer `7`, expected a string at line 1 column 1"},"id":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"shout","params":["a","b"],"id":1}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32602,"message":"the method does not take these parameters"},"id":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"fail","params":["json"],"id":1}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32005,"message":"no such user","data":{"user": 7}},"id":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"fail","params":["bytes"],"id":1}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32010,"message":"again","data":{"ringway":{"details":"/wA="}}},"id":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"fail","params":["wait"],"id":1}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32014,"message":"busy","data":{"ringway":{"pushback_ms":250}}},"id":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"fail","params":["a \"quote\"\n"],"id":1}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32002,"message":"a \"quote\"\n"},"id":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"panic","params":["secret"],"id":1}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32603,"message":"the handler failed"},"id":1}"#,
    ),
    (r#"{"jsonrpc":"2.0","method":"panic","params":["secret"]}"#, ""),
    (
        r#"{"jsonrpc":"2.0","method":"rpc.ping","id":1}"#,
        r#"{"jsonrpc":"2.0","result":true,"id":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"rpc.unsubscribe","params":[7],"id":1}"#,
        r#"{"jsonrpc":"2.0","result":false,"id":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"rpc.other","id":1}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"the server has no method rpc.other"},"id":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"collect","params":[],"id":1}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"spec.v1.Math/Collect takes a stream, which JSON-RPC cannot carry"},"id":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"sum","id":{}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null}"#,
    ),
    (
        r#"{"jsonrpc":"1.0","method":"sum","id":"mine"}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":"mine"}"#,
    ),
    (
        r#"[{"jsonrpc":"2.0","method":"sum","id":7},{"jsonrpc":"2.0","method":"sum","id":7}]"#,
        r#"[{"jsonrpc":"2.0","result":0,"id":7},{"jsonrpc":"2.0","result":0,"id":7}]"#,
    ),
];

const PING: &str = r#"{"jsonrpc":"2.0","method":"rpc.ping","id":"ping"}"#;
const PONG: &str = r#"{"jsonrpc":"2.0","result":true,"id":"ping"}"#;

/// Sends a text, then a ping whose reply shows that the text had none.
#[track_caller]
fn check(connection: &mut JsonLines, text: &str, expected: &str) {
    connection.send(format!("{text}\n{PING}\n"));
    if !expected.is_empty() {
        assert_eq!(connection.line(), expected, "to {text}");
    }
    assert_eq!(connection.line(), PONG, "to {text}");
}

#[test]
fn the_vectors_and_edges_over_tcp() {
    let plain = Plain::default();
    let handle = serve(&plain);
    let mut connection = JsonLines::tcp(socket_addr(&handle));
    for (text, expected) in VECTORS.iter().chain(EDGES) {
        check(&mut connection, text, expected);
    }
    assert_eq!(plain.seen.notified.load(Ordering::SeqCst), 4, "notifications are carried out");
    assert_eq!(handle.stats().unknown_methods, 4);
    end(handle);
}

#[test]
fn the_vectors_over_a_unix_socket() {
    let path = std::env::temp_dir().join(format!("ringway-jsonrpc-{}.sock", std::process::id()));
    let address = format!("unix://{}", path.display()).parse().expect("an address");
    let handle = serve_math(address, &Plain::default(), |server| server);
    let mut connection = JsonLines::unix(&path);
    for (text, expected) in VECTORS {
        check(&mut connection, text, expected);
    }
    end(handle);
}

#[test]
fn lines_may_come_in_any_pieces() {
    let handle = serve(&Plain::default());
    let (text, expected) = VECTORS[13];
    let line = format!("\r\n {text}\r\n");
    let mut connection = JsonLines::tcp(socket_addr(&handle));
    for at in 1..line.len() {
        connection.send(&line[..at]);
        // The reply to another request shows that the first piece was read by itself, or not at all.
        connection.send(&line[at..]);
        assert_eq!(connection.line(), expected, "cut at {at}");
    }
    for byte in line.as_bytes() {
        connection.send([*byte]);
    }
    assert_eq!(connection.line(), expected);
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
