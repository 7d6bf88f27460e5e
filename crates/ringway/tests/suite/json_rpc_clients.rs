//! The example `rpc_json`, called by programs that know nothing of Ringway.

#[path = "../../../ringway-rpc/tests/suite/support/browser.rs"]
mod browser;

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::alone;
use crate::example::{Example, connect};

const ANY_PORT: &str = "127.0.0.1:0";
const TOTAL: &str = r#"{"jsonrpc":"2.0","method":"total","params":[1.5,4],"id":1}"#;
const SIX: &str = r#"{"jsonrpc":"2.0","result":6.0,"id":1}"#;

/// Where `cargo xtask test` puts the libraries of other languages.
const CLIENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/clients");

fn start() -> (Example, SocketAddr) {
    let example = Example::start("rpc_json", &[ANY_PORT]);
    let (_, address) = example.listening();
    drop(connect(address)); // its cores listen
    (example, address)
}

/// What a program prints, which has to succeed. `None` if it is not installed: the test is skipped.
fn output_of(command: &mut Command) -> Option<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = match command.stdin(Stdio::null()).stderr(Stdio::inherit()).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: {program} is not installed");
            return None;
        }
        output => output.expect("it starts"),
    };
    assert!(output.status.success(), "{program}: {}", output.status);
    Some(String::from_utf8(output.stdout).expect("text"))
}

/// Whether `cargo xtask test` has installed a library; the test is skipped without it.
fn is_installed(library: &str) -> bool {
    let is_there = Path::new(CLIENTS).join(library).exists();
    if !is_there {
        eprintln!("skipped: {library} is not installed (cargo xtask test does that)");
    }
    is_there
}

#[test]
fn curl_posts_a_call() {
    let (example, address) = start();
    let url = format!("http://{address}/rpc");
    let mut curl = Command::new("curl");
    curl.args(["-sS", "--max-time", "20", "-H", "content-type: application/json", "-d", TOTAL]);
    if let Some(printed) = output_of(curl.arg(url)) {
        assert_eq!(printed, SIX);
    }
    example.stop();
}

#[test]
fn a_socket_has_a_call_on_each_line() {
    let (example, address) = start();
    let mut socket = connect(address);
    let nothing = r#"{"jsonrpc":"2.0","method":"total","params":{"count":0,"price":1.5},"id":2}"#;
    let mut answers = BufReader::new(socket.try_clone().expect("a descriptor")).lines();
    socket.write_all(format!("{TOTAL}\n{nothing}\n").as_bytes()).expect("it reads");
    assert_eq!(answers.next().expect("an answer").expect("in time"), SIX);
    let refused = answers.next().expect("an answer").expect("in time");
    assert!(refused.contains(r#""code":-32602,"message":"nothing is ordered""#), "{refused}");
    example.stop();
}

#[test]
fn a_page_calls_and_subscribes() {
    let (example, address) = start();
    let url = format!("http://localhost:{}/", address.port());
    let Some(mut page) = browser::Page::open(&url) else { return example.stop() };
    page.wait_for("document.getElementById('total').textContent === '6'");
    page.wait_for("document.getElementById('prices').textContent.startsWith('10 11 12 ')");
    page.eval("document.getElementById('stop').click()");
    page.wait_for("document.getElementById('stop').textContent === 'stopped: true'");
    let complaints: Vec<_> =
        page.complaints.iter().filter(|it| !it.contains("favicon.ico")).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
    drop(page);
    example.stop();
}

#[test]
fn jayson_calls_over_http_and_tcp() {
    if !is_installed("node_modules/jayson") {
        return;
    }
    let (example, address) = start();
    let script = "
        const { client } = require('jayson');
        const [host, port] = process.argv[1].split(':');
        const ways = [client.http({ host, port, path: '/rpc' }), client.tcp({ host, port: Number(port) })];
        (async () => {
            for (const way of ways) {
                const ask = (method, params) => new Promise((done, fail) =>
                    way.request(method, params, (error, answer) => error ? fail(error) : done(answer)));
                const { result } = await ask('total', [1.5, 4]);
                const { error } = await ask('shop.v1.Shop/Total', { count: 0, price: 1 });
                console.log(result, error.code, error.message);
            }
        })();
    ";
    let mut node = Command::new("node");
    node.args(["-e", script, &address.to_string()]).current_dir(CLIENTS);
    if let Some(printed) = output_of(&mut node) {
        assert_eq!(printed, "6 -32602 nothing is ordered\n".repeat(2));
    }
    example.stop();
}

#[test]
fn jsonrpcclient_calls_over_http() {
    if !is_installed("python/jsonrpcclient") {
        return;
    }
    let (example, address) = start();
    let script = "
import json, sys, urllib.request
from jsonrpcclient import Error, Ok, parse, request

def ask(method, params):
    body = json.dumps(request(method, params=params)).encode()
    post = urllib.request.Request(sys.argv[1], body, {'content-type': 'application/json'})
    with urllib.request.urlopen(post, timeout=20) as answer:
        return parse(json.load(answer))

for outcome in [ask('total', [1.5, 4]), ask('total', {'count': 0, 'price': 1})]:
    match outcome:
        case Ok(result, _): print('ok', result)
        case Error(code, message, _, _): print('error', code, message)
";
    let mut python = Command::new("python3");
    python.args(["-c", script, &format!("http://{address}/rpc")]);
    python.env("PYTHONPATH", Path::new(CLIENTS).join("python"));
    if let Some(printed) = output_of(&mut python) {
        assert_eq!(printed, "ok 6.0\nerror -32602 nothing is ordered\n");
    }
    example.stop();
}
