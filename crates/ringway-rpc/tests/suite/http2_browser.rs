//! A real browser reads files, calls methods and shows the console over HTTP/2, which it has chosen by ALPN.

use std::path::{Path, PathBuf};

use ringway_http::{Files, Router};
use ringway_net::ServerTls;
use ringway_rpc::{Console, Server, ServerHandle};
use serde_json::{Value, json};

use crate::support::browser::Page;
use crate::support::web_service::{Reports, WebServer};
use crate::support::{end, socket_addr};

/// A folder of a test's own, removed with this.
struct Folder(PathBuf);

impl Folder {
    fn with_files() -> Self {
        let path = std::env::temp_dir().join(format!("ringway-http2-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        let pattern: Vec<u8> = (0..MUCH).map(|at| (at % 251) as u8).collect();
        let files: [(&str, &[u8]); 3] =
            [("index.html", PAGE), ("much.bin", &pattern), ("poem.txt", POEM)];
        for (name, content) in files {
            std::fs::write(path.join(name), content).expect("a file");
        }
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _kept = std::fs::remove_dir_all(&self.0);
    }
}

/// Some windows of a stream.
const MUCH: usize = 3_000_000;

const POEM: &[u8] = b"The sea is calm tonight. The tide is full, the moon lies fair.";

/// It asks as pages do, and tells what came.
const PAGE: &[u8] = br#"<!doctype html><meta charset="utf-8"><title>Files over HTTP/2</title><link rel="icon" href="data:,"><script>
const ask = async (path, headers = {}) => {
  const answer = await fetch(path, { headers, cache: "no-store" });
  const bytes = new Uint8Array(await answer.arrayBuffer());
  const url = new URL(path, location).href;
  const hops = performance.getEntriesByName(url).map((it) => it.nextHopProtocol);
  const field = (name) => answer.headers.get(name);
  return { status: answer.status, bytes, field, hops };
};
const told = async (path, headers) => {
  const { status, bytes, field, hops } = await ask(path, headers);
  const fields = ["content-length", "content-range", "content-type"].map(field);
  return { status, text: new TextDecoder().decode(bytes), fields, hops };
};
</script>"#;

/// Serves the folder at `/files` beside a service and the console, over TLS alone.
fn start(folder: &Path) -> ServerHandle {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
    let tls = ServerTls::from_pem(made.cert.pem(), made.signing_key.serialize_pem());
    let server = Server::bind("tls://127.0.0.1:0").expect("an address").threads(1);
    let server = server.tls(tls.expect("they belong together"));
    let server = server.service(WebServer::new(Reports::default())).console(Console::local());
    server.http_routes(Router::new().files("/files", Files::new(folder))).start().expect("starts")
}

#[test]
fn a_browser_reads_files_and_the_console_over_tls() {
    let folder = Folder::with_files();
    let handle = start(&folder.0);
    let base = format!("https://localhost:{}", socket_addr(&handle).port());
    let Some(mut page) = Page::open(&format!("{base}/files/")) else { return end(handle) };
    page.wait_for("document.title === 'Files over HTTP/2' && document.readyState === 'complete'");
    assert_eq!(how_it_came(&mut page), "h2");
    check_file(&mut page);
    check_range(&mut page);
    check_conditions(&mut page);
    check_many_at_once(&mut page);
    page.go_to(&format!("{base}/"));
    check_console(&mut page);
    let complaints: Vec<_> =
        page.complaints.iter().filter(|it| !it.contains("status of 416")).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
    drop(page);
    end(handle);
}

/// The protocol by which the browser says that the document came.
fn how_it_came(page: &mut Page) -> Value {
    page.eval("performance.getEntriesByType('navigation')[0].nextHopProtocol")
}

fn check_file(page: &mut Page) {
    let told = page.eval("told('poem.txt')");
    let (poem, length) = (str::from_utf8(POEM).expect("text"), POEM.len().to_string());
    let fields = json!([length, null, "text/plain; charset=utf-8"]);
    assert_eq!(told, json!({ "status": 200, "text": poem, "fields": fields, "hops": ["h2"] }));
    let much = page.eval(
        "ask('much.bin').then(({ status, bytes, field, hops }) => [status, bytes.length, \
         field('content-length'), bytes.every((byte, at) => byte === at % 251), hops[0]])",
    );
    assert_eq!(much, json!([200, MUCH, MUCH.to_string(), true, "h2"]));
}

fn check_range(page: &mut Page) {
    let part = page.eval("told('poem.txt', { range: 'bytes=4-6' })");
    assert_eq!((&part["status"], &part["text"]), (&206.into(), &"sea".into()), "{part}");
    let (range, length) = (format!("bytes 4-6/{}", POEM.len()), POEM.len());
    assert_eq!(part["fields"], json!(["3", range, "text/plain; charset=utf-8"]));
    let beyond = page.eval(&format!("told('poem.txt', {{ range: 'bytes={length}-' }})"));
    assert_eq!(beyond["status"], 416, "{beyond}");
    assert_eq!(beyond["fields"][1], format!("bytes */{length}"));
    let inner = page.eval(
        "ask('much.bin', { range: 'bytes=1000000-2999999' }).then(({ status, bytes }) => \
         [status, bytes.length, bytes.every((byte, at) => byte === (at + 1000000) % 251)])",
    );
    assert_eq!(inner, json!([206, 2_000_000, true]));
}

fn check_conditions(page: &mut Page) {
    for (condition, of) in [("if-none-match", "etag"), ("if-modified-since", "last-modified")] {
        let same = page.eval(&format!(
            "ask('poem.txt').then(({{ field }}) => told('poem.txt', {{ '{condition}': field('{of}') }}))"
        ));
        assert_eq!((&same["status"], &same["text"]), (&304.into(), &"".into()), "{of}: {same}");
    }
    let other = page.eval("told('poem.txt', { 'if-none-match': '\"another\"' })");
    assert_eq!(
        (&other["status"], &other["fields"][0]),
        (&200.into(), &json!(POEM.len().to_string()))
    );
}

/// More than the six connections that a browser makes for HTTP/1.1 could carry at a time.
fn check_many_at_once(page: &mut Page) {
    let lengths = page.eval(
        "Promise.all(Array.from({ length: 20 }, (_, at) => ask(`much.bin?${at}`))).then((all) => \
         all.map(({ status, bytes, hops }) => `${status} ${bytes.length} ${hops}`))",
    );
    assert_eq!(lengths, json!(vec![format!("200 {MUCH} h2"); 20]));
}

fn check_console(page: &mut Page) {
    page.wait_for("document.getElementById('state').textContent === 'serving'");
    assert_eq!(how_it_came(page), "h2");
    page.eval("choose('web.v1.Web/Put', true)");
    page.eval("$('request').value = '\"over TLS\"'; $('go').click()");
    page.wait_for("$('answer').textContent === '\"over TLS\"'");
    page.wait_for("$('answer-state').textContent.startsWith('HTTP 200')");
    page.wait_for("document.querySelector('#methods tr').textContent.includes('Web/Put')");
    let hops = page.eval(
        "[...new Set(performance.getEntriesByType('resource').map((it) => it.nextHopProtocol))]",
    );
    assert_eq!(hops, json!(["h2"]), "data, services and the call");
}
