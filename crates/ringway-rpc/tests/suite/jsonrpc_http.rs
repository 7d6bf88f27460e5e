//! JSON-RPC over HTTP: in the body of a POST, and in the messages of a WebSocket.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::time::Duration;

use ringway_http::{Client, CloseCode, Router, WebSocketMessage, text};
use ringway_rpc::{Code, Console, Cors, Server, ServerHandle};
use ringway_runtime::block_on;
use serde_json::Value;

use crate::support::math::{Plain, serve_math};
use crate::support::web_caller::ask;
use crate::support::{LIMIT, end, eventually, socket_addr};

const JSON: &str = "content-type: application/json\r\n";
const SUM: &str = r#"{"jsonrpc":"2.0","method":"sum","params":[1,2],"id":1}"#;
const THREE: &str = r#"{"jsonrpc":"2.0","result":3,"id":1}"#;

fn serve(plain: &Plain, set: impl FnOnce(Server) -> Server) -> ServerHandle {
    serve_math("tcp://127.0.0.1:0".parse().expect("an address"), plain, set)
}

/// A connection that is kept alive.
struct Http(BufReader<TcpStream>);

impl Http {
    fn connect(handle: &ServerHandle) -> Self {
        let socket = TcpStream::connect(socket_addr(handle)).expect("the server listens");
        socket.set_read_timeout(Some(LIMIT)).expect("a time above zero");
        Self(BufReader::new(socket))
    }

    fn send(&mut self, verb: &str, path: &str, fields: &str, content: &str) {
        let request = format!(
            "{verb} {path} HTTP/1.1\r\nhost: here\r\n{fields}content-length: {}\r\n\r\n{content}",
            content.len()
        );
        self.0.get_mut().write_all(request.as_bytes()).expect("the server takes it");
    }

    /// Returns the status and the body of the reply.
    fn answer(&mut self) -> (u16, String) {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a status line");
        let status = line.split(' ').nth(1).expect("a status").parse().expect("a number");
        let mut len = 0;
        loop {
            let mut field = String::new();
            self.0.read_line(&mut field).expect("a field");
            let field = field.trim_end().to_ascii_lowercase();
            match field.split_once(':') {
                Some(("content-length", value)) => len = value.trim().parse().expect("a number"),
                Some(_) => {}
                None => break,
            }
        }
        let mut content = vec![0; len];
        self.0.read_exact(&mut content).expect("the content");
        (status, String::from_utf8(content).expect("text"))
    }

    #[track_caller]
    fn post(&mut self, path: &str, fields: &str, content: &str) -> (u16, String) {
        self.send("POST", path, fields, content);
        self.answer()
    }
}

#[test]
fn a_post_is_one_text() {
    let plain = Plain::default();
    let handle = serve(&plain, |server| server);
    let mut http = Http::connect(&handle);
    for path in ["/", "/rpc"] {
        assert_eq!(http.post(path, JSON, SUM), (200, THREE.to_owned()));
    }
    let batch = format!("[{SUM},{SUM}]");
    assert_eq!(http.post("/", JSON, &batch), (200, format!("[{THREE},{THREE}]")));
    for content in
        [r#"{"jsonrpc":"2.0","method":"update"}"#, r#"[{"jsonrpc":"2.0","method":"update"}]"#]
    {
        assert_eq!(http.post("/", JSON, content), (204, String::new()));
    }
    assert_eq!(plain.seen.notified.load(Ordering::SeqCst), 2);
    for (content, code) in [
        ("{", -32700),
        ("", -32700),
        ("[]", -32600),
        (r#"{"jsonrpc":"2.0","method":"nothing","id":1}"#, -32601),
        (r#"{"jsonrpc":"2.0","method":"repeat","params":["a",1],"id":1}"#, -32601),
    ] {
        let (status, answer) = http.post("/", JSON, content);
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!((status, answer["error"]["code"].as_i64()), (200, Some(code)), "{content}");
    }
    let later = r#"{"jsonrpc":"2.0","method":"later","params":[20],"id":"x"}"#;
    let (_, answer) = http.post("/", "content-type: application/json; charset=utf-8\r\n", later);
    assert_eq!(answer, r#"{"jsonrpc":"2.0","result":20,"id":"x"}"#);
    end(handle);
}

#[test]
fn all_types_of_json_rpc_are_taken() {
    let handle = serve(&Plain::default(), |server| server);
    let mut http = Http::connect(&handle);
    for kind in ["application/json-rpc", "application/jsonrequest", "Application/JSON-RPC; a=b"] {
        let fields = format!("content-type: {kind}\r\n");
        assert_eq!(http.post("/rpc", &fields, SUM), (200, THREE.to_owned()), "{kind}");
    }
    end(handle);
}

#[test]
fn a_websocket_may_be_one_of_several_offers() {
    let handle = serve(&Plain::default(), |server| server);
    let offers = WEB_SOCKET.replace("upgrade: websocket", "upgrade: h2c, WebSocket");
    let mut http = Http::connect(&handle);
    http.send("GET", "/rpc", &offers, "");
    assert_eq!(http.answer().0, 101);
    end(handle);
}

#[test]
fn headers_are_deadline_and_trace() {
    let handle = serve(&Plain::default(), |server| server);
    let mut http = Http::connect(&handle);
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let fields = format!("{JSON}ringway-timeout: 60S\r\ntraceparent: {trace}\r\n");
    let asked = r#"{"jsonrpc":"2.0","method":"asked","id":1}"#;
    let (_, answer) = http.post("/", &fields, asked);
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    let left = answer["result"][0].as_u64().expect("a number");
    assert!((1..=60_000).contains(&left), "{answer}");
    assert_eq!(answer["result"][1], trace);
    let never = r#"{"jsonrpc":"2.0","method":"never","id":1}"#;
    let (status, late) = http.post("/", &format!("{JSON}ringway-timeout: 5m\r\n"), never);
    assert!(status == 200 && late.contains("-32004"), "{late}");
    let sum = r#"{"jsonrpc":"2.0","method":"sum","params":[1],"id":1}"#;
    let (_, none) = http.post("/", &format!("{JSON}ringway-timeout: 0m\r\n"), sum);
    assert!(none.contains("-32004"), "{none}");
    let (status, _) = http.post("/", &format!("{JSON}ringway-timeout: soon\r\n"), never);
    assert_eq!(status, 400);
    end(handle);
}

/// The headers hold for each call of a batch, and cost their memory once.
#[test]
fn a_batch_with_long_headers_is_taken_unless_each_call_needs_a_copy_of_them() {
    let handle = serve(&Plain::default(), |server| server);
    let long = |name| format!("x-long-{name}: {}\r\n", "x".repeat(3_500));
    let fields = format!("{JSON}{}{}{}{}", long(1), long(2), long(3), long(4));
    let mut http = Http::connect(&handle);
    let mut answered = |context: &str| {
        let call =
            |id| format!(r#"{{"jsonrpc":"2.0","method":"sum","params":[1,2],{context}"id":{id}}}"#);
        let batch = (0..1_000).map(call).collect::<Vec<_>>().join(",");
        let (status, answers) = http.post("/", &fields, &format!("[{batch}]"));
        assert_eq!(status, 200, "{answers}");
        let answers: Vec<Value> = serde_json::from_str(&answers).expect("JSON");
        assert_eq!(answers.len(), 1_000, "each is answered");
        let is_refused = |answer: &&Value| answer["error"]["data"]["ringway"]["executed"] == false;
        let refused = answers.iter().filter(is_refused).count();
        assert_eq!(refused + answers.iter().filter(|it| it["result"] == 3).count(), 1_000);
        1_000 - refused
    };
    assert_eq!(answered(""), 1_000);
    let with_copies = answered(r#""ringway":{"timeout_ms":60000},"#);
    assert!((70..100).contains(&with_copies), "{with_copies} copies of 14 KB are a megabyte");
    end(handle);
}

#[test]
fn what_is_no_json_rpc_is_refused_by_its_status() {
    let handle = serve(&Plain::default(), |server| server.message_bytes_max(1_000));
    let cases = [
        ("GET", "/rpc", JSON, "", 405),
        ("POST", "/rpc", "content-type: text/plain\r\n", SUM, 415),
        ("POST", "/rpc", "", SUM, 415),
        ("POST", "/rpc", &*format!("{JSON}origin: http://elsewhere\r\n"), SUM, 403),
        ("POST", "/other", JSON, SUM, 404),
        ("POST", "/rpc", JSON, &*" ".repeat(1_001), 413),
    ];
    for (verb, path, fields, content, status) in cases {
        let mut http = Http::connect(&handle);
        http.send(verb, path, fields, content);
        assert_eq!(http.answer().0, status, "{verb} {path} {fields}");
    }
    end(handle);
}

#[test]
fn routes_of_the_program_and_calls_of_connect_stay() {
    let routes =
        Router::new().get("/", async |_| Ok(text("page"))).post("/", async |_| Ok(text("form")));
    let handle = serve(&Plain::default(), |server| server.http_routes(routes));
    let mut http = Http::connect(&handle);
    assert_eq!(http.post("/", JSON, SUM), (200, THREE.to_owned()));
    assert_eq!(http.post("/", "", "a=b"), (200, "form".to_owned()));
    for fields in ["", JSON] {
        http.send("GET", "/", fields, "");
        assert_eq!(http.answer(), (200, "page".to_owned()), "{fields}");
    }
    assert_eq!(http.post("/spec.v1.Math/Shout", JSON, "\"a\""), (200, "\"A\"".to_owned()));
    end(handle);
    let handle = serve(&Plain::default(), |server| server.json_rpc_paths(["/json"]));
    let mut http = Http::connect(&handle);
    assert_eq!(http.post("/json", JSON, SUM), (200, THREE.to_owned()));
    assert_eq!(http.post("/rpc", JSON, SUM).0, 404);
    end(handle);
}

#[test]
fn a_page_at_a_path_of_json_rpc_is_read_there_and_posts_are_calls() {
    let handle = serve(&Plain::default(), |server| {
        let page = async |_| Ok(text("page"));
        server.http_page("/", page).http_page("/rpc", page)
    });
    let mut http = Http::connect(&handle);
    for path in ["/", "/rpc"] {
        for fields in ["", JSON] {
            http.send("GET", path, fields, "");
            assert_eq!(http.answer(), (200, "page".to_owned()), "{path} {fields}");
        }
        assert_eq!(http.post(path, JSON, SUM), (200, THREE.to_owned()));
        assert_eq!(http.post(path, "content-type: text/plain\r\n", SUM).0, 415);
    }
    end(handle);
}

#[test]
fn a_method_that_json_rpc_does_not_have_is_told_which_there_is() {
    let handle = serve(&Plain::default(), |server| server.console(Console::off()));
    let answer = ask(&handle, "GET /rpc HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
    assert_eq!((answer.status, answer.field("allow")), (405, Some("post")), "in lower case here");
    end(handle);
}

#[test]
fn a_call_ends_with_its_client() {
    let plain = Plain::default();
    let handle = serve(&plain, |server| server);
    let mut http = Http::connect(&handle);
    http.send("POST", "/", JSON, NEVER);
    eventually("it has begun", || plain.seen.begun.load(Ordering::SeqCst) == 1);
    drop(http);
    eventually("it is dropped", || plain.seen.dropped.load(Ordering::SeqCst) == 1);
    end(handle);
}

#[test]
fn a_call_ends_with_its_client_although_the_next_request_waits_behind_it() {
    let plain = Plain::default();
    let handle = serve(&plain, |server| server);
    let mut http = Http::connect(&handle);
    http.send("POST", "/", JSON, NEVER);
    eventually("it has begun", || plain.seen.begun.load(Ordering::SeqCst) == 1);
    http.send("POST", "/", JSON, SUM);
    drop(http);
    eventually("it is dropped", || plain.seen.dropped.load(Ordering::SeqCst) == 1);
    end(handle);
}

const NEVER: &str = r#"{"jsonrpc":"2.0","method":"never","id":1}"#;

#[test]
fn notifications_are_carried_out_before_their_post_is_answered() {
    let plain = Plain::default();
    let handle = serve(&plain, |server| server.in_flight_per_connection_max(4));
    let later = r#"{"jsonrpc":"2.0","method":"later","params":[5]}"#;
    let mut http = Http::connect(&handle);
    for (content, count) in [(format!("[{}]", [later; 7].join(",")), 7), (later.to_owned(), 8)] {
        assert_eq!(http.post("/", JSON, &content), (204, String::new()));
        assert_eq!(plain.seen.dropped.load(Ordering::SeqCst), count);
    }
    end(handle);
}

#[test]
fn notifications_are_carried_out_although_their_client_goes() {
    let plain = Plain::default();
    let handle = serve(&plain, |server| server);
    let later = r#"{"jsonrpc":"2.0","method":"later","params":[300]}"#;
    let mut http = Http::connect(&handle);
    http.send("POST", "/", JSON, later);
    eventually("it has begun", || plain.seen.begun.load(Ordering::SeqCst) == 1);
    drop(http);
    eventually("it has ended", || plain.seen.dropped.load(Ordering::SeqCst) == 1);
    let ended = || {
        let metrics = handle.metrics();
        let method = metrics.methods.iter().find(|method| method.method.ends_with("Later"));
        let method = method.unwrap_or_else(|| panic!("{metrics:?}"));
        (method.with_code(Code::Ok), method.with_code(Code::Cancelled))
    };
    eventually("it is counted", || ended() != (0, 0)); // its handler is dropped before
    assert_eq!(ended(), (1, 0));
    end(handle);
}

#[test]
fn no_more_notifications_outlive_their_clients_than_a_connection_may_have_calls() {
    let plain = Plain::default();
    let handle = serve(&plain, |server| server.in_flight_per_connection_max(10));
    let never = r#"{"jsonrpc":"2.0","method":"never"}"#;
    for number in 1..=3 {
        let mut http = Http::connect(&handle);
        http.send("POST", "/", JSON, &format!("[{}]", [never; 8].join(",")));
        eventually("they have begun", || plain.seen.begun.load(Ordering::SeqCst) == number * 8);
        drop(http);
        let dropped = || plain.seen.dropped.load(Ordering::SeqCst);
        eventually("those of one client are left", || dropped() == (number - 1) * 8);
    }
    assert_eq!(handle.stats().in_flight, 8);
    handle.abort();
}

const WEB_SOCKET: &str = "upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n\
                          sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

#[test]
fn pages_that_may_call_may_open_a_websocket() {
    let cors = Cors::of_origins(["https://app.example"]);
    let handle = serve(&Plain::default(), |server| server.cors(cors));
    for (origin, status) in
        [("https://app.example", 101), ("http://here", 101), ("https://other.example", 403)]
    {
        let mut http = Http::connect(&handle);
        http.send("GET", "/rpc", &format!("{WEB_SOCKET}origin: {origin}\r\n"), "");
        assert_eq!(http.answer().0, status, "{origin}");
    }
    end(handle);
}

#[test]
fn pages_that_may_call_may_post_beside_routes_of_the_program() {
    let cors = Cors::of_origins(["https://app.example"]);
    let routes = Router::new().get("/", async |_| Ok(text("page")));
    let handle = serve(&Plain::default(), |server| server.cors(cors).http_routes(routes));
    let asks = "access-control-request-method: POST\r\naccess-control-request-headers: x-one, content-type\r\n";
    for (origin, asked, told) in
        [("https://app.example", 204, 200), ("https://other.example", 403, 403)]
    {
        let origin = format!("origin: {origin}\r\n");
        for path in ["/", "/rpc"] {
            let mut http = Http::connect(&handle);
            http.send("OPTIONS", path, &format!("{origin}{asks}"), "");
            assert_eq!(http.answer().0, asked, "{path} {origin}");
            assert_eq!(http.post(path, &format!("{origin}{JSON}"), SUM).0, told, "{path} {origin}");
        }
    }
    end(handle);
}

/// The server ends the call at its connection's age.
#[test]
fn calls_of_a_websocket_end_although_its_client_does_not_read() {
    let plain = Plain::default();
    let soon = Duration::from_millis(300);
    let handle =
        serve(&plain, |server| server.max_connection_age(soon).max_connection_age_grace(soon));
    let mut http = Http::connect(&handle);
    http.send("GET", "/rpc", WEB_SOCKET, "");
    assert_eq!(http.answer().0, 101);
    let text = "x".repeat(60_000);
    let shout = format!(r#"{{"jsonrpc":"2.0","method":"shout","params":["{text}"],"id":1}}"#);
    let mut peer = http.0.into_inner();
    peer.write_all(&unmasked(NEVER)).expect("it is taken");
    let mut other = peer.try_clone().expect("a descriptor");
    let writer = std::thread::spawn(move || {
        // More than the sockets and the server hold together; the end of the connection ends it.
        let _cut_off = (0..1_000).try_for_each(|_| other.write_all(&unmasked(&shout)));
    });
    eventually("it has begun", || plain.seen.begun.load(Ordering::SeqCst) == 1);
    eventually("it has ended", || plain.seen.dropped.load(Ordering::SeqCst) == 1);
    peer.shutdown(Shutdown::Both).expect("it is open");
    writer.join().expect("no panic");
    end(handle);
}

/// A text message with a mask of zeros.
fn unmasked(text: &str) -> Vec<u8> {
    let len = text.len() as u64;
    let head = match u8::try_from(len) {
        Ok(len) if len < 126 => vec![0x81, 0x80 | len],
        _ => [&[0x81, 0xFF][..], &len.to_be_bytes()].concat(),
    };
    [&head[..], &[0; 4], text.as_bytes()].concat()
}

#[test]
fn a_drain_answers_what_does_not_end() {
    let plain = Plain::default();
    let handle = serve(&plain, |server| server.drain_timeout(Duration::from_millis(100)));
    let mut http = Http::connect(&handle);
    http.send("POST", "/", JSON, NEVER);
    let url = format!("ws://{}/rpc", socket_addr(&handle));
    let told = std::thread::spawn(move || {
        block_on(async move {
            let mut socket = Client::new().websocket(&url).await?;
            let stay = r#"{"jsonrpc":"2.0","method":"repeat","params":["stay",0],"id":2}"#;
            socket.send_text(stay).await?;
            socket.send_text(NEVER).await?;
            let mut told = Vec::new();
            while let Some(message) = socket.recv().await? {
                told.push(message.as_text().expect("a text").to_owned());
            }
            Ok::<_, ringway_http::Error>((told, socket.closing().cloned()))
        })
    });
    eventually("they have begun", || plain.seen.begun.load(Ordering::SeqCst) == 3);
    handle.shutdown();
    let (status, answer) = http.answer();
    assert!(status == 200 && answer.contains(r#""code":-32014"#), "{status} {answer}");
    let (told, closing) = told.join().expect("no panic").expect("it runs").expect("no error");
    let ended = told.iter().filter(|text| text.contains(r#""code":-32014"#)).count();
    assert_eq!((told.len(), ended), (3, 2), "{told:?}");
    assert_eq!(closing.expect("it is closed").code, CloseCode::AWAY);
    crate::support::wait(handle);
}

/// A client may repeat a call elsewhere that was not executed.
#[test]
fn calls_that_come_during_a_drain_are_told_that_they_were_not_executed() {
    let plain = Plain::default();
    let handle = serve(&plain, |server| server);
    let url = format!("ws://{}/rpc", socket_addr(&handle));
    let (other, seen) = (handle.clone(), plain.seen.clone());
    let told = block_on(async move {
        let mut socket = Client::new().websocket(&url).await?;
        socket.send_text(r#"{"jsonrpc":"2.0","method":"later","params":[300],"id":2}"#).await?;
        while seen.begun.load(Ordering::SeqCst) == 0 {
            ringway_runtime::yield_now().await;
        }
        other.shutdown();
        let mut told = Vec::new();
        // Some are executed before the server's core hears of the drain.
        while !told.iter().any(|text: &String| text.contains("error")) {
            socket.send_text(SUM).await?;
            match socket.recv().await? {
                Some(message) => told.push(message.as_text().expect("a text").to_owned()),
                None => break,
            }
        }
        while let Some(message) = socket.recv().await? {
            told.push(message.as_text().expect("a text").to_owned());
        }
        // The connection stays for the calls that have crossed its end.
        Ok::<_, ringway_http::Error>((told, socket.closing().cloned()))
    });
    let (mut told, closing) = told.expect("it runs").expect("no error");
    assert_eq!(told.pop().as_deref(), Some(r#"{"jsonrpc":"2.0","result":300,"id":2}"#));
    let refused = told.pop().expect("a refusal");
    assert!(refused.contains(r#""code":-32014"#), "{refused}");
    assert!(refused.contains(r#"{"ringway":{"executed":false}}"#), "{refused}");
    assert_eq!(closing.expect("it is closed").code, CloseCode::AWAY);
    crate::support::wait(handle);
}

/// The last call has ended before the drain, and others are on their way.
#[test]
fn a_drained_websocket_stays_a_while_for_late_calls() {
    let plain = Plain::default();
    let handle = serve(&plain, |server| server);
    let url = format!("ws://{}/rpc", socket_addr(&handle));
    let other = handle.clone();
    let refused = block_on(async move {
        let mut socket = Client::new().websocket(&url).await?;
        socket.send_text(SUM).await?;
        socket.recv().await?;
        other.shutdown();
        loop {
            socket.send_text(SUM).await?;
            let answer = socket.recv().await?.expect("it is open for a while");
            let answer = answer.as_text().expect("a text").to_owned();
            if answer != THREE {
                return Ok::<_, ringway_http::Error>(answer);
            }
        }
    });
    let refused = refused.expect("it runs").expect("no error");
    assert!(refused.contains(r#"{"ringway":{"executed":false}}"#), "{refused}");
    crate::support::wait(handle);
}

/// Replies wait for the last one of their batch and exceed the limit.
#[test]
fn a_post_that_is_given_up_does_not_look_carried_out() {
    let plain = Plain::default();
    let set = |server: Server| {
        let drain = Duration::from_millis(100);
        server.unread_bytes_max(1_000_000).message_bytes_max(1 << 20).drain_timeout(drain)
    };
    let handle = serve(&plain, set);
    let text = "x".repeat(60_000);
    let shout = format!(r#"{{"jsonrpc":"2.0","method":"shout","params":["{text}"],"id":1}}"#);
    let batch = format!("[{},{NEVER}]", [&*shout; 10].join(","));
    let mut posts = Vec::new();
    for count in 1..=9 {
        let mut http = Http::connect(&handle);
        http.send("POST", "/", JSON, &batch);
        eventually("it has begun", || plain.seen.begun.load(Ordering::SeqCst) == count);
        posts.push(http);
    }
    eventually("some are given up", || handle.stats().exhausted > 0);
    handle.shutdown();
    let statuses: Vec<_> = posts.iter_mut().map(|http| http.answer().0).collect();
    assert!(statuses.iter().all(|status| [200, 503].contains(status)), "{statuses:?}");
    assert!(statuses.contains(&503) && statuses.contains(&200), "{statuses:?}");
    crate::support::wait(handle);
}

#[test]
fn a_message_of_a_websocket_is_one_text() {
    let plain = Plain::default();
    let handle = serve(&plain, |server| server);
    let url = format!("ws://{}/rpc", socket_addr(&handle));
    let told = block_on(async move {
        let mut socket = Client::new().websocket(&url).await?;
        let mut told = Vec::new();
        let repeat = r#"{"jsonrpc":"2.0","method":"repeat","params":["stay",2],"id":2}"#;
        for (text, answers) in [(SUM, 1), ("{", 1), (&*format!("[{SUM}]"), 1), (repeat, 3)] {
            socket.send_text(text).await?;
            for _ in 0..answers {
                match socket.recv().await? {
                    Some(WebSocketMessage::Text(text)) => told.push(text),
                    other => panic!("{other:?}"),
                }
            }
        }
        Ok::<_, ringway_http::Error>(told)
    });
    let told = told.expect("it runs").expect("no error");
    assert_eq!(told[0], THREE);
    assert!(told[1].contains("-32700"), "{told:?}");
    assert_eq!(told[2], format!("[{THREE}]"));
    let id = serde_json::from_str::<Value>(&told[3]).expect("JSON")["result"].as_u64().expect("id");
    for item in &told[4..] {
        assert!(item.contains(&format!(r#"{{"subscription":{id},"result":"stay"}}"#)), "{item}");
    }
    eventually("its end ends the handler", || plain.seen.dropped.load(Ordering::SeqCst) == 1);
    end(handle);
}

/// The longest incomplete message is closed, and its client is told why.
#[test]
fn messages_that_are_not_whole_count_as_unread() {
    let handle = serve(&Plain::default(), |server| server.unread_bytes_max(1_000_000));
    let begin = |len: u64| {
        let mut http = Http::connect(&handle);
        http.send("GET", "/rpc", WEB_SOCKET, "");
        assert_eq!(http.answer().0, 101);
        // A fragment with a mask of zeros.
        let head = [&[1, 0xFF][..], &len.to_be_bytes(), &[0; 4]].concat();
        let fragment = [head, vec![b' '; len as usize]].concat();
        http.0.get_mut().write_all(&fragment).expect("it is taken");
        http
    };
    let mut longest = begin(700_000);
    eventually("it is counted", || handle.stats().unread_bytes > 600_000);
    let other = begin(600_000);
    let mut close = [0; 4];
    longest.0.read_exact(&mut close).expect("a Close frame");
    assert_eq!((close[0], &close[2..]), (0x88, &1013_u16.to_be_bytes()[..]));
    assert_eq!(handle.stats().exhausted, 1);
    drop((longest, other));
    end(handle);
}
