//! What clients and those between may send over HTTP without being refused.

use std::io::Write;
use std::net::TcpStream;

use ringway_rpc::{Compression, ServerHandle};
use ringway_wire::grpc::compress;

use crate::support::end;
use crate::support::web_caller::{Answer, ask, connect, frame, head, post, read_until};
use crate::support::web_service::{Reports, start};

const JSON: &str = "content-type: application/json\r\n";
const LOOK: &str = "/web.v1.Web/Look";

/// Headers as browsers and proxies add them, none of which can be metadata.
const FOREIGN: &[u8] =
    b"cookie: name=J\xc3\xb6rg\r\nx-latin: caf\xe9\r\nx-tab: a\tb\r\nx$a: 1\r\nx~y: 1\r\n";

/// A request with these headers in front of its own.
fn with_foreign(request: Vec<u8>) -> Vec<u8> {
    let end = request.windows(2).position(|two| two == b"\r\n").expect("a line") + 2;
    [&request[..end], FOREIGN, &request[end..]].concat()
}

#[test]
fn headers_that_cannot_be_metadata_are_left_out() {
    let handle = start(Reports::default(), |server| server);
    let tenant = |kind: &str| format!("content-type: {kind}\r\ntenant: blue\r\n");
    let looked = ask(&handle, with_foreign(post(LOOK, &tenant("application/json"), "\"sea\"")));
    assert_eq!((looked.status, looked.text()), (200, "\"blue looks at sea\"".into()));
    let web = tenant("application/grpc-web+json");
    let looked = ask(&handle, with_foreign(post(LOOK, &web, frame(0, "\"sea\""))));
    assert_eq!(looked.stream().0, ["\"blue looks at sea\""]);
    let counted = tenant("application/connect+json");
    let counted = ask(&handle, with_foreign(post("/web.v1.Web/Count", &counted, frame(0, "1"))));
    assert_eq!(counted.stream().0, ["1"]);
    let ping = r#"{"jsonrpc":"2.0","method":"rpc.ping","id":1}"#;
    let pinged = ask(&handle, with_foreign(post("/rpc", JSON, ping)));
    assert_eq!(pinged.status, 200, "{pinged:?}");
    let handshake = "GET /rpc HTTP/1.1\r\nhost: here\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
                     sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let mut socket = connect(&handle);
    socket.write_all(&with_foreign(handshake.into())).expect("a request");
    let switched = read_until(&mut socket, b"\r\n\r\n");
    assert!(switched.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&switched));
    drop(socket);
    end(handle);
}

#[test]
fn types_and_codings_have_no_case_and_quotes_mean_nothing() {
    let handle = start(Reports::default(), |server| {
        server.compression(Compression::of_all_services().reply_bytes_min(1))
    });
    let text = format!("\"{}\"", "sea ".repeat(100));
    let packed = compress(ringway_wire::grpc::Compression::Gzip, text.as_bytes()).expect("shorter");
    for (fields, body) in [
        ("content-type: Application/JSON; charset=\"UTF-8\"\r\n", text.as_bytes()),
        ("content-type: application/json; a=b\r\ncontent-encoding: Identity\r\n", text.as_bytes()),
        ("content-type: application/json\r\ncontent-encoding: GZIP\r\n", &packed[..]),
        ("content-type: application/json\r\ncontent-encoding: x-gzip\r\n", &packed[..]),
    ] {
        let fields = format!("{fields}accept-encoding: identity\r\n");
        let put = ask(&handle, post("/web.v1.Web/Put", &fields, body));
        assert_eq!((put.status, put.text()), (200, text.clone()), "{fields}");
    }
    let fields = format!("{JSON}accept-encoding: GZip\r\n");
    let put = ask(&handle, post("/web.v1.Web/Put", &fields, &text));
    assert_eq!(put.field("content-encoding"), Some("gzip"));
    end(handle);
}

/// Sends a request as it is, on a connection that it ends by itself.
fn told(handle: &ServerHandle, request: &str) -> Answer {
    ask(handle, request)
}

#[test]
fn a_request_may_have_an_empty_line_before_it_and_any_method() {
    let handle = start(Reports::default(), |server| server);
    for empty in ["\r\n", "\n", "\r\n\r\n"] {
        let healthy = told(&handle, &format!("{empty}{}", head("GET", "/healthz", "")));
        assert_eq!(healthy.text(), "ok\n", "{empty:?}");
    }
    for method in ["PROPFIND", "QUERY", "PURGE", "get"] {
        let answer = told(&handle, &head(method, "/healthz", ""));
        assert_eq!((answer.status, answer.field("allow")), (405, Some("get, head")), "{method}");
    }
    let mut socket: TcpStream = connect(&handle);
    let line = b"\r\n{\"jsonrpc\":\"2.0\",\"method\":\"rpc.ping\",\"id\":1}\n";
    socket.write_all(line).expect("a line");
    read_until(&mut socket, b"\"result\":true");
    drop(socket);
    end(handle);
}

#[test]
fn who_may_get_may_ask_for_the_head_and_no_script_is_made_of_it() {
    let handle = start(Reports::default(), |server| server);
    let target = format!("{LOOK}?connect=v1&encoding=json&message=%22sea%22");
    let whole = ask(&handle, head("GET", &target, ""));
    let only = ask(&handle, head("HEAD", &target, ""));
    assert_eq!((whole.status, only.status, only.body.len()), (200, 200, 0));
    assert_eq!(only.field("content-length"), whole.field("content-length"));
    for answer in [whole, only, ask(&handle, head("GET", LOOK, ""))] {
        assert_eq!(answer.field("x-content-type-options"), Some("nosniff"), "{answer:?}");
    }
    let empty = ask(&handle, head("GET", &format!("{target}&compression="), ""));
    assert_eq!(empty.status, 200, "{empty:?}");
    assert_eq!(ask(&handle, head("OPTIONS", "*", "")).status, 204);
    for path in ["/healthz", "/readyz", "/metrics"] {
        let posted = ask(&handle, post(path, "", ""));
        assert_eq!((posted.status, posted.field("allow")), (405, Some("get, head")), "{path}");
    }
    end(handle);
}
