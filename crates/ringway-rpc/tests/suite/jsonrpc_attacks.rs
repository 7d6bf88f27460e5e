//! Bad input of a JSON-RPC client costs an error reply or the connection, and little memory.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ringway_net::Client;
use ringway_rpc::ServerHandle;
use ringway_rpc::testing::{TestServer, simulate};
use ringway_wire::websocket::{
    Arrival, CloseCode, MessageReader, WebSocketMessage, put_pong, put_text,
};

use crate::support::json_lines::JsonLines;
use crate::support::math::{MathServer, Plain, serve_math};
use crate::support::{end, socket_addr};

const NOT_JSON: &str =
    r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}"#;
const INVALID: &str =
    r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null}"#;
const SUM: &str = r#"{"jsonrpc":"2.0","method":"sum","id":1}"#;
const ZERO: &str = r#"{"jsonrpc":"2.0","result":0,"id":1}"#;

fn serve() -> ServerHandle {
    let address = "tcp://127.0.0.1:0".parse().expect("an address");
    serve_math(address, &Plain::default(), |server| server.message_bytes_max(10_000))
}

#[test]
fn malformed_texts_are_answered_and_the_connection_goes_on() {
    let handle = serve();
    let mut connection = JsonLines::tcp(socket_addr(&handle));
    let deep = format!(
        r#"{{"jsonrpc":"2.0","method":"sum","params":[{}{}],"id":7}}"#,
        "[".repeat(4_000),
        "]".repeat(4_000)
    );
    let deep_open = format!(r#"{{"a":{}"#, "[".repeat(9_000));
    let batch = format!("[{}1]", "1,".repeat(1_000));
    let long_id = format!(r#"{{"jsonrpc":"2.0","method":"sum","id":"{}"}}"#, "x".repeat(5_000));
    let cases: Vec<(&[u8], &str)> = vec![
        (b"{\"a\":\"\xff\"}", NOT_JSON),
        (b"{\xed\xa0\x80}", NOT_JSON),
        (b"[\"\\ud800\"]", NOT_JSON),
        (b"{} {}", NOT_JSON),
        (b"nonsense", NOT_JSON),
        (b"{}", INVALID),
        (b"\"text\"", INVALID),
        (deep_open.as_bytes(), NOT_JSON),
        (
            deep.as_bytes(),
            r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":7}"#,
        ),
        (batch.as_bytes(), INVALID),
        (long_id.as_bytes(), INVALID),
    ];
    assert_eq!(connection.ask(SUM), ZERO);
    for (text, expected) in &cases {
        connection.send([text, &b"\n"[..]].concat());
        assert_eq!(connection.line(), *expected, "{}", String::from_utf8_lossy(text));
        assert_eq!(connection.ask(SUM), ZERO);
    }
    assert_eq!(handle.stats().malformed, cases.len() as u64);
    end(handle);
}

#[test]
fn an_endless_line_is_answered_and_ends_the_connection() {
    let handle = serve();
    for piece in [10_001, 100] {
        let mut connection = JsonLines::tcp(socket_addr(&handle));
        connection.send("{");
        let bytes = vec![b' '; piece];
        let mut sent = 0;
        while sent <= 10_001 && connection.try_send(&bytes) {
            sent += bytes.len();
        }
        assert_eq!(connection.line(), NOT_JSON);
        assert_eq!(connection.try_line(), None);
    }
    assert_eq!(handle.stats().violations, 2);
    end(handle);
}

#[test]
fn white_space_alone_is_nothing() {
    let handle = serve();
    let mut connection = JsonLines::tcp(socket_addr(&handle));
    for _ in 0..100 {
        connection.send([b' '; 1_000]);
        connection.send("\r\n\t\n");
    }
    assert_eq!(connection.ask(SUM), ZERO);
    end(handle);
}

/// Far more than the sockets of both ends hold together with the server's queue for a connection.
const MUCH: usize = 256 << 20;

#[test]
fn replies_that_nobody_reads_stop_requests() {
    let handle =
        serve_math("tcp://127.0.0.1:0".parse().expect("an address"), &Plain::default(), |server| {
            server
        });
    let mut connection = JsonLines::tcp(socket_addr(&handle));
    let text = "x".repeat(100_000);
    let call =
        format!("{{\"jsonrpc\":\"2.0\",\"method\":\"shout\",\"params\":[\"{text}\"],\"id\":1}}\n");
    let sent = connection.send_until_blocked(call.as_bytes(), MUCH);
    assert!(sent < MUCH, "it takes requests whose replies nobody reads");
    assert!(handle.stats().unread_bytes < 4 << 20, "{:?}", handle.stats());
    drop(connection);
    end(handle);
}

#[test]
fn who_begins_a_line_and_stops_is_given_up() {
    simulate(5, async {
        let server = TestServer::start(MathServer::new(Plain::default()))?;
        let mut connection = Client::new(server.address())?.open().await?;
        connection.send(format!("{SUM}\n{{").into_bytes()).await?;
        let answer = connection.recv().await?.expect("an answer");
        assert_eq!(&answer[..], format!("{ZERO}\n").as_bytes());
        drop(answer);
        let began = ringway_runtime::now();
        assert!(!matches!(connection.recv().await, Ok(Some(_))), "the line has no end");
        let waited = ringway_runtime::now() - began;
        assert!((25..=60).contains(&waited.as_secs()), "{waited:?}");
        Ok(())
    })
    .expect("it ends");
}

#[test]
fn who_waits_for_its_server_to_read_on_is_not_given_up() {
    simulate(6, async {
        let server = TestServer::start(MathServer::new(Plain::default()))?;
        let mut connection = Client::new(server.address())?.open().await?;
        // The replies of the batch wait for its last call, and no further request is read meanwhile.
        let text = "x".repeat(1 << 20);
        let batch = format!(
            r#"[{{"jsonrpc":"2.0","method":"shout","params":["{text}"],"id":1}},{{"jsonrpc":"2.0","method":"later","params":[100000],"id":2}}]"#
        );
        let (begin, rest) = SUM.split_at(10);
        connection.send(format!("{batch}\n{begin}").into_bytes()).await?;
        let mut told = Vec::new();
        while !told.ends_with(b"\n") {
            let view = connection.recv().await?.expect("the connection goes on");
            told.extend_from_slice(&view);
        }
        connection.send(format!("{rest}\n").into_bytes()).await?;
        let answer = connection.recv().await?.expect("the connection goes on");
        assert_eq!(&answer[..], format!("{ZERO}\n").as_bytes());
        Ok(())
    })
    .expect("all is answered");
}

#[test]
fn the_ids_of_requests_that_wait_count_as_well() {
    const CALLS: u32 = 400;
    simulate(7, async {
        let server = TestServer::start_with(|server| {
            server.service(MathServer::new(Plain::default())).in_flight_per_connection_max(CALLS)
        })?;
        let mut connection = Client::new(server.address())?.open().await?;
        let never = "{\"jsonrpc\":\"2.0\",\"method\":\"never\",\"id\":1}\n".repeat(CALLS as usize);
        let id = "x".repeat(4_000);
        let sum = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"sum\",\"id\":\"{id}\"}}\n");
        // Fewer than may wait, and more bytes than may.
        connection.send((never + &sum.repeat(CALLS as usize - 1)).into_bytes()).await?;
        let refused = ringway_runtime::timeout(Duration::from_secs(10), connection.recv()).await;
        let refused = refused.expect("an answer in time")?.expect("the connection goes on");
        assert!(String::from_utf8_lossy(&refused).contains("-32008"), "{refused:?}");
        Ok(())
    })
    .expect("some are refused");
}

const HANDSHAKE: &str = "GET / HTTP/1.1\r\nhost: here\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
                         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// A fragment of a client's text which goes on.
fn begin_text(part: &str) -> Vec<u8> {
    let mut frame = Vec::new();
    put_text(part, Some([1, 2, 3, 4]), &mut frame);
    frame[0] &= 0x7F;
    frame
}

#[test]
fn a_slow_text_ends_its_web_socket_although_the_server_has_things_to_say() {
    simulate(8, async {
        let server = TestServer::start(MathServer::new(Plain::default()))?;
        let mut connection = Client::new(server.address())?.open().await?;
        let mut said = HANDSHAKE.as_bytes().to_vec();
        for seconds in (10..=200).step_by(10) {
            let call = format!(
                r#"{{"jsonrpc":"2.0","method":"later","params":[{seconds}000],"id":{seconds}}}"#
            );
            put_text(&call, Some([1, 2, 3, 4]), &mut said);
        }
        said.extend(begin_text("{"));
        connection.send(said).await?;
        let head = connection.recv().await?.expect("an answer");
        let at = head.windows(4).position(|it| it == b"\r\n\r\n").expect("one head") + 4;
        let mut bytes = head[at..].to_vec();
        let mut reader = MessageReader::of_server(1_000);
        let began = ringway_runtime::now();
        loop {
            let mut input = &bytes[..];
            while let Some(arrival) = reader.next(&mut input).expect("frames") {
                match arrival {
                    Arrival::Ping(payload) => {
                        let mut pong = Vec::new();
                        put_pong(&payload, Some([1, 2, 3, 4]), &mut pong);
                        connection.send(pong).await?;
                    }
                    Arrival::Close(closing) => {
                        let waited = ringway_runtime::now() - began;
                        assert!(waited.as_secs() < 100, "{closing:?} after {waited:?}");
                        assert_eq!(closing.code, CloseCode::POLICY);
                        return Ok(());
                    }
                    _ => {}
                }
            }
            match connection.recv().await? {
                Some(view) => bytes = view.to_vec(),
                None => panic!("it ends without a reason"),
            }
        }
    })
    .expect("it ends");
}

/// The last fragment of such a text.
fn end_text(part: &str) -> Vec<u8> {
    let mut frame = Vec::new();
    put_text(part, Some([1, 2, 3, 4]), &mut frame);
    frame[0] &= 0xF0;
    frame
}

#[test]
fn a_text_is_not_slow_while_its_server_does_not_read() {
    simulate(9, async {
        let server = TestServer::start_with(|server| {
            server.service(MathServer::new(Plain::default())).in_flight_per_connection_max(1)
        })?;
        let mut connection = Client::new(server.address())?.open().await?;
        // The front of the last text is read while the first call runs. Then the replies of the batch wait for its
        // last call, and nothing is read meanwhile.
        let (first, big) = (r#"{"jsonrpc":"2.0","method":"later","params":[1000]}"#, "x".repeat(1 << 20));
        let batch = format!(
            r#"[{{"jsonrpc":"2.0","method":"shout","params":["{big}"],"id":1}},{{"jsonrpc":"2.0","method":"later","params":[100000],"id":2}}]"#
        );
        let (begin, rest) = SUM.split_at(10);
        let mut said = HANDSHAKE.as_bytes().to_vec();
        put_text(first, Some([1, 2, 3, 4]), &mut said);
        put_text(&batch, Some([1, 2, 3, 4]), &mut said);
        said.extend(begin_text(begin));
        connection.send(said).await?;
        let (mut reader, mut answers, mut head) = (MessageReader::of_server(4 << 20), Vec::new(), 0);
        while answers.last().is_none_or(|last| last != ZERO) {
            let view = connection.recv().await?.expect("the connection goes on");
            let mut input = &view[..];
            if head == 0 {
                head = input.windows(4).position(|it| it == b"\r\n\r\n").expect("one head") + 4;
                input = &input[head..];
            }
            while let Some(arrival) = reader.next(&mut input).expect("frames") {
                match arrival {
                    Arrival::Message(WebSocketMessage::Text(text)) => answers.push(text),
                    other => panic!("{other:?}"),
                }
                if answers.len() == 1 {
                    connection.send(end_text(rest)).await?;
                }
            }
        }
        assert_eq!(answers.len(), 2);
        Ok(())
    })
    .expect("all is answered");
}

#[test]
fn a_batch_ends_with_its_client_although_the_server_reads_nothing_meanwhile() {
    let big = "x".repeat(1 << 20);
    let batch = format!(
        r#"[{{"jsonrpc":"2.0","method":"shout","params":["{big}"],"id":1}},{{"jsonrpc":"2.0","method":"never","id":2}}]"#
    );
    let mut frames = HANDSHAKE.as_bytes().to_vec();
    put_text(&batch, Some([1, 2, 3, 4]), &mut frames);
    for said in [format!("{batch}\n").into_bytes(), frames] {
        let plain = Plain::default();
        let seen = plain.seen.clone();
        simulate(10, async move {
            let server = TestServer::start(MathServer::new(plain))?;
            let connection = Client::new(server.address())?.open().await?;
            connection.send(said).await?;
            let has = |count: &AtomicUsize| count.load(Ordering::SeqCst) == 1;
            let happens = async |count| {
                while !has(count) {
                    ringway_runtime::sleep(Duration::from_millis(10)).await;
                }
            };
            ringway_runtime::timeout(Duration::from_secs(10), happens(&seen.begun))
                .await
                .expect("it begins");
            connection.send(&b"{"[..]).await?;
            drop(connection);
            ringway_runtime::timeout(Duration::from_secs(10), happens(&seen.dropped))
                .await
                .expect("it ends");
            Ok(())
        })
        .expect("no failure");
    }
}
