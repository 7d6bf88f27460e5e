//! The console: its access rules, its data, and the page in a real browser.

use std::io::Write;

use bytes::Bytes;
use ringway_http::{Router, text};
use ringway_rpc::{
    Codec, Console, Context, Cors, Kind, Method, Methods, Server, ServerHandle, Service,
    ServiceDescriptor, Status,
};
use serde_json::Value;

use crate::support::browser::Page;
use crate::support::grpc_caller::GrpcCaller;
use crate::support::web_caller::{Answer, ask, connect, frame, post, read_until};
use crate::support::web_service::{Reports, WebClient, start};
use crate::support::{end, eventually, socket_addr};

fn get(handle: &ServerHandle, path: &str, host: &str, fields: &str) -> Answer {
    let head = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{fields}\r\n");
    ask(handle, head)
}

fn data(handle: &ServerHandle) -> Value {
    let answer = get(handle, "/console/data", "localhost", "");
    assert_eq!(answer.status, 200, "{answer:?}");
    serde_json::from_slice(&answer.body).expect("JSON")
}

fn put(handle: &ServerHandle) {
    let answer =
        ask(handle, post("/web.v1.Web/Put", "content-type: application/json\r\n", "\"x\""));
    assert_eq!(answer.status, 200);
}

#[test]
fn the_page_may_load_nothing_and_runs_its_own_script_alone() {
    let handle = start(Reports::default(), |server| server);
    let page = get(&handle, "/", "127.0.0.1:80", "upgrade: h2c\r\n");
    assert_eq!((page.status, page.field("content-type")), (200, Some("text/html; charset=utf-8")));
    let policy = page.field("content-security-policy").expect("a policy").to_owned();
    assert!(policy.starts_with("default-src 'none'; script-src 'nonce-"), "{policy}");
    assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
    let nonce =
        policy.split('\'').nth(3).and_then(|it| it.strip_prefix("nonce-")).expect("a nonce");
    let html = page.text();
    assert_eq!(html.matches(&format!("nonce=\"{nonce}\"")).count(), 2, "style and script");
    for loaded in ["src=", "<link", "@import", "url(", "http:", "https:", "innerHTML", "onclick="] {
        let found = html.replace("http://www.w3.org/2000/svg", "").contains(loaded);
        assert!(!found, "{loaded} is in the page");
    }
    let again = get(&handle, "/", "localhost", "");
    assert!(!again.text().contains(nonce), "a nonce is used once");
    assert_eq!(page.field("set-cookie"), None);
    assert_eq!(page.field("cache-control"), Some("no-store"));
    end(handle);
}

/// Returns the status of a GET of the path for JSON-RPC posts.
const POST_ONLY: u16 = 405;

#[test]
fn only_programs_of_this_machine_see_it_unless_there_is_a_token() {
    let handle = start(Reports::default(), |server| server.cors(Cors::any_origin()));
    for path in ["/", "/console/data", "/console/process", "/console/services"] {
        assert_eq!(get(&handle, path, "localhost:9000", "").status, 200, "{path}");
        for (host, fields) in [
            ("evil.example", ""),
            ("localhost.evil.example:80", ""),
            ("localhost", "x-forwarded-for: 10.0.0.1\r\n"),
            ("localhost", "origin: https://evil.example\r\n"),
        ] {
            let hidden = if path == "/" { POST_ONLY } else { 404 };
            assert_eq!(get(&handle, path, host, fields).status, hidden, "{path} {host} {fields}");
        }
    }
    end(handle);
    let handle = start(Reports::default(), |server| server.console(Console::off()));
    assert_eq!(get(&handle, "/", "localhost", "").status, POST_ONLY);
    end(handle);
    check_default();
    let token = "open sesame, please";
    let handle = start(Reports::default(), |server| server.console(Console::with_token(token)));
    assert_eq!(get(&handle, "/", "console.example", "").status, 200, "the page holds no data");
    for path in ["/console/data", "/console/process"] {
        let refused = get(&handle, path, "localhost", "");
        assert_eq!((refused.status, refused.field("www-authenticate")), (401, Some("bearer")));
    }
    assert_eq!(handle.console_link().expect("a link"), {
        format!("http://127.0.0.1:{}/#open%20sesame%2C%20please", socket_addr(&handle).port())
    });
    let fields = format!("authorization: Bearer {token}\r\n");
    assert_eq!(get(&handle, "/console/data", "console.example", &fields).status, 200);
    end(handle);
    let server = Server::bind("tcp://127.0.0.1:0").expect("an address");
    let error = server.console(Console::with_token("short")).start().expect_err("a guess");
    assert!(error.to_string().contains("shorter than 16"), "{error}");
    let ways: [fn(Server) -> Server; 2] = [
        |server| server.http_routes(Router::new().get("/", async |_| Ok(text("own page")))),
        |server| server.http_page("/", async |_| Ok(text("own page"))),
    ];
    for way in ways {
        let handle = start(Reports::default(), way);
        assert_eq!(get(&handle, "/", "localhost", "").text(), "own page");
        assert_eq!(get(&handle, "/console/data", "localhost", "").status, 200);
        end(handle);
    }
}

/// A proxy of this machine that says nothing of itself, as nginx with a plain `proxy_pass`, makes everybody local.
#[track_caller]
fn check_default() {
    let server = Server::bind("tcp://127.0.0.1:0").expect("an address").threads(1);
    let handle = server.start().expect("it starts");
    assert_eq!(get(&handle, "/", "localhost", "").status, 200, "the page holds no data");
    let link = handle.console_link().expect("a link");
    let (_, token) = link.split_once('#').expect("a token");
    let fields = format!("authorization: Bearer {token}\r\n");
    for path in ["/console/data", "/console/process", "/console/services"] {
        assert_eq!(get(&handle, path, "127.0.0.1:9000", "").status, 401, "{path}");
        assert_eq!(get(&handle, path, "localhost", &fields).status, 200, "{path}");
        assert_eq!(get(&handle, path, "console.example", &fields).status, 404, "{path}");
    }
    end(handle);
}

#[test]
fn the_data_are_those_of_the_counters() {
    let handle = start(Reports::default(), |server| server);
    put(&handle);
    ask(&handle, post("/web.v1.Web/Fail", "content-type: application/json\r\n", "\"x\""));
    let first = data(&handle);
    let slow = &first["cores"][0]["own"]["slow"];
    assert_eq!(slow.as_array().map(Vec::len), Some(0), "nobody has looked before: {slow}");
    let fields = "content-type: application/connect+json\r\n";
    ask(&handle, post("/web.v1.Web/Count", fields, frame(0, "3")));
    let second = data(&handle);
    let method = |name: &str| {
        let methods = second["methods"].as_array().expect("a list");
        methods.iter().find(|method| method["name"] == name).expect("it is served").clone()
    };
    let (put, fail, count) =
        (method("web.v1.Web/Put"), method("web.v1.Web/Fail"), method("web.v1.Web/Count"));
    assert_eq!((&put["ended"], &put["errors"]), (&1.into(), &0.into()));
    assert_eq!((&fail["ended"], &fail["errors"]), (&1.into(), &1.into()));
    assert_eq!(count["messages"], 3);
    assert_eq!(put["latency"][0][1], 1);
    let slow = second["cores"][0]["own"]["slow"].as_array().expect("a list").clone();
    assert_eq!((slow.len(), &slow[0]["method"]), (1, &"web.v1.Web/Count".into()));
    let part = |name: &str| slow[0][name].as_f64().expect("a number");
    let parts: f64 =
        ["queued_ms", "running_ms", "waiting_ms", "client_ms"].into_iter().map(part).sum();
    assert!((parts - part("total_ms")).abs() < 0.01, "{slow:?}");
    let own = &second["cores"][0]["own"];
    assert_eq!(own["connections"].as_array().map(Vec::len), Some(0), "its own is not shown");
    assert!(second["cores"][0]["turns"].as_u64() > Some(0));
    end(handle);
}

#[test]
fn what_http_carries_counts_with_its_connection() {
    let handle = start(Reports::default(), |server| server);
    let mut posting = connect(&handle);
    let ping = r#"{"jsonrpc":"2.0","method":"rpc.ping","id":1}"#;
    let length = ping.len();
    let head = "POST / HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\n";
    let request = format!("{head}content-length: {length}\r\n\r\n{ping}");
    posting.write_all(request.as_bytes()).expect("a request");
    read_until(&mut posting, b"\"result\":true,\"id\":1}");
    let mut http2 = GrpcCaller::connect(socket_addr(&handle));
    let fields = [(":method", "GET"), ("content-type", "text/plain")];
    let asked = [(); 2].map(|()| http2.open_with("healthz", &fields, b"", true));
    for stream in asked {
        assert_eq!(http2.answer(stream).field(":status"), Some("200"));
    }
    let own = data(&handle)["cores"][0]["own"].take();
    assert_eq!(own["connection_count"], 2, "without that of the console: {own}");
    let shown = own["connections"].as_array().expect("a list").iter();
    let mut protocols: Vec<_> = shown.filter_map(|shown| shown["protocol"].as_str()).collect();
    protocols.sort_unstable();
    assert_eq!(protocols, ["HTTP + JSON-RPC", "gRPC + HTTP"]);
    drop((posting, http2));
    end(handle);
}

#[test]
fn the_credit_of_streams_and_connections_is_shown() {
    for (scheme, protocol) in [("tcp", "native"), ("grpc", "gRPC")] {
        let handle = start(Reports::default(), |server| server);
        let url = format!("{scheme}://{}", socket_addr(&handle));
        let client = WebClient::connect(&url).expect("an address");
        let mut numbers = client.watch(7);
        assert_eq!(numbers.next().wait().expect("a message"), Some(7));
        let connections = data(&handle)["cores"][0]["own"]["connections"].take();
        let mut connections = connections.as_array().expect("a list").iter();
        let shown = connections.find(|it| it["protocol"] == protocol).expect("it is connected");
        let call = &shown["calls"][0];
        assert_eq!(
            (&call["method"], &call["state"]),
            (&"web.v1.Web/Watch".into(), &"in handler".into())
        );
        for way in ["to_send", "to_receive"] {
            assert!(call["credit"][way].as_u64() > Some(0), "{shown}");
            assert_eq!(shown["credit"][way].is_u64(), protocol == "gRPC", "{shown}");
        }
        drop(numbers);
        end(handle);
    }
}

#[test]
fn the_process_and_what_its_cores_do_are_shown() {
    let handle = start(Reports::default(), |server| server);
    let process = || {
        let answer = get(&handle, "/console/process", "localhost", "");
        assert_eq!(answer.status, 200, "{answer:?}");
        serde_json::from_slice::<Value>(&answer.body).expect("JSON")
    };
    let first = process();
    let told = &first["told"]["process"];
    assert_eq!(told["pid"], std::process::id());
    assert!(told["threads"].as_array().is_some_and(|threads| threads.len() > 1), "{told}");
    let text = first.to_string();
    let arguments = std::env::args().skip(1).filter(|argument| argument.len() > 15);
    for secret in arguments.chain(std::env::var("PATH")) {
        assert!(!text.contains(&secret), "{secret} is told");
    }
    assert!(first["cores"][0]["own"]["cpu_ms"].as_f64().is_some(), "{first}");
    eventually("the cores are looked at", || {
        process()["cores"][0]["profile"]["looks"].as_u64() > Some(1)
    });
    end(handle);
}

#[test]
fn services_are_listed_with_examples_of_their_requests() {
    let handle = start(Reports::default(), |server| server);
    let answer = get(&handle, "/console/services", "localhost", "");
    let services: Value = serde_json::from_slice(&answer.body).expect("JSON");
    let web = &services[0];
    assert_eq!(
        (&web["name"], web["methods"].as_array().map(Vec::len)),
        (&"web.v1.Web".into(), Some(10))
    );
    let look = &web["methods"][0];
    assert_eq!((&look["kind"], &look["example"]), (&"unary".into(), &"text".into()));
    assert_eq!(look["no_side_effects"], true);
    assert_eq!(web["methods"][4]["kind"], "server stream");
    end(handle);
}

#[test]
fn tables_of_the_program_are_shown() {
    let handle = start(Reports::default(), |server| {
        let many = || (0..600).map(|row| [row.to_string()]).collect();
        server
            .console_table("Jobs", ["queue", "waiting"], || vec![["mail".into(), "7".into()]])
            .console_table("Many", ["number"], many)
            .console_table("Broken", ["a", "b"], || panic!("there are no rows"))
    });
    let tables = data(&handle)["tables"].take();
    let jobs = serde_json::json!({
        "title": "Jobs", "columns": ["queue", "waiting"], "rows": [["mail", "7"]], "all": 1,
    });
    assert_eq!(tables[0], jobs);
    assert_eq!((&tables[1]["rows"][499][0], &tables[1]["all"]), (&"499".into(), &600.into()));
    assert_eq!(tables[1]["rows"].as_array().map(Vec::len), Some(500));
    assert_eq!(tables[2]["rows"], serde_json::json!([]));
    end(handle);
}

/// A service whose name tries to become markup of the page.
struct Hostile;

const NAME: &str =
    "x.<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>";
static HOSTILE: [Method; 1] = [Method::new(
    "x.<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>/<b>",
    Kind::Unary,
)];
static DESCRIPTOR: ServiceDescriptor =
    ServiceDescriptor { name: NAME, methods: &HOSTILE, file_descriptor_set: None };

impl Service for Hostile {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &DESCRIPTOR
    }

    fn register(&self, methods: &mut Methods) {
        let echo = |_: Context, bytes: Bytes| async move { Ok::<_, Status>(bytes) };
        methods.unary(&HOSTILE[0], Codec::raw(), Codec::raw(), echo);
    }
}

#[test]
fn a_browser_shows_it_calls_a_method_and_runs_no_foreign_script() {
    let handle = start(Reports::default(), |server| {
        let rows = || vec![["mail".to_owned(), NAME.to_owned()]];
        server.service(Hostile).console_table("Jobs", ["queue", "worker"], rows)
    });
    put(&handle);
    let (lives, waits) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::Builder::new().name("<img src=x>".to_owned());
    let thread = thread.spawn(move || waits.recv()).expect("a thread");
    let url = format!("http://localhost:{}/", socket_addr(&handle).port());
    let Some(mut page) = Page::open(&url) else { return end(handle) };
    page.wait_for("document.querySelector('#methods tr').textContent.includes('Web/Put')");
    page.wait_for("document.getElementById('state').textContent === 'serving'");
    page.wait_for("document.querySelectorAll('#cores .core').length === 1");
    // The browser may hold a spare connection, on which nothing was asked.
    page.wait_for("['0 open', '1 open'].includes($('connection-count').textContent)");
    page.wait_for("[...$('connections').querySelectorAll('tr')].every((row) => row.cells[3].textContent === '0')");
    let indented =
        page.eval(r#"indented('{"id":12345678901234567890,"a":[1.0,{}],"b":"{\\\"x, y"}')"#);
    let expected = "{\n  \"id\": 12345678901234567890,\n  \"a\": [\n    1.0,\n    {}\n  ],\n  \"b\": \"{\\\"x, y\"\n}";
    assert_eq!(indented, expected);
    page.eval("location.hash = '#50%'");
    assert_eq!(page.eval("tokenOfLink()"), "50%");

    page.wait_for("$('tables').querySelector('h2').textContent === 'Jobs'");
    page.wait_for("$('tables').querySelector('td.left').textContent.includes('<img src=x')");

    page.eval("choose('web.v1.Web/Put', true)");
    page.eval("$('request').value = '\"from the page\"'; $('go').click()");
    page.wait_for("$('answer').textContent === '\"from the page\"'");
    page.wait_for("$('answer-state').textContent.startsWith('HTTP 200')");
    page.eval("choose('web.v1.Web/Fail', true); $('go').click()");
    page.wait_for("$('answer').textContent.includes('\"not_found\"')");
    page.wait_for("[...document.querySelectorAll('#slow tr')].some((row) => row.textContent.includes('Web/Fail'))");

    page.eval("$('to-process').click()");
    page.wait_for("$('process').textContent.includes('process id')");
    page.wait_for("[...document.querySelectorAll('#threads td.name')].some((cell) => cell.textContent === '<img src=x>')");
    page.wait_for("document.querySelector('#profile .core h2').textContent.startsWith('core ')");
    page.wait_for("$('profile-note').textContent.includes('looks at each core')");
    page.wait_for("getComputedStyle($('call')).display === 'none' || !$('call').offsetParent");
    assert_eq!(page.eval("document.documentElement.scrollWidth <= innerWidth"), true);
    page.eval("$('to-calls').click()");
    page.wait_for("$('call').offsetParent !== null");

    page.eval("$('all').click()");
    page.wait_for("[...document.querySelectorAll('#methods td.name')].some((cell) => cell.textContent.includes('<img src=x'))");
    page.wait_for("[...$('method').options].some((option) => option.value.includes('<script>'))");
    assert_eq!(page.eval("document.querySelectorAll('img, td b, script:not([nonce])').length"), 0);
    assert_eq!(page.eval("document.title"), "Ringway console");
    let complaints: Vec<_> =
        page.complaints.iter().filter(|it| !it.contains("404 (Not Found)")).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
    assert_eq!(page.eval("document.documentElement.scrollWidth <= innerWidth"), true);
    drop((page, lives));
    let _ended = thread.join();
    end(handle);
}
