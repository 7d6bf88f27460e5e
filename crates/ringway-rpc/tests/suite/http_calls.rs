//! Calls and other routes over HTTP/1.1, on the port shared by all protocols.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, mpsc};

use bytes::Bytes;
use ringway_http::{Client, CloseCode, Router, WebSocketUpgrade, text};
use ringway_rpc::{Context, Server, ServerHandle, ServingStatus, Sink, Status, service};
use serde::{Deserialize, Serialize};

use crate::support::{LIMIT, end, eventually, socket_addr};

#[derive(Serialize, Deserialize)]
struct Person {
    name: String,
}

#[service(package = "greet.v1", crate = "ringway_rpc")]
trait Greeter {
    async fn greet(&self, person: Person) -> Result<String, Status>;
    async fn ask(&self, context: Context, person: Person) -> Result<String, Status>;
    async fn wait(&self, person: Person) -> Result<String, Status>;
    async fn fail(&self, person: Person) -> Result<String, Status>;
    async fn shout(&self, text: String) -> Result<String, Status>;
    async fn echo(&self, bytes: Bytes) -> Result<Bytes, Status>;
    async fn count(&self, person: Person, numbers: Sink<String>) -> Result<(), Status>;
}

#[derive(Default)]
struct English {
    begun: Option<mpsc::Sender<()>>,
    go_on: Arc<Mutex<Option<mpsc::Receiver<()>>>>,
}

impl Greeter for English {
    async fn greet(&self, person: Person) -> Result<String, Status> {
        Ok(format!("Hello, {}!", person.name))
    }

    async fn ask(&self, context: Context, _: Person) -> Result<String, Status> {
        context.set_trailer("cost", "7").map_err(|error| Status::internal(error.to_string()))?;
        let tenant = context.metadata().get("tenant").unwrap_or("nobody").to_owned();
        Ok(format!("{tenant} {}", context.deadline().is_some()))
    }

    async fn wait(&self, person: Person) -> Result<String, Status> {
        if let Some(begun) = &self.begun {
            let _test_has_failed = begun.send(());
        }
        let go_on = self.go_on.lock().expect("no panic").take();
        match go_on {
            Some(go_on) => {
                let waited =
                    ringway_runtime::spawn_blocking(move || go_on.recv()).expect("a thread");
                let _told = waited.await;
            }
            None => std::future::pending().await,
        }
        Ok(person.name)
    }

    async fn fail(&self, person: Person) -> Result<String, Status> {
        match person.name.as_str() {
            "panic" => panic!("on purpose"),
            name => Err(Status::not_found(format!("there is no \"{name}\""))),
        }
    }

    async fn shout(&self, text: String) -> Result<String, Status> {
        Ok(text.to_uppercase())
    }

    async fn echo(&self, bytes: Bytes) -> Result<Bytes, Status> {
        Ok(bytes)
    }

    async fn count(&self, _: Person, _numbers: Sink<String>) -> Result<(), Status> {
        Ok(())
    }
}

fn start(english: English, set: impl FnOnce(Server) -> Server) -> ServerHandle {
    let server = Server::bind("tcp://127.0.0.1:0").expect("an address").threads(1);
    set(server.service(GreeterServer::new(english))).start().expect("it starts")
}

fn post(method: &str, fields: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST /greet.v1.Greeter/{method} HTTP/1.1\r\nhost: here\r\n{fields}content-length: {length}\r\n\r\n\
         {body}"
    )
}

const JSON: &str = "content-type: application/json\r\n";
/// Returns the metric of one served call.
const COUNTED: &str =
    "ringway_server_latency_seconds_count{service=\"greet.v1.Greeter\",method=\"Greet\"} 1\n";
const ADA: &str = r#"{"name":"Ada"}"#;

fn connect(handle: &ServerHandle) -> TcpStream {
    let socket = TcpStream::connect(socket_addr(handle)).expect("it listens");
    socket.set_read_timeout(Some(LIMIT)).expect("a timeout");
    socket
}

fn rest(mut socket: TcpStream) -> String {
    let mut text = String::new();
    socket.read_to_string(&mut text).expect("an answer and its end");
    text
}

fn tell(handle: &ServerHandle, request: &str) -> String {
    let mut socket = connect(handle);
    socket.write_all(request.as_bytes()).expect("a request");
    socket.shutdown(Shutdown::Write).expect("the end");
    rest(socket)
}

#[track_caller]
fn assert_told(handle: &ServerHandle, request: &str, status: u16, says: &str) {
    let answer = tell(handle, request);
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}\n{answer}");
    assert!(answer.contains(says), "{request}\n{answer}");
}

#[test]
fn unary_method_is_called_with_post() {
    let handle = start(English::default(), |server| server);
    assert_told(&handle, &post("Greet", JSON, ADA), 200, "\r\n\r\n\"Hello, Ada!\"");
    assert_told(&handle, &post("Greet", JSON, ADA), 200, "content-type: application/json\r\n");
    assert_told(&handle, &post("Shout", JSON, "\"hi\""), 200, "\r\n\r\n\"HI\"");
    let proto = "content-type: application/proto\r\n";
    assert_told(&handle, &post("Shout", proto, "\n\u{2}hi"), 200, "\r\n\r\n\n\u{2}HI");
    let raw = "content-type: application/octet-stream\r\n";
    assert_told(&handle, &post("Echo", raw, "as it is"), 200, "\r\n\r\nas it is");
    let several = [post("Greet", JSON, ADA), post("Greet", JSON, r#"{"name":"Bob"}"#)].concat();
    let answers = tell(&handle, &several);
    assert!(answers.find("Hello, Ada!") < answers.find("Hello, Bob!"), "{answers}");
    assert_eq!(answers.matches("HTTP/1.1 200").count(), 2, "{answers}");
    let counted = COUNTED.replace("} 1", "} 4");
    assert!(handle.metrics().prometheus().contains(&counted), "{counted}");
    end(handle);
}

#[test]
fn metadata_deadlines_and_trailers_are_headers() {
    let handle = start(English::default(), |server| server);
    let fields = format!("{JSON}tenant: blue\r\nconnect-timeout-ms: 10000\r\n");
    let answer = tell(&handle, &post("Ask", &fields, ADA));
    assert!(
        answer.ends_with("\"blue true\"") && answer.contains("trailer-cost: 7\r\n"),
        "{answer}"
    );
    assert_told(&handle, &post("Ask", JSON, ADA), 200, "\"nobody false\"");
    let fields = format!("{JSON}connect-timeout-ms: 30\r\nconnection: close\r\n");
    let mut waiting = connect(&handle);
    waiting.write_all(post("Wait", &fields, ADA).as_bytes()).expect("a request");
    let answer = rest(waiting);
    assert!(
        answer.starts_with("HTTP/1.1 504 ") && answer.contains("deadline_exceeded"),
        "{answer}"
    );
    let fields = format!("{JSON}connect-timeout-ms: 0\r\n");
    assert_told(&handle, &post("Greet", &fields, ADA), 504, "deadline_exceeded");
    let fields = format!("{JSON}connect-timeout-ms: soon\r\n");
    assert_told(&handle, &post("Greet", &fields, ADA), 400, r#""code":"invalid_argument""#);
    end(handle);
}

#[test]
fn failures_are_json_with_the_status_of_their_code() {
    let handle = start(English::default(), |server| server);
    let not_found = r#"{"code":"not_found","message":"there is no \"Ada\""}"#;
    assert_told(&handle, &post("Fail", JSON, ADA), 404, not_found);
    assert_told(&handle, &post("Fail", JSON, r#"{"name":"panic"}"#), 500, r#""code":"internal""#);
    assert_told(&handle, &post("Greet", JSON, "{"), 400, r#""code":"invalid_argument""#);
    assert_told(&handle, &post("Shout", JSON, "7"), 400, "google.protobuf.StringValue");
    let proto = "content-type: application/proto\r\n";
    assert_told(&handle, &post("Greet", proto, ADA), 501, r#""code":"unimplemented""#);
    assert_told(&handle, &post("Count", JSON, ADA), 415, "application/connect+json");
    end(handle);
}

#[test]
fn invalid_calls_are_rejected_before_a_handler_runs() {
    let handle = start(English::default(), |server| server.message_bytes_max(1_000));
    assert_told(&handle, &post("Nothing", JSON, ADA), 404, r#""code":"unimplemented""#);
    let text = "content-type: text/plain\r\n";
    assert_told(
        &handle,
        &post("Nothing", text, ADA),
        404,
        "\r\n\r\nthe server has no method /greet",
    );
    assert_told(
        &handle,
        &post("Greet", "content-type: text/plain\r\n", ADA),
        415,
        "application/json",
    );
    assert_told(&handle, &post("Greet", "", ADA), 415, "application/json");
    let get = "GET /greet.v1.Greeter/Greet HTTP/1.1\r\nhost: here\r\n\r\n";
    assert_told(&handle, get, 405, "by POST");
    let foreign = format!("{JSON}origin: http://elsewhere\r\n");
    assert_told(&handle, &post("Greet", &foreign, ADA), 403, "another origin");
    let own = format!("{JSON}origin: http://here\r\n");
    assert_told(&handle, &post("Greet", &own, ADA), 200, "Hello, Ada!");
    let long = format!(r#"{{"name":"{}"}}"#, "x".repeat(1_000));
    assert_told(&handle, &post("Greet", JSON, &long), 429, r#""code":"resource_exhausted""#);
    let zipped = format!("{JSON}content-encoding: gzip\r\n");
    assert_told(&handle, &post("Greet", &zipped, ADA), 501, "not taken here");
    let counted = handle.metrics().prometheus();
    assert!(counted.contains(COUNTED), "one call was served: {counted}");
    end(handle);
}

#[test]
fn metrics_liveness_and_readiness_are_served() {
    let routes = Router::new().get("/hello", async |_| Ok(text("own route")));
    let handle = start(English::default(), |server| server.http_routes(routes));
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: here\r\n\r\n");
    assert_told(&handle, &post("Greet", JSON, ADA), 200, "");
    assert_told(&handle, &get("/metrics"), 200, COUNTED);
    assert_told(&handle, &get("/metrics"), 200, "\nringway_serving_refused_total 0\n");
    let open =
        "GET /metrics HTTP/1.1\r\nhost: here\r\naccept: application/openmetrics-text\r\n\r\n";
    assert_told(&handle, open, 200, "content-type: application/openmetrics-text; version=1.0.0");
    assert_told(&handle, open, 200, "\n# TYPE ringway_server_calls counter\n");
    assert_told(&handle, open, 200, COUNTED);
    let answer = tell(&handle, open);
    assert!(answer.ends_with("\n# EOF\n") && answer.matches("# EOF").count() == 1, "{answer}");
    assert_told(&handle, &get("/healthz"), 200, "ok");
    assert_told(&handle, &get("/readyz"), 200, "ready");
    assert_told(&handle, &get("/hello"), 200, "own route");
    assert_told(&handle, &get("/nowhere"), 404, "");
    handle.health().set("", ServingStatus::NotServing);
    assert_told(&handle, &get("/readyz"), 503, "not ready");
    end(handle);
}

#[test]
fn a_route_becomes_a_websocket_on_the_port_of_calls() {
    let routes = Router::new().get("/echo", async |request| {
        WebSocketUpgrade::new(request).answer(async |socket| {
            while let Some(message) = socket.recv().await? {
                socket.send(message).await?;
            }
            Ok(())
        })
    });
    let handle = start(English::default(), |server| server.http_routes(routes));
    let url = format!("ws://{}/echo", socket_addr(&handle));
    let (ask, asked) = mpsc::channel();
    let client = std::thread::spawn(move || {
        ringway_runtime::block_on(async move {
            let mut socket = Client::new().websocket(&url).await?;
            socket.send("hello").await?;
            assert_eq!(socket.recv().await?, Some("hello".into()));
            ask.send(()).expect("the test waits");
            assert_eq!(socket.recv().await?, None);
            assert_eq!(socket.closing().map(|closing| closing.code), Some(CloseCode::AWAY));
            Ok::<_, ringway_http::Error>(())
        })
    });
    asked.recv_timeout(LIMIT).expect("an echo");
    assert_told(&handle, &post("Greet", JSON, ADA), 200, "Hello, Ada!");
    end(handle);
    client.join().expect("the client ends").expect("a runtime").expect("it is told 1001");
}

/// A connection whose call waits in its handler, after a call whose reply was not read.
fn waiting(
    handle: &ServerHandle,
    has_begun: &mpsc::Receiver<()>,
    leaves_unread: bool,
) -> TcpStream {
    let mut socket = connect(handle);
    if leaves_unread {
        socket.write_all(post("Greet", JSON, ADA).as_bytes()).expect("a request");
        socket.peek(&mut [0]).expect("an answer");
    }
    socket.write_all(post("Wait", JSON, ADA).as_bytes()).expect("a request");
    has_begun.recv_timeout(LIMIT).expect("the handler begins");
    eventually("it waits", || handle.stats().in_flight == 1);
    socket
}

#[test]
fn a_call_is_cancelled_when_its_client_has_gone() {
    let (begun, has_begun) = mpsc::channel();
    let handle = start(English { begun: Some(begun), ..English::default() }, |server| server);
    // With unread bytes the kernel resets the connection; otherwise it closes it in order.
    for (count, resets) in [(1, false), (2, true)] {
        drop(waiting(&handle, &has_begun, resets));
        eventually("the handler is dropped", || handle.stats().in_flight == 0);
        // The core counts it a moment later.
        eventually("it is counted", || handle.stats().cancelled == count);
        assert_eq!(handle.stats().panicked, 0);
    }
    eventually("the connections are closed", || handle.net().stats().open == 0);
    assert_eq!(handle.net().stats().handler_errors, 0, "a client may go");
    end(handle);
}

#[test]
fn call_running_at_the_start_of_a_drain_is_answered() {
    let (begun, has_begun) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel();
    let go_on_cell = Arc::new(Mutex::new(Some(may_go_on)));
    let handle = start(English { begun: Some(begun), go_on: go_on_cell }, |server| server);
    let mut socket = connect(&handle);
    socket.write_all(post("Wait", JSON, ADA).as_bytes()).expect("a request");
    has_begun.recv_timeout(LIMIT).expect("the handler begins");
    handle.shutdown();
    go_on.send(()).expect("the handler waits");
    let answer = rest(socket);
    assert!(answer.ends_with("\"Ada\""), "{answer}");
    end(handle);
}

#[test]
fn call_queued_by_the_methods_limit_is_answered() {
    let handle = start(English::default(), |server| server.in_flight_per_connection_max(1));
    let answers = tell(&handle, &[post("Greet", JSON, ADA), post("Greet", JSON, ADA)].concat());
    assert_eq!(answers.matches("Hello, Ada!").count(), 2, "{answers}");
    end(handle);
}
