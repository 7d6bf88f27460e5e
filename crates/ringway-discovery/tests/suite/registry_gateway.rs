//! etcd's JSON gateway: the same requests to real etcd and to our registry, and the clients that speak nothing else.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use ringway_discovery::Registry;
use ringway_rpc::{Server, Status};
use serde_json::{Value, json};

use crate::support::etcd::Etcd;
use crate::support::{LIMIT, authority, end, serve};

/// Sends a request to the gateway.
fn post(authority: &str, path: &str, body: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(authority).expect("it listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a socket");
    // As curl sends it.
    let request = format!(
        "POST /v3/{path} HTTP/1.1\r\nhost: {authority}\r\ncontent-type: application/x-www-form-urlencoded\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("it reads");
    BufReader::new(stream)
}

/// The code of the status, and the content.
fn answer(authority: &str, path: &str, body: &str) -> (u16, Value) {
    let mut text = String::new();
    post(authority, path, body).read_to_string(&mut text).expect("text");
    let (head, rest) = text.split_once("\r\n\r\n").expect("a head and a body");
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    let content = rest.lines().find(|line| line.starts_with('{')).expect(rest);
    (code, masked(serde_json::from_str(content).expect(content)))
}

/// The first texts of a stream, each of which has a chunk of its own.
fn streamed(authority: &str, path: &str, body: &str, count: usize) -> Vec<Value> {
    let mut lines = post(authority, path, body).lines().map(|line| line.expect("text"));
    lines.by_ref().find(String::is_empty).expect("the end of the head");
    let mut lines = lines.filter(|line| !line.is_empty());
    let chunks = std::iter::from_fn(|| {
        let length = usize::from_str_radix(&lines.next()?, 16).expect("the length of a chunk");
        let text = lines.next()?;
        assert_eq!(length, text.len() + 1, "{text}");
        Some(masked(serde_json::from_str(&text).expect(&text)))
    });
    chunks.take(count).collect()
}

/// What differs between any two registries is left out.
fn masked(mut value: Value) -> Value {
    match &mut value {
        Value::Object(members) => {
            for name in ["cluster_id", "member_id", "raft_term"] {
                members.remove(name);
            }
            members.values_mut().for_each(|value| *value = masked(value.take()));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| *value = masked(value.take())),
        _ => {}
    }
    value
}

const REQUESTS: [(&str, &str); 17] = [
    ("kv/put", r#"{"key":"Zm9v","value":"YmFy"}"#),
    ("kv/put", r#"{"key":"Zm9v","value":"YmF6","prev_kv":true}"#),
    ("kv/range", r#"{"key":"Zm9v"}"#),
    ("kv/range", r#"{"key":"AA==","range_end":"AA==","sort_order":"DESCEND","sort_target":1}"#),
    ("kv/range", r#"{"key":"Zm9v","limit":"1","keysOnly":true}"#),
    ("kv/range", "{}"),
    ("kv/range", ""),
    ("kv/range", r#"{"key":"Zm9v","revision":"999"}"#),
    (
        "kv/txn",
        r#"{"compare":[{"key":"Zm9v","target":"CREATE","result":"EQUAL","create_revision":"2"}],
        "success":[{"request_put":{"key":"eA==","value":"eQ=="}},{"request_range":{"key":"eA=="}}]}"#,
    ),
    ("lease/grant", r#"{"TTL":100,"ID":5}"#),
    ("lease/grant", r#"{"TTL":"100","ID":"5"}"#),
    ("kv/put", r#"{"key":"Zm9v","lease":77}"#),
    ("lease/leases", "{}"),
    ("kv/lease/revoke", r#"{"ID":5}"#),
    ("kv/deleterange", r#"{"key":"Zm9v","prev_kv":true}"#),
    ("kv/compaction", r#"{"revision":"3"}"#),
    ("auth/user/list", "{}"),
];

const STREAMS: [(&str, &str, usize); 4] = [
    ("watch", r#"{"create_request":{"key":"Zm9v","start_revision":"3","prev_kv":true}}"#, 2),
    ("watch", r#"{"create_request":{"key":"Zg==","range_end":"ZQ=="}}"#, 1),
    ("lease/keepalive", r#"{"ID":99}"#, 1),
    ("watch", r#"{"create_request":{"key":"Zm9v","start_revision":"1"}}"#, 2),
];

#[test]
fn the_requests_of_a_stream_are_read_as_they_are_taken() {
    let handle = serve(&Registry::new());
    // More than are taken at once; and what comes behind them has not been read when the first is answered.
    let requests = "{}".repeat(60_000) + "{";
    let first = streamed(&authority(&handle), "lease/keepalive", &requests, 1);
    assert!(first[0]["result"].is_object(), "{first:?}");
    end(handle);
}

/// A registry that begins at the first revision, as etcd does.
fn registry_in(folder: &Path) -> Registry {
    let opening = Registry::builder().data(folder);
    let opened = ringway_runtime::block_on(async move { opening.open().await });
    opened.expect("a core").expect("an empty folder")
}

/// Only our registry says why a watch was compacted, and at which revision that was noticed.
fn without_reason(line: &mut Value) {
    if let Some(result) = line["result"].as_object_mut()
        && result.contains_key("compact_revision")
    {
        result.remove("cancel_reason");
        result.remove("header");
    }
}

#[test]
fn requests_in_json_are_answered_as_by_etcd() {
    let folder = tempfile::tempdir().expect("a directory");
    let handle = serve(&registry_in(folder.path()));
    let ours = authority(&handle);
    let etcd = Etcd::start();
    if etcd.is_none() {
        eprintln!("half skipped: this test needs the Debian package etcd-server");
    }
    for (path, body) in REQUESTS {
        let told = answer(&ours, path, body);
        if let Some(etcd) = &etcd {
            assert_eq!(told, answer(&etcd.authority, path, body), "{path} {body}");
        }
        if body == REQUESTS[2].1 {
            let kv = json!({
                "key": "Zm9v", "value": "YmF6", "create_revision": "2", "mod_revision": "3", "version": "2",
            });
            let expected = json!({ "header": { "revision": "3" }, "kvs": [kv], "count": "1" });
            assert_eq!(told, (200, expected));
        }
    }
    for (path, body, count) in STREAMS {
        let mut told = streamed(&ours, path, body, count);
        assert_eq!(told.len(), count);
        if let Some(etcd) = &etcd {
            let mut expected = streamed(&etcd.authority, path, body, count);
            [&mut told, &mut expected].into_iter().flatten().for_each(without_reason);
            assert_eq!(told, expected, "{path} {body}");
        }
    }
    let (code, status) = answer(&ours, "maintenance/status", "{}");
    assert_eq!((code, &status["version"]), (200, &json!("3.4.0")));
    end(handle);
}

#[test]
fn who_may_not_call_may_not_use_the_gateway() {
    let server = Server::bind("tcp://127.0.0.1:0").expect("a free port");
    let refusing = async |_, _| Err(Status::unauthenticated("nobody comes in"));
    let server = Registry::new().serve_on(server).threads(1).intercept(refusing);
    let handle = server.start().expect("the server starts");
    let (code, told) = answer(&authority(&handle), "kv/range", r#"{"key":"Zm9v"}"#);
    assert_eq!((code, &told["code"], &told["error"]), (401, &json!(16), &json!("nobody comes in")));
    end(handle);
}

const CLIENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/clients/python");

#[test]
fn the_python_client_of_the_gateway_works() {
    if !Path::new(CLIENTS).join("etcd3gw").exists() {
        return eprintln!("skipped: this test needs etcd3gw, which the gate installs");
    }
    let handle = serve(&Registry::new());
    let at = authority(&handle);
    let port = at.rsplit(':').next().expect("a port");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/support/gateway.py");
    let run = Command::new("python3").env("PYTHONPATH", CLIENTS).args([script, port]).output();
    let output = run.expect("python3 is installed");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    end(handle);
}
