//! Other implementations of HTTP/2 call our server: curl and nghttp, where they are installed.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use ringway_http::{Request, Router, text};
use ringway_net::ServerTls;
use ringway_rpc::{Server, ServerHandle};

use crate::support::alone;
use crate::support::web_service::{Reports, WebServer};
use crate::support::{end, socket_addr};

fn start(address: &str, set: impl FnOnce(Server) -> Server) -> ServerHandle {
    let routes = Router::new()
        .post("/length", async |request: Request| {
            Ok(text(request.into_body().bytes().await?.len().to_string()))
        })
        .get("/much", async |_| Ok(text(vec![b'm'; MUCH])));
    let server = Server::bind(address).expect("an address").threads(1);
    let server = server.service(WebServer::new(Reports::default())).http_routes(routes);
    set(server).start().expect("it starts")
}

const MUCH: usize = 3_000_000;

/// Runs a program with some input; `None` if it is not installed.
fn run(program: &str, args: &[&str], input: &[u8]) -> Option<Output> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = alone::start(&mut command) else {
        println!("skipped: {program} is not installed");
        return None;
    };
    child.stdin.take().expect("piped").write_all(input).expect("it reads");
    Some(child.wait_with_output().expect("it ends"))
}

fn has_http2(program: &str) -> bool {
    let version = run(program, &["--version"], b"");
    let has = version.is_some_and(|it| String::from_utf8_lossy(&it.stdout).contains("HTTP2"));
    if !has {
        println!("skipped: {program} is missing or has no HTTP/2");
    }
    has
}

/// What curl prints: the answer's body, and behind it its version and status.
fn curl(how: &[&str], url: &str, input: &[u8]) -> (Vec<u8>, String) {
    let mut args = vec!["-s", "-S", "-m", "20", "-w", "\n%{http_version} %{http_code}"];
    args.extend_from_slice(how);
    args.push(url);
    let output = run("curl", &args, input).expect("it is there");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {error}");
    let at = output.stdout.iter().rposition(|&byte| byte == b'\n').expect("the line behind");
    let status = String::from_utf8_lossy(&output.stdout[at + 1..]).into_owned();
    (output.stdout[..at].to_vec(), status)
}

fn check_with_curl(how: &[&str], base: &str) {
    let ask = |more: &[&str], path: &str, input: &[u8]| {
        curl(&[how, more].concat(), &format!("{base}{path}"), input)
    };
    assert_eq!(ask(&[], "/healthz", b""), (b"ok\n".to_vec(), "2 200".into()));
    assert_eq!(ask(&["-I"], "/healthz", b"").1, "2 200");
    assert_eq!(ask(&[], "/nothing", b"").1, "2 404");
    let (much, status) = ask(&[], "/much", b"");
    assert_eq!((much.len(), &*status), (MUCH, "2 200"));
    let upload = ["--data-binary", "@-"];
    let sent = ask(&upload, "/length", &vec![b'u'; MUCH]);
    assert_eq!(sent, (MUCH.to_string().into_bytes(), "2 200".into()));
    let json = ["-d", "\"sea\"", "-H", "content-type: application/json"];
    assert_eq!(ask(&json, "/web.v1.Web/Put", b""), (b"\"sea\"".to_vec(), "2 200".into()));
    let rpc = r#"{"jsonrpc":"2.0","id":1,"method":"web.v1.Web/Put","params":["sea"]}"#;
    let rpc = ["-d", rpc, "-H", "content-type: application/json"];
    let (answer, _) = ask(&rpc, "/rpc", b"");
    assert!(String::from_utf8_lossy(&answer).contains("\"result\":\"sea\""), "{answer:?}");
    let (metrics, _) = ask(&[], "/metrics", b"");
    assert!(String::from_utf8_lossy(&metrics).contains("ringway_server_"), "{metrics:?}");
}

#[test]
fn curl_asks_by_prior_knowledge() {
    if !has_http2("curl") {
        return;
    }
    let handle = start("tcp://127.0.0.1:0", |server| server);
    let base = format!("http://{}", socket_addr(&handle));
    check_with_curl(&["--http2-prior-knowledge"], &base);
    let refused = curl(&["--http2-prior-knowledge", "-d", "@-"], &format!("{base}/length"), b"");
    assert_eq!(refused.0, b"0");
    end(handle);
}

#[test]
fn curl_asks_over_tls() {
    if !has_http2("curl") {
        return;
    }
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
    let tls = ServerTls::from_pem(made.cert.pem(), made.signing_key.serialize_pem());
    let handle =
        start("tls://127.0.0.1:0", |server| server.tls(tls.expect("they belong together")));
    check_with_curl(&["--http2", "-k"], &format!("https://{}", socket_addr(&handle)));
    end(handle);
}

#[test]
fn nghttp_asks_many_things_at_once() {
    let handle = start("tcp://127.0.0.1:0", |server| server);
    let base = format!("http://{}", socket_addr(&handle));
    let (much, health) = (format!("{base}/much"), format!("{base}/healthz"));
    if let Some(output) = run("nghttp", &["-m", "20", &much, &health], b"") {
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(text.matches('m').count(), 20 * MUCH);
        assert_eq!(text.matches("ok\n").count(), 20);
    }
    end(handle);
}
