//! The vectors of JSON-RPC's specification and the edge cases have the same replies over each transport.

use std::sync::atomic::Ordering;

use ringway_http::http::{Method, StatusCode};
use ringway_http::{Client as HttpClient, WebSocketMessage};
use ringway_net::{Address, Client, ClientTls, ServerTls};
use ringway_rpc::ServerHandle;
use ringway_runtime::block_on;

use crate::support::grpc_caller::GrpcCaller;
use crate::support::json_lines::JsonLines;
use crate::support::json_vectors::{EDGES, MESSAGE_BYTES, VECTORS, refused};
use crate::support::math::{Plain, serve_math};
use crate::support::{end, socket_addr};

/// Its reply shows that a text before it had none.
const PING: &str = r#"{"jsonrpc":"2.0","method":"rpc.ping","id":"ping"}"#;
const PONG: &str = r#"{"jsonrpc":"2.0","result":true,"id":"ping"}"#;

/// Texts and their replies, which are empty where there is none.
fn cases() -> Vec<(String, &'static str)> {
    let own = VECTORS.iter().chain(EDGES).map(|(text, expected)| ((*text).to_owned(), *expected));
    own.chain(refused()).collect()
}

/// Has `ask` send all texts to a server at `address`, and checks what it returns: all replies to each text.
#[track_caller]
fn check(
    address: Address,
    tls: Option<ServerTls>,
    ask: impl FnOnce(&ServerHandle, Vec<String>) -> Vec<Vec<String>>,
) {
    let plain = Plain::default();
    let handle = serve_math(address, &plain, |server| match tls {
        Some(tls) => server.message_bytes_max(MESSAGE_BYTES).tls(tls),
        None => server.message_bytes_max(MESSAGE_BYTES),
    });
    let replies = ask(&handle, cases().into_iter().map(|(text, _)| text).collect());
    assert_eq!(replies.len(), cases().len());
    for ((text, expected), replies) in cases().iter().zip(replies) {
        let expected: Vec<&str> = [*expected].into_iter().filter(|it| !it.is_empty()).collect();
        assert_eq!(replies, expected, "to {text}");
    }
    assert_eq!(plain.seen.notified.load(Ordering::SeqCst), 4, "notifications are carried out");
    assert_eq!(handle.stats().unknown_methods, 4);
    end(handle);
}

fn tcp() -> Address {
    "tcp://127.0.0.1:0".parse().expect("an address")
}

/// A server's side of TLS, and the side of a client that trusts it.
fn tls() -> (ServerTls, ClientTls) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let server = ServerTls::from_pem(made.cert.pem(), made.signing_key.serialize_pem());
    let client = ClientTls::new().roots_pem(made.cert.pem()).expect("a certificate");
    (server.expect("they belong together"), client)
}

/// Sends each text and a ping, and collects what comes before the reply to the ping.
fn on_lines(mut connection: JsonLines, texts: Vec<String>) -> Vec<Vec<String>> {
    let ask = |text: String| {
        connection.send(format!("{text}\n{PING}\n"));
        let mut replies = vec![connection.line()];
        while replies.last().is_some_and(|line| line != PONG) {
            replies.push(connection.line());
        }
        replies.pop();
        replies
    };
    texts.into_iter().map(ask).collect()
}

#[test]
fn lines_over_tcp() {
    check(tcp(), None, |handle, texts| on_lines(JsonLines::tcp(socket_addr(handle)), texts));
}

#[test]
fn lines_over_a_unix_socket() {
    let path = std::env::temp_dir().join(format!("ringway-vectors-{}.sock", std::process::id()));
    let address = format!("unix://{}", path.display()).parse().expect("an address");
    check(address, None, |_, texts| on_lines(JsonLines::unix(&path), texts));
}

#[test]
fn lines_over_tls() {
    let (server, client) = tls();
    check("tls://127.0.0.1:0".parse().expect("an address"), Some(server), |handle, texts| {
        let address = format!("tls://localhost:{}", socket_addr(handle).port());
        let asked = block_on(async move {
            let mut connection = Client::new(&*address)?.tls(client).open().await?;
            let (mut all, mut unread) = (Vec::new(), Vec::new());
            for text in texts {
                connection.write(format!("{text}\n{PING}\n").as_bytes()).await?;
                let mut replies = Vec::new();
                while replies.last().is_none_or(|line| line != PONG) {
                    let Some(end) = unread.iter().position(|byte| *byte == b'\n') else {
                        let view = connection.recv().await?.expect("the connection goes on");
                        unread.extend_from_slice(&view);
                        continue;
                    };
                    let line: Vec<u8> = unread.drain(..=end).take(end).collect();
                    replies.push(String::from_utf8(line).expect("text"));
                }
                replies.pop();
                all.push(replies);
            }
            Ok::<_, ringway_net::Error>(all)
        });
        asked.expect("it runs").expect("no error")
    });
}

/// Posts each text by itself.
fn by_post(client: HttpClient, url: String, texts: Vec<String>) -> Vec<Vec<String>> {
    let asked = block_on(async move {
        let mut all = Vec::new();
        for text in texts {
            let answer = client.post(&url, JSON, text.into_bytes()).await?;
            let status = answer.status();
            let content = answer.into_body().bytes(MESSAGE_BYTES as usize).await?;
            let content = String::from_utf8(content.to_vec()).expect("text");
            let has_none = status == StatusCode::NO_CONTENT && content.is_empty();
            assert!(status == StatusCode::OK || has_none, "{status} {content}");
            all.push(if has_none { Vec::new() } else { vec![content] });
        }
        Ok::<_, ringway_http::Error>(all)
    });
    asked.expect("it runs").expect("no error")
}

#[test]
fn posts_over_http_1() {
    check(tcp(), None, |handle, texts| {
        by_post(HttpClient::new(), format!("http://{}/rpc", socket_addr(handle)), texts)
    });
}

#[test]
fn posts_over_tls() {
    let (server, client) = tls();
    check("tls://127.0.0.1:0".parse().expect("an address"), Some(server), |handle, texts| {
        let url = format!("https://localhost:{}/", socket_addr(handle).port());
        by_post(HttpClient::new().tls(client), url, texts)
    });
}

#[test]
fn posts_over_http_2() {
    check(tcp(), None, |handle, texts| {
        let mut caller = GrpcCaller::connect(socket_addr(handle));
        let fields =
            [(":method", Method::POST.as_str()), (":path", "/rpc"), ("content-type", JSON)];
        let ask = |text: String| {
            let stream = caller.open_with("", &fields, text.as_bytes(), true);
            let came = caller.answer(stream);
            let content = String::from_utf8(came.content.clone()).expect("text");
            match came.field(":status") {
                Some("200") => vec![content],
                Some("204") if content.is_empty() => Vec::new(),
                other => panic!("{other:?} {content}"),
            }
        };
        texts.into_iter().map(ask).collect()
    });
}

const JSON: &str = "application/json";

/// Sends each text and a ping as messages.
fn by_web_socket(client: HttpClient, url: String, texts: Vec<String>) -> Vec<Vec<String>> {
    let asked = block_on(async move {
        let (mut socket, mut all) = (client.websocket(&url).await?, Vec::new());
        for text in texts {
            socket.send_text(&text).await?;
            socket.send_text(PING).await?;
            let mut replies = Vec::new();
            loop {
                match socket.recv().await? {
                    Some(WebSocketMessage::Text(text)) if text == PONG => break,
                    Some(WebSocketMessage::Text(text)) => replies.push(text),
                    other => panic!("{other:?}"),
                }
            }
            all.push(replies);
        }
        Ok::<_, ringway_http::Error>(all)
    });
    asked.expect("it runs").expect("no error")
}

#[test]
fn messages_of_a_web_socket() {
    check(tcp(), None, |handle, texts| {
        by_web_socket(HttpClient::new(), format!("ws://{}/rpc", socket_addr(handle)), texts)
    });
}

#[test]
fn messages_of_a_web_socket_over_tls() {
    let (server, client) = tls();
    check("tls://127.0.0.1:0".parse().expect("an address"), Some(server), |handle, texts| {
        let url = format!("wss://localhost:{}/", socket_addr(handle).port());
        by_web_socket(HttpClient::new().tls(client), url, texts)
    });
}
