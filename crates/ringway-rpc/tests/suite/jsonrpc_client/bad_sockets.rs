//! Servers whose WebSockets end, or are wrong: a call fails with a clear status, and the core goes on.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringway_http::http::StatusCode;
use ringway_http::{
    CloseCode, Error, Response, Router, WebSocket, WebSocketMessage, WebSocketUpgrade, serve,
};
use ringway_net::{ClientTls, Server, ServerTls};
use ringway_rpc::{Client, Status};

use crate::support::math::MathClient;

/// What a server does about the first call.
#[derive(Clone, Copy, Debug)]
enum Act {
    Close(u16, &'static str),
    /// Bytes in place of frames.
    Raw(&'static [u8]),
    Binary,
    Long,
    /// The answer in fragments, with a ping between them.
    Fragments,
}

fn client(url: &str) -> MathClient {
    let client = Client::builder().address(url).connections_max(1).message_bytes_max(10_000);
    MathClient::new(client.build().expect("an address"))
}

async fn request(socket: &mut WebSocket) -> Result<serde_json::Value, Error> {
    let message = socket.recv().await?.ok_or_else(|| Error::bad_request("the end"))?;
    let WebSocketMessage::Text(text) = message else { panic!("{message:?}") };
    Ok(serde_json::from_str(&text).expect("JSON"))
}

/// Queues bytes as they are.
fn put(socket: &WebSocket, bytes: &[u8]) {
    let _little_is_queued = socket.connection().write(bytes);
}

/// The code with which the client has closed the last WebSocket.
type Told = Arc<Mutex<Option<u16>>>;

async fn answer(socket: &mut WebSocket, act: Act, told: &Told) -> Result<(), Error> {
    let ping = request(socket).await?;
    assert_eq!(ping["method"], "rpc.ping");
    socket.send(format!(r#"{{"jsonrpc":"2.0","result":1,"id":{}}}"#, ping["id"])).await?;
    let call = request(socket).await?;
    match act {
        Act::Close(code, reason) => return socket.close(CloseCode::from(code), reason).await,
        Act::Raw(bytes) => put(socket, bytes),
        Act::Binary => socket.send(vec![1]).await?,
        Act::Long => socket.send("x".repeat(100_000)).await?,
        Act::Fragments => {
            let text = format!(r#"{{"jsonrpc":"2.0","result":1,"id":{}}}"#, call["id"]);
            let (first, second) = text.split_at(20);
            let head = |first_byte: u8, text: &str| [first_byte, text.len() as u8];
            let ping: &[u8] = b"\x89\x02hi";
            for bytes in [&head(0x01, first), first.as_bytes(), ping, &head(0x80, second)] {
                put(socket, bytes);
            }
            put(socket, second.as_bytes());
        }
    }
    while socket.recv().await?.is_some() {}
    *told.lock().expect("no panic") = socket.closing().map(|closing| closing.code.as_u16());
    Ok(())
}

/// The outcome of a call that a server answers so.
fn outcome(act: Act) -> Result<i64, Status> {
    outcome_and_code(act).0
}

/// The outcome of such a call, and the code with which the client has closed the WebSocket.
fn outcome_and_code(act: Act) -> (Result<i64, Status>, Option<u16>) {
    let told = Told::default();
    let by_server = Arc::clone(&told);
    let router = Router::new().get("/", async move |request| {
        let told = Arc::clone(&by_server);
        WebSocketUpgrade::new(request)
            .answer(async move |socket: &mut WebSocket| answer(socket, act, &told).await)
    });
    let server = Server::bind("tcp://127.0.0.1:0").expect("an address");
    let server = server.start(serve(router)).expect("it listens");
    let url = server.addresses()[0].to_string().replace("tcp://", "ws://");
    let call = client(&url).subtract(2, 1).timeout(Duration::from_secs(15)).wait();
    server.shutdown();
    server.wait().expect("it ends well");
    let code = *told.lock().expect("no panic");
    (call, code)
}

#[test]
fn server_that_breaks_the_protocol_is_told_so() {
    for (act, code) in [
        (Act::Raw(b"\x81\x81abcde"), 1002),
        (Act::Binary, 1003),
        (Act::Raw(b"\x81\x01\xff"), 1007),
        (Act::Raw(b"\x81\x01x"), 1007),
        (Act::Long, 1009),
    ] {
        let (outcome, told) = outcome_and_code(act);
        assert!(outcome.is_err());
        assert_eq!(told, Some(code), "{act:?}");
    }
}

#[test]
fn handshake_that_is_refused_fails_the_call_with_the_status() {
    let server = Server::bind("tcp://127.0.0.1:0").expect("an address");
    let server = server.start(serve(Router::new())).expect("it listens");
    let url = server.addresses()[0].to_string().replace("tcp://", "ws://");
    let call = client(&url).subtract(2, 1).timeout(Duration::from_secs(15)).wait();
    let status = call.expect_err("nobody speaks WebSocket there");
    assert!(status.is_unavailable() && status.is_not_executed(), "{status}");
    assert!(status.message().contains("HTTP status 404"), "{status}");
    server.shutdown();
    server.wait().expect("it ends well");
}

#[test]
fn socket_that_ends_fails_its_calls_and_says_why() {
    for (act, said) in [
        (Act::Close(1001, "bye"), "closed the WebSocket: 1001 bye"),
        (Act::Close(4007, ""), "closed the WebSocket: 4007"),
        (Act::Raw(b"\x88\x00"), "closed the WebSocket: 1005"),
        (Act::Raw(b"\x81\x81abcde"), "a frame of its WebSocket is wrong"),
        (Act::Raw(b"\xc1\x01a"), "a frame of its WebSocket is wrong"),
        (Act::Raw(b"\x80\x01a"), "a frame of its WebSocket is wrong"),
        (Act::Raw(b"\x81\x01\xff"), "a frame of its WebSocket is wrong"),
        (Act::Raw(b"\x81\x01x"), "not JSON"),
        (Act::Binary, "is binary"),
        (Act::Long, "a frame of its WebSocket is wrong"),
    ] {
        let status = outcome(act).expect_err("a server that misbehaves");
        assert!(status.is_unavailable() || status.is_internal(), "{act:?}: {status}");
        assert!(status.message().contains(said), "{act:?}: {status}");
        assert!(!status.is_not_executed(), "{act:?}: {status}");
    }
}

#[test]
fn text_in_fragments_is_put_together() {
    assert_eq!(outcome(Act::Fragments).expect("an answer"), 1);
}

/// A server over TLS that answers the handshake with a status of HTTP.
fn refusal_over_tls(status: StatusCode) -> Status {
    let router = Router::new().get("/", async move |_| {
        Err(Error::new(status, "no WebSocket for you")) as Result<Response, _>
    });
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let tls = ServerTls::from_pem(made.cert.pem(), made.signing_key.serialize_pem());
    let server = Server::bind("tls://127.0.0.1:0").expect("an address");
    let server = server.tls(tls.expect("they belong together"));
    let server = server.start(serve(router)).expect("it listens");
    let address = server.addresses()[0].to_string();
    let (_, port) = address.rsplit_once(':').expect("a port");
    let tls = ClientTls::new().roots_pem(made.cert.pem()).expect("a certificate");
    let url = format!("wss://localhost:{port}");
    let client = Client::builder().address(&*url).tls(tls).build().expect("an address");
    let call = MathClient::new(client).subtract(2, 1).timeout(Duration::from_secs(15)).wait();
    server.shutdown();
    server.wait().expect("it ends well");
    call.expect_err("no WebSocket is opened")
}

#[test]
fn handshake_that_is_refused_over_tls_has_its_status_too() {
    for status in [StatusCode::FORBIDDEN, StatusCode::BAD_GATEWAY] {
        let refused = refusal_over_tls(status);
        let said = format!("HTTP status {}", status.as_u16());
        assert!(refused.is_unavailable() && refused.is_not_executed(), "{refused}");
        assert!(refused.message().contains(&said), "{refused}");
    }
}
