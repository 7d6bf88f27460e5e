//! Servers of JSON-RPC that misbehave: a call fails with a clear status, and the core goes on.

use std::io::Write;
use std::thread::JoinHandle;
use std::time::Duration;

use ringway_rpc::{Client, Status};

use crate::support::json_client::{Hand, HandConnection};
use crate::support::math::MathClient;

/// A server that accepts one connection and does something with it.
fn serve(act: impl FnOnce(&mut HandConnection) + Send + 'static) -> (MathClient, JoinHandle<()>) {
    let hand = Hand::listen();
    let client = Client::builder().address(&*hand.url).connections_max(1).message_bytes_max(10_000);
    let client = MathClient::new(client.build().expect("an address"));
    let server = std::thread::spawn(move || act(&mut hand.accept(r#""result":true"#)));
    (client, server)
}

/// The failure of a call that is answered so.
fn failure(act: impl FnOnce(&mut HandConnection) + Send + 'static) -> Status {
    let (client, server) = serve(act);
    let call = client.subtract(2, 1).timeout(Duration::from_secs(15));
    let status = call.wait().expect_err("a server that misbehaves");
    drop(client); // which closes the connection
    server.join().expect("no panic");
    status
}

/// Reads the call and sends these lines.
fn says(lines: &'static [&str]) -> impl FnOnce(&mut HandConnection) + Send {
    move |connection| {
        let request = connection.request().expect("a call");
        for line in lines {
            connection.say(&line.replace("ID", &request["id"].to_string()));
        }
        while connection.request().is_some() {}
    }
}

#[test]
fn text_that_is_no_message_costs_the_connection() {
    for (lines, said) in [
        (&["garbage"][..], "not JSON"),
        (&["[1,"], "not JSON"),
        (&["\u{FFFD}\u{0}"], "not JSON"),
        (&["[]"], "not a message of JSON-RPC 2.0"),
        (&["7"], "not a message of JSON-RPC 2.0"),
        (&[r#"{"jsonrpc":"1.0","id":ID,"result":1}"#], "`jsonrpc` is not"),
        (&[r#"{"jsonrpc":"2.0","id":ID}"#], "one of `result` and `error`"),
        (&[r#"{"jsonrpc":"2.0","id":ID,"error":7}"#], "a whole number as `code`"),
    ] {
        let status = failure(says(lines));
        assert!(status.message().contains(said), "{lines:?}: {status}");
        assert!(status.is_unavailable() || status.is_internal(), "{status}");
    }
}

#[test]
fn answer_to_nobody_is_ignored() {
    let (client, server) = serve(|connection| {
        let request = connection.request().expect("a call");
        for id in ["7", "\"x\"", "18446744073709551615", "1.5", "99999999999999999999999"] {
            connection.say(&format!(r#"{{"jsonrpc":"2.0","result":0,"id":{id}}}"#));
        }
        connection.say(r#"{"jsonrpc":"2.0","method":"m","params":{"subscription":9,"result":1}}"#);
        connection.say(r#"{"jsonrpc":"2.0","method":"do.this","id":1}"#);
        connection.answer(&request, "1");
        connection.answer(&request, "2");
        let second = connection.request().expect("another call");
        connection.answer(&second, "3");
    });
    assert_eq!(client.subtract(2, 1).wait().expect("its own reply"), 1);
    assert_eq!(client.subtract(2, 1).wait().expect("its own reply"), 3);
    server.join().expect("no panic");
}

#[test]
fn endless_line_is_bounded() {
    let status = failure(|connection| {
        connection.request().expect("a call");
        let piece = [b'x'; 4096];
        while connection.writer.write_all(&piece).is_ok() {}
    });
    assert!(status.message().contains("a text is longer than"), "{status}");
}

#[test]
fn nesting_bomb_fails_its_call_only() {
    let (client, server) = serve(|connection| {
        let request = connection.request().expect("a call");
        let bomb = format!("{}{}", "[".repeat(4_000), "]".repeat(4_000));
        connection.answer(&request, &bomb);
        let second = connection.request().expect("another call");
        connection.answer(&second, "3");
    });
    let status = client.subtract(2, 1).wait().expect_err("it is nested too deep");
    assert!(status.is_internal() && status.message().contains("deeper"), "{status}");
    assert_eq!(client.subtract(2, 1).wait().expect("the connection goes on"), 3);
    server.join().expect("no panic");
}

#[test]
fn result_of_another_type_fails_its_call_only() {
    let (client, server) = serve(|connection| {
        for result in ["\"one\"", "1"] {
            let request = connection.request().expect("a call");
            connection.answer(&request, result);
        }
    });
    let status = client.subtract(2, 1).wait().expect_err("not a number");
    assert!(status.is_internal() && status.message().contains("reply cannot be read"), "{status}");
    assert_eq!(client.subtract(2, 1).wait().expect("the connection goes on"), 1);
    server.join().expect("no panic");
}

#[test]
fn error_without_an_id_is_of_the_only_call() {
    let complaint = r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"what?"},"id":null}"#;
    let status = failure(move |connection| {
        connection.request().expect("a call");
        connection.say(complaint);
    });
    assert!(status.is_internal() && status.message().contains("what?"), "{status}");
    let (client, server) = serve(move |connection| {
        for _ in 0..2 {
            connection.request().expect("a call");
        }
        connection.say(complaint);
        assert!(connection.request().is_none(), "nobody knows whose it is");
    });
    let calls = [(); 2].map(|()| {
        let client = client.clone();
        std::thread::spawn(move || client.subtract(2, 1).wait())
    });
    for call in calls {
        let status = call.join().expect("no panic").expect_err("the connection is gone");
        assert!(status.message().contains("could not read a request: what?"), "{status}");
    }
    server.join().expect("no panic");
}

#[test]
fn error_of_a_foreign_server_keeps_its_code() {
    let error = r#"{"jsonrpc":"2.0","error":{"code":-7,"message":"no","data":[1]},"id":ID}"#;
    let status = failure(|connection| {
        let request = connection.request().expect("a call");
        connection.say(&error.replace("ID", &request["id"].to_string()));
    });
    assert!(status.is_unknown() && status.details() == &b"[1]"[..], "{status}");
    assert_eq!(status.json_rpc_code(), Some(-7));
}

#[test]
fn any_answer_to_a_ping_will_do() {
    for pong in [
        r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"no such method"},"id":null}"#,
        r#"{"jsonrpc":"2.0","result":null,"error":null,"id":ID}"#,
        r#"{"jsonrpc":"2.0","result":1,"error":{"code":1,"message":"both"},"id":ID}"#,
        r#"{"jsonrpc":"1.0","id":ID}"#,
        r#"{"jsonrpc":"2.0","error":"none","id":null}"#,
    ] {
        let hand = Hand::listen();
        let client = MathClient::connect(&*hand.url).expect("an address");
        let server = std::thread::spawn(move || {
            let mut connection = hand.accept_saying(pong);
            for _ in 0..2 {
                let request = connection.request().expect("a call");
                connection.answer(&request, "1");
            }
        });
        for _ in 0..2 {
            let reply = client.subtract(2, 1).timeout(Duration::from_secs(15)).wait();
            assert_eq!(reply.expect(pong), 1);
        }
        server.join().expect("no panic");
    }
}

#[test]
fn answer_that_is_not_quite_one_costs_its_call_at_most() {
    let (client, server) = serve(|connection| {
        for answer in [
            r#"{"result":1,"error":null,"id":ID}"#,
            r#"{"jsonrpc":"2.0","result":1,"error":null,"id":ID}"#,
            r#"{"result":null,"error":{"code":-5,"message":"no such transaction"},"id":ID}"#,
            r#"{"jsonrpc":"2.0","result":1,"error":{"code":1,"message":"both"},"id":ID}"#,
            r#"{"jsonrpc":"2.0","id":null}"#,
        ] {
            let request = connection.request().expect("a call");
            connection.say(&answer.replace("ID", &request["id"].to_string()));
            connection.say(r#"{"jsonrpc":"2.0","result":1,"error":{},"id":99}"#); // of nobody
        }
    });
    let call = || client.subtract(2, 1).timeout(Duration::from_secs(15)).wait();
    assert_eq!((call().expect("a reply"), call().expect("a reply")), (1, 1));
    assert_eq!(call().expect_err("a failure").json_rpc_code(), Some(-5));
    for _ in 0..2 {
        let status = call().expect_err("no reply");
        assert!(status.is_internal() && status.message().contains("cannot be read"), "{status}");
    }
    server.join().expect("no panic");
}

#[test]
fn foreign_server_is_told_nothing_of_ours() {
    let hand = Hand::listen();
    let client = MathClient::connect(&*hand.url).expect("an address");
    let server = std::thread::spawn(move || {
        let mut connection = hand.accept(r#""error":{"code":-32601,"message":"no such method"}"#);
        let request = connection.request().expect("a call");
        assert!(request.get("ringway").is_none(), "{request}");
        connection.answer(&request, "1");
    });
    let reply = client.subtract(2, 1).timeout(Duration::from_secs(15)).wait();
    assert_eq!(reply.expect("a reply"), 1);
    server.join().expect("no panic");
}

#[test]
fn server_that_falls_silent_is_given_up() {
    let hand = Hand::listen();
    let (interval, timeout) = (Duration::from_millis(50), Duration::from_millis(100));
    let client = Client::builder().address(&*hand.url).keep_alive(interval, timeout).build();
    let client = MathClient::new(client.expect("an address"));
    let server = std::thread::spawn(move || {
        let mut connection = hand.accept(r#""result":true"#);
        connection.request().expect("a call");
        assert_eq!(connection.request().expect("a question")["method"], "rpc.ping");
        while connection.request().is_some() {}
    });
    let status = client.subtract(2, 1).no_timeout().wait().expect_err("nobody answers");
    assert!(status.message().contains("does not answer rpc.ping"), "{status}");
    server.join().expect("no panic");
}
