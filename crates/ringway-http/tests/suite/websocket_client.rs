//! WebSockets of our client, against our server and against sockets.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use http::StatusCode;
use ringway_http::{
    Client, CloseCode, Error, HttpLimits, Result, Router, WebSocket, WebSocketLimits,
    WebSocketMessage, WebSocketUpgrade,
};
use ringway_net::{ClientTls, Server, ServerTls};
use ringway_runtime::block_on;

use crate::support::{Running, read_until};

fn echoes() -> Router {
    Router::new().get("/echo", async |request| {
        WebSocketUpgrade::new(request).protocols(["echo"]).answer(async |socket| {
            while let Some(message) = socket.recv().await? {
                socket.send(message).await?;
            }
            Ok(())
        })
    })
}

async fn check_echo(client: &Client, url: &str) -> Result {
    let mut socket = client.websocket(url).await?;
    for length in [0, 1, 126, 65_536, 1 << 20] {
        let text = WebSocketMessage::from("x".repeat(length));
        let bytes = WebSocketMessage::from(vec![8; length]);
        socket.send(text.clone()).await?;
        socket.send(bytes.clone()).await?;
        assert!(socket.recv().await?.as_ref() == Some(&text));
        assert!(socket.recv().await?.as_ref() == Some(&bytes));
    }
    socket.close(CloseCode::NORMAL, "done").await?;
    assert_eq!(socket.closing().map(|closing| closing.code), Some(CloseCode::NORMAL));
    assert_eq!(socket.recv().await, Ok(None));
    assert!(socket.send("late").await.is_err());
    Ok(())
}

#[test]
fn messages_come_back_over_tcp() {
    let server = Running::start(echoes());
    let url = server.url("/echo").replace("http", "ws");
    block_on(async move { check_echo(&Client::new(), &url).await })
        .expect("a runtime")
        .expect("echoes");
}

#[test]
fn messages_come_back_over_tls() {
    let certificate = rcgen::generate_simple_self_signed(["localhost".into()]).expect("a key");
    let (chain, key) = (certificate.cert.pem(), certificate.signing_key.serialize_pem());
    let server = Server::bind("tls://127.0.0.1:0").expect("an address");
    let server = server.tls(ServerTls::from_pem(&chain, &key).expect("a certificate"));
    let server = Running::of(server, echoes(), HttpLimits::default());
    let url = server.url("/echo").replace("http://127.0.0.1", "wss://localhost");
    block_on(async move {
        let tls = ClientTls::new().roots_pem(&chain).expect("a certificate");
        check_echo(&Client::new().tls(tls), &url).await
    })
    .expect("a runtime")
    .expect("echoes");
}

#[test]
fn a_protocol_is_agreed_on_by_its_header() {
    let server = Running::start(echoes());
    let url = server.url("/echo").replace("http", "ws");
    block_on(async move {
        let request = http::Request::get(&url).header("sec-websocket-protocol", "chat, echo");
        let request = request.body(()).expect("a request");
        let mut socket = Client::new().websocket_with(request, WebSocketLimits::default()).await?;
        assert_eq!(socket.protocol(), Some("echo"));
        socket.close(CloseCode::NORMAL, "").await
    })
    .expect("a runtime")
    .expect("a WebSocket");
}

/// Answers one connection with these bytes, behind the request's head, and waits for its end.
fn answers(answer: impl FnOnce(&str) -> Vec<u8> + Send + 'static) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let url = format!("ws://{}/", listener.local_addr().expect("an address"));
    let server = thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a client");
        let head = read_until(&mut socket, "\r\n\r\n");
        socket.write_all(&answer(&head)).expect("a reply");
        let _reset_or_end = socket.read_to_end(&mut Vec::new());
    });
    (url, server)
}

/// The head with which a server accepts, and what follows.
fn accepting(head: &str, more: &str, frames: &[u8]) -> Vec<u8> {
    let key = head.split_once("sec-websocket-key: ").and_then(|(_, rest)| rest.split_once("\r\n"));
    let (key, _) = key.expect("a key");
    let sum = sha1_smol::Sha1::from(format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11"));
    let accept =
        base64::Engine::encode(&base64::engine::general_purpose::STANDARD, sum.digest().bytes());
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: WebSocket\r\nconnection: Upgrade\r\n\
         sec-websocket-accept: {accept}\r\n{more}\r\n"
    );
    [head.as_bytes(), frames].concat()
}

fn open(answer: impl FnOnce(&str) -> Vec<u8> + Send + 'static) -> Result<(), Error> {
    let (url, server) = answers(answer);
    let outcome = block_on(async move { Client::new().websocket(&url).await.map(drop) });
    server.join().expect("the client has gone");
    outcome.expect("a runtime")
}

#[test]
fn an_answer_that_is_no_websocket_is_an_error() {
    let status = |outcome: Result<(), Error>| outcome.expect_err("refused").status();
    let refused = open(|_| b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n".into());
    assert_eq!(status(refused), StatusCode::UNAUTHORIZED);
    let plain = open(|_| b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".into());
    assert_eq!(status(plain), StatusCode::OK);
    let other = open(|head| accepting(&head.replace("key: ", "key: x"), "", b""));
    assert_eq!(status(other), StatusCode::BAD_GATEWAY);
    let extended =
        open(|head| accepting(head, "sec-websocket-extensions: permessage-deflate\r\n", b""));
    assert_eq!(status(extended), StatusCode::BAD_GATEWAY);
    let protocol = open(|head| accepting(head, "sec-websocket-protocol: chat\r\n", b""));
    assert_eq!(status(protocol), StatusCode::BAD_GATEWAY);
    assert_eq!(status(open(|_| Vec::from(b"garbage\r\n\r\n"))), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(open(|head| accepting(head, "", b"")), Ok(()));
}

#[test]
fn a_url_of_http_opens_no_websocket() {
    block_on(async {
        for url in ["http://h/", "https://h/", "ws:///", "nonsense"] {
            let failed = Client::new().websocket(url).await.expect_err(url);
            assert_eq!(failed.status(), StatusCode::BAD_REQUEST, "{url}");
        }
    })
    .expect("a runtime");
}

#[test]
fn a_server_that_does_not_answer_costs_its_time() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let url = format!("ws://{}/", listener.local_addr().expect("an address"));
    block_on(async move {
        let client = Client::new().timeout(Duration::from_millis(50));
        let failed = client.websocket(&url).await.expect_err("nobody accepts");
        assert_eq!(failed.status(), StatusCode::GATEWAY_TIMEOUT);
    })
    .expect("a runtime");
}

/// What the client makes of frames that come with the handshake.
fn receive(frames: &'static [u8]) -> Result<Vec<WebSocketMessage>, Error> {
    let (url, server) = answers(move |head| accepting(head, "", frames));
    let outcome = block_on(async move {
        let mut socket: WebSocket = Client::new().websocket(&url).await?;
        let mut messages = Vec::new();
        while let Some(message) = socket.recv().await? {
            messages.push(message);
        }
        Ok(messages)
    });
    server.join().expect("the client has gone");
    outcome.expect("a runtime")
}

#[test]
fn frames_that_come_with_the_handshake_are_read() {
    let messages = receive(b"\x81\x02hi\x89\x00\x02\x01\x07\x80\x01\x08\x88\x02\x03\xE8");
    assert_eq!(messages, Ok(vec!["hi".into(), vec![7, 8].into()]));
}

#[test]
fn bad_frames_of_a_server_are_errors() {
    let status = |frames| receive(frames).expect_err("bad frames").status();
    assert_eq!(status(b"\x81\x82\0\0\0\0hi"), StatusCode::BAD_REQUEST); // masked
    assert_eq!(status(b"\x81\x01\xFF"), StatusCode::BAD_REQUEST);
    assert_eq!(status(b"\x82\x7F\0\0\0\x01\0\0\0\0"), StatusCode::PAYLOAD_TOO_LARGE);
}
