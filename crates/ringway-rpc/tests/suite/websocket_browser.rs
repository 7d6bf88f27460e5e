//! A real browser and a WebSocket of ours agree on compression.

use ringway_http::{Router, WebSocketLimits, WebSocketUpgrade};
use ringway_rpc::{Server, ServerHandle};

use crate::support::browser::Page;
use crate::support::web_service::{Reports, WebServer};
use crate::support::{end, socket_addr};

fn start(deflates: bool) -> ServerHandle {
    let mut limits = WebSocketLimits::default();
    limits.permessage_deflate = deflates;
    let routes = Router::new().get("/echo", async move |request| {
        WebSocketUpgrade::new(request).any_origin().limits(limits).answer(async |socket| {
            while let Some(message) = socket.recv().await? {
                socket.send(message).await?;
            }
            Ok(())
        })
    });
    let server = Server::bind("tcp://127.0.0.1:0").expect("an address").threads(1);
    let server = server.service(WebServer::new(Reports::default())).http_routes(routes);
    server.start().expect("it starts")
}

/// Sends the text in three messages, and returns the extensions and whether all came back in order.
const TALK: &str = "new Promise((done, fail) => { \
    const socket = new WebSocket(`ws://localhost:PORT/echo`); \
    const texts = ['short', 'the sea '.repeat(50000), 'été '.repeat(20000)]; \
    const came = []; \
    socket.onopen = () => texts.forEach((text) => socket.send(text)); \
    socket.onmessage = (event) => { \
        came.push(event.data); \
        if (came.length === 3) { \
            done([socket.extensions, came.every((text, at) => text === texts[at])]); \
            socket.close(); \
        } }; \
    socket.onclose = (event) => fail(new Error(`closed: ${event.code} ${event.reason}`)); })";

#[test]
fn a_browser_compresses_messages_where_the_server_wants_it() {
    for deflates in [true, false] {
        let handle = start(deflates);
        let port = socket_addr(&handle).port();
        let Some(mut page) = Page::open(&format!("http://localhost:{port}/healthz")) else {
            return end(handle);
        };
        let told = page.eval(&TALK.replace("PORT", &port.to_string()));
        assert_eq!(told[1], true, "{told}");
        let extensions = told[0].as_str().expect("a text");
        assert_eq!(extensions.contains("permessage-deflate"), deflates, "{extensions}");
        let received: u64 =
            handle.net().stats().cores.iter().map(|core| core.counters.bytes_received).sum();
        assert_eq!(received < 50_000, deflates, "{received} bytes of 500,000 characters");
        drop(page);
        end(handle);
    }
}
