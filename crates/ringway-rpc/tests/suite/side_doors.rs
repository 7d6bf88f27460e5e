//! What a server tells beside its calls: interceptors and switches apply to all of it, whichever way it is asked.

use std::cell::Cell;
use std::io::{Read, Write};
use std::rc::Rc;
use std::time::Duration;

use ringway_http::{Router, WebSocketLimits, WebSocketUpgrade, text};
use ringway_rpc::testing::{TestServer, simulate};
use ringway_rpc::{Server, ServerHandle, Status};
use ringway_runtime::{sleep, spawn, yield_now};
use ringway_wire::websocket::{DataKind, put_deflated};

use crate::support::echo::{Echo, serve};
use crate::support::grpc_caller::GrpcCaller;
use crate::support::json_lines::JsonLines;
use crate::support::web_caller::{ask, connect, head, post};
use crate::support::web_service;
use crate::support::{end, socket_addr};

const DISCOVER: &str = r#"{"jsonrpc":"2.0","method":"rpc.discover","id":1}"#;
const CHECK: &str =
    r#"{"jsonrpc":"2.0","method":"grpc.health.v1.Health/Check","params":{},"id":1}"#;
const LIST: &[u8] = &[7 << 3 | 2, 1, b'*'];
const REFLECTION: &str = "grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

fn posted(handle: &ServerHandle, text: &str) -> String {
    ask(handle, post("/rpc", "content-type: application/json\r\n", text)).text()
}

fn refuses(server: Server) -> Server {
    server.intercept(async |_, _| Err(Status::unauthenticated("a token is needed")))
}

#[test]
fn an_interceptor_guards_what_the_server_tells_of_itself() {
    let handle = serve(&Echo::default(), refuses);
    let mut lines = JsonLines::tcp(socket_addr(&handle));
    for asked in [DISCOVER, CHECK] {
        for answer in [posted(&handle, asked), lines.ask(asked)] {
            assert!(answer.contains("a token is needed"), "{answer}");
            assert!(!answer.contains("echo.Echo"), "{answer}");
        }
    }
    let mut grpc = GrpcCaller::connect(socket_addr(&handle));
    for (method, message) in [(REFLECTION, LIST), ("grpc.health.v1.Health/Check", b"")] {
        assert_eq!(grpc.call(method, message).status(), (16, "a token is needed"));
    }
    drop((grpc, lines));
    end(handle);
}

#[test]
fn reflection_can_be_switched_off_for_all_protocols() {
    let handle = serve(&Echo::default(), |server| server.reflection(false));
    let unknown = posted(&handle, DISCOVER);
    assert!(unknown.contains("-32601"), "{unknown}");
    let mut grpc = GrpcCaller::connect(socket_addr(&handle));
    for method in [REFLECTION, "ringway.reflection.v1.Reflection/List"] {
        assert_eq!(grpc.call(method, LIST).status().0, 12, "{method}");
    }
    assert_eq!(grpc.call("grpc.health.v1.Health/Check", b"").status().0, 0);
    drop(grpc);
    end(handle);
}

#[test]
fn lines_of_json_and_metrics_can_be_switched_off() {
    let own = Router::new().get("/metrics", async |_| Ok(text("of the program")));
    let handle = serve(&Echo::default(), |server| {
        server.json_rpc_lines(false).metrics_page(false).http_routes(own)
    });
    let mut lines = JsonLines::tcp(socket_addr(&handle));
    lines.send(format!("{CHECK}\n"));
    assert_eq!(lines.try_line(), None, "it is closed");
    assert!(posted(&handle, CHECK).contains("SERVING"));
    assert_eq!(ask(&handle, head("GET", "/metrics", "")).text(), "of the program");
    end(handle);
}

/// A WebSocket's handshake of a page, with these fields.
fn handshake(fields: &str) -> String {
    format!(
        "GET /socket HTTP/1.1\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{fields}\r\n"
    )
}

#[test]
fn others_are_served_while_a_long_message_is_decompressed() {
    const LEN: usize = 16 << 20;
    let turns = simulate(1, async {
        let routes = Router::new().get("/socket", async |request| {
            let mut limits = WebSocketLimits::default();
            (limits.permessage_deflate, limits.message_bytes_max) = (true, LEN);
            WebSocketUpgrade::new(request).limits(limits).answer(async |socket| {
                // All of the message is there then, and nothing is waited for.
                sleep(Duration::from_secs(1)).await;
                let turns = Rc::new(Cell::new(0_usize));
                let of_others = Rc::clone(&turns);
                let other = spawn(async move {
                    loop {
                        of_others.set(of_others.get() + 1);
                        yield_now().await;
                    }
                });
                let message = socket.recv().await?.expect("a message");
                other.abort();
                assert_eq!(message.as_bytes().len(), LEN);
                socket.send_text(&turns.get().to_string()).await?;
                Ok(())
            })
        });
        let server = TestServer::start_with(|server| server.http_routes(routes))?;
        let mut connection = ringway_net::Client::new(server.address())?.open().await?;
        let offer = "host: here\r\nsec-websocket-extensions: permessage-deflate\r\n";
        let mut said = handshake(offer).into_bytes();
        put_deflated(DataKind::Binary, &vec![7; LEN], Some([9; 4]), &mut said);
        connection.send(said).await?;
        let mut heard = Vec::new();
        while let Some(view) = connection.recv().await? {
            heard.extend_from_slice(&view);
        }
        let heard = String::from_utf8_lossy(&heard).into_owned();
        let said = heard.split("\r\n\r\n").nth(1).expect("a head, and frames");
        let digits = said.chars().skip(2).take_while(char::is_ascii_digit).collect::<String>();
        Ok(digits.parse::<usize>().expect("a number"))
    });
    let turns = turns.expect("an answer");
    assert!(turns >= LEN >> 20, "{turns} turns of another task");
}

#[test]
fn hosts_hold_for_the_web_sockets_of_routes() {
    let routes = Router::new()
        .get("/socket", async |request| WebSocketUpgrade::new(request).answer(async |_| Ok(())));
    let any = Router::new().get("/socket", async |request| {
        WebSocketUpgrade::new(request).any_origin().answer(async |_| Ok(()))
    });
    let own = serve(&Echo::default(), |server| server.http_routes(routes.clone()));
    let listed =
        serve(&Echo::default(), |server| server.http_routes(routes).hosts(["shop.example"]));
    let open = serve(&Echo::default(), |server| server.http_routes(any));
    let cases = [
        // No page, and one of an address.
        (&own, "evil.example:81", "", 101),
        (&own, "127.0.0.1:81", "http://127.0.0.1:81", 101),
        // A name that its owner has made to lead here: both are the same, and it is somebody else's.
        (&own, "evil.example:81", "http://evil.example:81", 403),
        (&open, "evil.example:81", "http://evil.example:81", 101),
        (&listed, "evil.example:81", "http://evil.example:81", 403),
        (&listed, "shop.example:81", "http://shop.example:81", 101),
        // A proxy has changed the host.
        (&listed, "127.0.0.1:81", "https://shop.example", 101),
        (&listed, "127.0.0.1:81", "https://evil.example", 403),
    ];
    for (server, host, origin, status) in cases {
        let origin = match origin {
            "" => String::new(),
            origin => format!("origin: {origin}\r\n"),
        };
        let mut socket = connect(server);
        let asked = handshake(&format!("host: {host}\r\n{origin}"));
        socket.write_all(asked.as_bytes()).expect("it reads");
        let mut answer = [0; 12];
        socket.read_exact(&mut answer).expect("an answer");
        let expected = format!("HTTP/1.1 {status}");
        assert_eq!(str::from_utf8(&answer), Ok(&*expected), "{host}, {origin}");
    }
    for server in [own, listed, open] {
        end(server);
    }
}

#[test]
fn methods_of_every_kind_are_called_by_json_at_paths_of_their_own() {
    let handle = web_service::start(Default::default(), |server| {
        let methods = ["Put", "Count", "Add", "Echo", "DropAll"];
        let path = |method: &str| (format!("/v1/{method}"), format!("web.v1.Web/{method}"));
        methods.map(path).iter().fold(server, |server, (path, of)| server.json_gateway(path, of))
    });
    let many = format!("{}]", "\"\" ".repeat(100_000));
    for (method, body, status, lines) in [
        ("Put", r#""a""#, 200, &[r#""a""#][..]),
        ("Count", "2", 200, &[r#"{"result":1}"#, r#"{"result":2}"#]),
        ("Count", "", 200, &[]),
        ("Count", "2 2", 501, &["the method takes one message, and more were sent"]),
        ("Count", "2 ]", 501, &["the method takes one message, and more were sent"]),
        ("Count", "]", 400, &["expected value"]),
        ("Add", " 1 2\n3", 200, &[r#""6""#]),
        ("Add", "", 200, &[r#""0""#]),
        ("Add", "1 x", 400, &["expected value"]),
        ("Add", "\u{feff}1", 200, &[r#""1""#]),
        ("Put", "\u{feff}\"a\"", 200, &[r#""a""#]),
        ("Echo", r#""a" "b""#, 200, &[r#"{"result":"a"}"#, r#"{"result":"b"}"#]),
        ("Echo", r#""a" ]"#, 400, &["expected value"]),
        ("DropAll", &many, 200, &[r#""0""#]),
    ] {
        let answer = ask(&handle, post(&format!("/v1/{method}"), "", body));
        let text = answer.text();
        assert_eq!(answer.status, status, "{method}: {text}");
        assert_eq!(text.lines().count(), lines.len(), "{method}: {text}");
        for (line, part) in text.lines().zip(lines) {
            assert!(line.contains(part), "{method}: {line}");
        }
    }
    let late = ask(&handle, post("/v1/Count", "grpc-timeout: 0n\r\n", "2"));
    assert_eq!(late.status, 504, "{}", late.text());
    end(handle);
}
