//! permessage-deflate of WebSockets: off by default, and bounded where it is on.

use std::io::{Read, Write};

use http::header::SEC_WEBSOCKET_EXTENSIONS;
use ringway_http::{
    Client, CloseCode, Result, Router, WebSocketLimits, WebSocketMessage, WebSocketUpgrade,
};
use ringway_runtime::block_on;
use ringway_wire::websocket::{Arrival, DataKind, MessageReader, put_deflated};

use crate::support::{Page, Running, read_until, upgrade};

const MASK: Option<[u8; 4]> = Some([9, 0, 200, 77]);
const OFFER: &str = "sec-websocket-extensions: permessage-deflate; client_max_window_bits\r\n";

fn limits(deflates: bool) -> WebSocketLimits {
    let mut limits = WebSocketLimits::default();
    (limits.permessage_deflate, limits.message_bytes_max) = (deflates, 100_000);
    limits
}

fn echoes(limits: WebSocketLimits) -> Running {
    Running::start(Router::new().get("/echo", async move |request| {
        WebSocketUpgrade::new(request).limits(limits).answer(async |socket| {
            while let Some(message) = socket.recv().await? {
                socket.send(message).await?;
            }
            Ok(())
        })
    }))
}

fn compressed(text: &str) -> Vec<u8> {
    let mut frame = Vec::new();
    put_deflated(DataKind::Text, text.as_bytes(), MASK, &mut frame);
    frame
}

fn open(server: &Running) -> Page {
    let mut socket = server.connect();
    socket.write_all(upgrade("/echo", OFFER).as_bytes()).expect("a request");
    Page::opened(socket)
}

#[test]
fn messages_are_not_compressed_unless_the_server_wants_it() {
    assert!(!WebSocketLimits::default().permessage_deflate);
    let server = echoes(limits(false));
    let mut page = open(&server);
    assert!(!page.head.contains("extensions"), "{}", page.head);
    let text = "the sea ".repeat(1_000);
    page.send(&*text);
    page.expect(&*text);
    page.write(&compressed(&text));
    assert_eq!(page.expect_close(1002), "a reserved bit of a frame is set");
}

#[test]
fn messages_are_compressed_where_both_ends_want_it() {
    let server = echoes(limits(true));
    let mut socket = server.connect();
    socket.write_all(upgrade("/echo", OFFER).as_bytes()).expect("a request");
    let head = read_until(&mut socket, "\r\n\r\n");
    let agreed = "sec-websocket-extensions: permessage-deflate; server_no_context_takeover; \
                  client_no_context_takeover\r\n";
    assert!(head.contains(agreed), "{head}");
    let text = "the sea ".repeat(1_000);
    for _ in 0..2 {
        socket.write_all(&compressed(&text)).expect("the server reads");
        let mut head = [0; 2];
        socket.read_exact(&mut head).expect("a frame");
        assert_eq!(head[0], 0xc1, "one frame with a compressed text");
        assert!(head[1] < 126, "it is much shorter");
        let mut frame = head.to_vec();
        frame.resize(2 + usize::from(head[1]), 0);
        socket.read_exact(&mut frame[2..]).expect("its payload");
        let mut reader = MessageReader::of_server(100_000).with_deflate();
        let message = WebSocketMessage::from(&*text);
        assert_eq!(reader.next(&mut &frame[..]), Ok(Some(Arrival::Message(message))));
    }
}

#[test]
fn who_offers_nothing_gets_messages_as_they_are() {
    let server = echoes(limits(true));
    let mut page = Page::open(&server, "/echo", b"");
    assert!(!page.head.contains("extensions"), "{}", page.head);
    let text = "the sea ".repeat(1_000);
    page.send(&*text);
    page.expect(&*text);
}

#[test]
fn what_a_bomb_contains_is_bounded() {
    let server = echoes(limits(true));
    let bomb = compressed(&"0".repeat(100_001));
    assert!(bomb.len() < 1_000, "it is one");
    let mut page = open(&server);
    page.write(&bomb);
    assert_eq!(page.expect_close(1009), "a message is longer than 100000 bytes");
    let mut page = open(&server);
    page.write(b"\xc1\x82\x00\x00\x00\x00\xff\xff");
    assert_eq!(page.expect_close(1007), "a compressed message is malformed");
}

#[test]
fn our_client_and_our_server_agree_if_both_want_it() {
    for (client, server) in [(true, true), (true, false), (false, true)] {
        let running = echoes(limits(server));
        let url = running.url("/echo");
        let talk = async move {
            let mut request = http::Request::new(());
            *request.uri_mut() = url.replace("http", "ws").parse().expect("a URL");
            // What a program writes there is not offered: it could not be read.
            let other = http::HeaderValue::from_static("permessage-deflate");
            request.headers_mut().insert(SEC_WEBSOCKET_EXTENSIONS, other);
            let mut socket = Client::new().websocket_with(request, limits(client)).await?;
            assert_eq!(socket.is_compressed(), client && server);
            for length in [0, 1, 63, 64, 1_000, 100_000] {
                let text = WebSocketMessage::from("x".repeat(length));
                let bytes = WebSocketMessage::from(vec![8; length]);
                socket.send(text.clone()).await?;
                socket.send(bytes.clone()).await?;
                assert!(socket.recv().await?.as_ref() == Some(&text), "{length}");
                assert!(socket.recv().await?.as_ref() == Some(&bytes), "{length}");
            }
            socket.close(CloseCode::NORMAL, "").await
        };
        let outcome: Result = block_on(talk).expect("a runtime");
        outcome.expect("echoes");
    }
}
