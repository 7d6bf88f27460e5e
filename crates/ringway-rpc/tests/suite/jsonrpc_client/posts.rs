//! Clients by POST before servers of others, which keep no connection, know no `rpc.ping`, or want to know who calls.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringway_rpc::{CallOptions, Code, JsonRpcClient, Status};
use serde_json::Value;

/// A server that answers as it is told, and what it has seen.
struct PostServer {
    url: String,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    methods: Mutex<Vec<String>>,
}

/// The whole answer to a head and its request, in which ID stands for the id, and whether the connection ends there.
type Answer = fn(&str, &Value) -> (String, bool);

impl PostServer {
    /// Serves one connection after the other for as long as the test runs.
    fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let seen = Arc::<Seen>::default();
        let noted = Arc::clone(&seen);
        std::thread::spawn(move || {
            while let Ok((socket, _)) = listener.accept() {
                noted.connections.fetch_add(1, Ordering::SeqCst);
                let mut reader = BufReader::new(socket);
                while let Some((head, request)) = next_request(&mut reader) {
                    let method = request["method"].as_str().unwrap_or_default().to_owned();
                    noted.methods.lock().expect("no panic").push(method);
                    let (answer, ends) = answer(&head, &request);
                    let answer = answer.replace("ID", &request["id"].to_string());
                    if reader.get_mut().write_all(answer.as_bytes()).is_err() || ends {
                        break;
                    }
                }
            }
        });
        Self { url, seen }
    }

    fn client(&self) -> JsonRpcClient {
        let client = JsonRpcClient::connect(&*self.url).expect("an address");
        client.with(CallOptions::new().timeout(Duration::from_secs(15)))
    }
}

fn next_request(reader: &mut impl BufRead) -> Option<(String, Value)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("one");
    let mut content = vec![0; length.parse().expect("a number")];
    reader.read_exact(&mut content).ok()?;
    Some((head, serde_json::from_slice(&content).expect("JSON")))
}

const REPLY: &str = r#"{"jsonrpc":"2.0","result":7,"id":ID}"#;

/// An answer whose content ends with its connection.
fn to_the_end(version: &str, content: &str) -> (String, bool) {
    (format!("HTTP/{version} 200 OK\r\n\r\n{content}"), true)
}

fn with_length(status: &str, fields: &str, content: &str) -> String {
    let length = content.len();
    format!("HTTP/1.1 {status}\r\n{fields}content-length: {length}\r\n\r\n{content}")
}

fn call(client: &JsonRpcClient) -> Result<i64, Status> {
    // The end of a connection that does not announce it may meet a request on a loaded machine.
    client.call::<_, i64>("echo", [7]).idempotent().wait()
}

#[test]
fn servers_that_close_after_each_answer_are_called() {
    const CALLS: usize = 10;
    let numbered: Answer = |_, request| {
        let content = REPLY.replace("ID", &request["id"].to_string());
        (with_length("200 OK", "connection: close\r\n", &content), true)
    };
    let unannounced: Answer = |_, request| {
        let content = REPLY.replace("ID", &request["id"].to_string());
        (with_length("200 OK", "", &content), true)
    };
    let answers: [Answer; 4] =
        [|_, _| to_the_end("1.0", REPLY), |_, _| to_the_end("1.1", REPLY), numbered, unannounced];
    for (kind, answer) in answers.into_iter().enumerate() {
        let server = PostServer::start(answer);
        let client = server.client();
        for _ in 0..CALLS {
            assert_eq!(call(&client).unwrap_or_else(|status| panic!("{kind}: {status}")), 7);
        }
        let connections = server.seen.connections.load(Ordering::SeqCst);
        assert!(connections >= CALLS, "{kind}: {connections}");
    }
}

#[test]
fn authorization_is_there_from_the_first_byte_on() {
    let server = PostServer::start(|head, request| {
        let content = REPLY.replace("ID", &request["id"].to_string());
        match head.contains("authorization: Basic dTpw\r\n") {
            true => (with_length("200 OK", "", &content), false),
            false => (with_length("401 Unauthorized", "", ""), false),
        }
    });
    let client = server.client();
    let options = CallOptions::new().metadata("authorization", "Basic dTpw");
    assert_eq!(call(&client.with(options)).expect("a reply"), 7);
    assert_eq!(call(&client).expect_err("nobody").code(), Code::Unauthenticated);
    assert_eq!(*server.seen.methods.lock().expect("no panic"), ["echo"; 2], "and nothing else");
}

#[test]
fn answer_that_is_none_costs_its_call_and_not_the_connection() {
    const CONTENTS: [&str; 4] = [
        "<html>log in</html>",
        "[]",
        r#"{"jsonrpc":"2.0","id":null,"result":1,"error":{}}"#,
        r#"{"jsonrpc":"2.0","id":77,"result":1}"#,
    ];
    let server = PostServer::start(|_, request| {
        let content = match request["params"][0].as_u64().and_then(|at| CONTENTS.get(at as usize)) {
            Some(content) => (*content).to_owned(),
            None => REPLY.replace("ID", &request["id"].to_string()),
        };
        (with_length("200 OK", "connection: keep-alive\r\n", &content), false)
    });
    let client = server.client();
    for (at, content) in CONTENTS.iter().enumerate() {
        let status = client.call::<_, i64>("echo", [at]).wait().expect_err(content);
        assert!(status.is_internal(), "{content}: {status}");
    }
    assert_eq!(call(&client).expect("a reply"), 7);
    assert_eq!(server.seen.connections.load(Ordering::SeqCst), 1);
}

#[test]
fn codes_of_others_keep_their_meaning() {
    let server = PostServer::start(|_, request| {
        let code = &request["params"][0];
        let error = format!(r#"{{"code":{code},"message":"as they say"}}"#);
        let content = format!(r#"{{"jsonrpc":"2.0","error":{error},"id":{}}}"#, request["id"]);
        (with_length("200 OK", "connection: keep-alive\r\n", &content), false)
    });
    let client = server.client();
    for (code, status) in [
        (-32_601, Code::Unimplemented),
        (-32_004, Code::Unknown), // method not supported, by EIP-1474
        (-32_005, Code::Unknown), // limit exceeded
        (-32_014, Code::Unknown),
        (7, Code::Unknown),
    ] {
        let failed = client.call::<_, i64>("echo", [code]).wait().expect_err("a failure");
        assert_eq!((failed.code(), failed.json_rpc_code()), (status, Some(code)), "{failed}");
    }
}
