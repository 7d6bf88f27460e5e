//! Files of a folder, for those who ask properly and for those who do not.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use ringway_http::{Files, Router, text};

use crate::support::alone::alone;
use crate::support::{Running, read_until};

/// A folder of a test's own, with a secret beside what is served.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("ringway-http-{}-{number}", std::process::id()));
        fs::create_dir_all(path.join("www")).expect("a folder");
        let folder = Self(path);
        fs::write(folder.0.join("secret.txt"), "secret").expect("a file");
        folder
    }

    fn root(&self) -> PathBuf {
        self.0.join("www")
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root().join(name);
        fs::create_dir_all(path.parent().expect("the root")).expect("a folder");
        fs::write(&path, content).expect("a file");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone_already = fs::remove_dir_all(&self.0);
    }
}

fn serve(root: impl AsRef<Path>) -> Running {
    let files = Files::new(root.as_ref()).cache_control("max-age=60");
    Running::start(Router::new().files("/static", files).get("/", async |_| Ok(text("root"))))
}

/// What a server answers: its head and its body.
fn ask(server: &Running, method: &str, path: &str, headers: &str) -> (String, String) {
    let answer = server.tell(format!("{method} {path} HTTP/1.1\r\nhost: h\r\n{headers}\r\n"));
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

fn get(server: &Running, path: &str) -> (String, String) {
    ask(server, "GET", path, "")
}

#[track_caller]
fn check(answer: &(String, String), status: &str, lines: &[&str], body: &str) {
    let (head, found) = answer;
    assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
    for line in lines {
        assert!(head.lines().any(|found| found == *line), "{line} is not in {head}");
    }
    assert_eq!(found, body);
}

#[test]
fn files_are_served_with_their_types() {
    let folder = Folder::new();
    for name in
        ["a.txt", "b.html", "c.js", "d.css", "e.png", "f.json", "g.wasm", "h", "sub/ä b.svg"]
    {
        folder.put(name, name);
    }
    let server = serve(folder.root());
    for (path, kind, body) in [
        ("a.txt", "text/plain; charset=utf-8", "a.txt"),
        ("b.html", "text/html; charset=utf-8", "b.html"),
        ("c.js", "text/javascript; charset=utf-8", "c.js"),
        ("d.css", "text/css; charset=utf-8", "d.css"),
        ("e.png", "image/png", "e.png"),
        ("f.json", "application/json", "f.json"),
        ("g.wasm", "application/wasm", "g.wasm"),
        ("h", "application/octet-stream", "h"),
        ("sub/%C3%A4%20b.svg?v=1", "image/svg+xml", "sub/ä b.svg"),
    ] {
        let answer = get(&server, &format!("/static/{path}"));
        let kind = format!("content-type: {kind}");
        let length = format!("content-length: {}", body.len());
        let nosniff = "x-content-type-options: nosniff";
        let lines =
            [&*kind, &*length, "accept-ranges: bytes", "cache-control: max-age=60", nosniff];
        check(&answer, "200", &lines, body);
    }
}

#[test]
fn head_tells_what_get_would_send() {
    let folder = Folder::new();
    folder.put("page.html", "0123456789");
    let server = serve(folder.root());
    let answer = ask(&server, "HEAD", "/static/page.html", "range: bytes=0-1\r\n");
    check(&answer, "200", &["content-length: 10", "content-type: text/html; charset=utf-8"], "");
    check(
        &ask(&server, "POST", "/static/page.html", ""),
        "405",
        &["allow: GET"],
        "this path answers GET\n",
    );
}

#[test]
fn a_folder_is_answered_by_its_index() {
    let folder = Folder::new();
    folder.put("index.html", "home");
    folder.put("docs/index.html", "docs");
    folder.put("empty/file", "x");
    let server = serve(folder.root());
    check(&get(&server, "/static/"), "200", &["content-type: text/html; charset=utf-8"], "home");
    check(&get(&server, "/static/docs/"), "200", &[], "docs");
    check(&get(&server, "/static/docs"), "308", &["location: ./docs/"], "");
    check(&get(&server, "/static/docs?a=b&c"), "308", &["location: ./docs/?a=b&c"], "");
    check(&get(&server, "/static"), "308", &["location: ./static/"], "");
    check(&get(&server, "/static?x"), "308", &["location: ./static/?x"], "");
    check(&get(&server, "/statics"), "404", &[], "there is nothing at this path\n");
    check(&get(&server, "/static/empty/"), "404", &[], "there is no such file\n");
    check(&get(&server, "/static/docs/index.html/"), "404", &[], "there is no such file\n");
}

#[test]
fn no_path_leads_out_of_the_folder() {
    let folder = Folder::new();
    folder.put("file.txt", "public");
    folder.put("sub/file.txt", "below");
    folder.put(".env", "hidden");
    folder.put(".well-known/security.txt", "known");
    let root = folder.root();
    symlink("sub/file.txt", root.join("inside.txt")).expect("a link");
    symlink("../secret.txt", root.join("outside.txt")).expect("a link");
    symlink(folder.0.join("secret.txt"), root.join("absolute.txt")).expect("a link");
    symlink("..", root.join("up")).expect("a link");
    symlink("self", root.join("self")).expect("a link");
    let _socket = UnixListener::bind(root.join("socket")).expect("a socket");
    let server = serve(&root);
    for (path, body) in [
        ("file.txt", "public"),
        ("inside.txt", "below"),
        ("sub%2Ffile.txt", "below"),
        (".well-known/security.txt", "known"),
    ] {
        check(&get(&server, &format!("/static/{path}")), "200", &[], body);
    }
    for (path, status) in [
        ("../secret.txt", "404"),
        ("%2e%2e/secret.txt", "404"),
        ("%2E%2E%2Fsecret.txt", "404"),
        ("..%2fsecret.txt", "404"),
        ("sub/../../secret.txt", "404"),
        ("sub/../file.txt", "404"),
        ("./file.txt", "404"),
        ("/etc/passwd", "404"),
        ("%2Fetc/passwd", "404"),
        ("%2Fetc%2Fpasswd", "404"),
        ("..\\secret.txt", "404"),
        ("%252e%252e/secret.txt", "404"),
        (".env", "404"),
        ("sub//file.txt", "404"),
        ("file.txt/", "404"),
        ("file.txt/x", "404"),
        ("none.txt", "404"),
        ("self", "404"),
        ("socket", "404"),
        ("outside.txt", "403"),
        ("absolute.txt", "403"),
        ("up/secret.txt", "403"),
        ("file.txt%00.png", "400"),
        ("%ff", "400"),
    ] {
        let (head, body) = get(&server, &format!("/static/{path}"));
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {head}");
        assert!(!body.contains("secret") && !body.contains("root:"), "{path}: {body}");
    }
    let name = "n".repeat(300);
    check(&get(&server, &format!("/static/{name}")), "404", &[], "there is no such file\n");
}

#[test]
fn hidden_files_are_served_where_that_is_wanted() {
    let folder = Folder::new();
    folder.put(".env", "public");
    let files = Files::new(folder.root()).hidden();
    let server = Running::start(Router::new().files("/", files));
    check(&get(&server, "/.env"), "200", &[], "public");
    check(&get(&server, "/../secret.txt"), "404", &[], "there is no such file\n");
}

/// What the head says about a field.
fn field<'h>(head: &'h str, name: &str) -> &'h str {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).expect("the field")
}

#[test]
fn what_a_reader_has_is_not_sent_again() {
    let folder = Folder::new();
    let path = folder.put("file.txt", "0123456789");
    let old = SystemTime::now() - Duration::from_secs(3600);
    fs::File::options().write(true).open(&path).expect("the file").set_modified(old).expect("set");
    let server = serve(folder.root());
    let (head, _) = get(&server, "/static/file.txt");
    let (tag, date) = (field(&head, "etag").to_owned(), field(&head, "last-modified").to_owned());
    assert!(tag.starts_with('"'), "{tag}");
    let with = |headers: &str| ask(&server, "GET", "/static/file.txt", headers);
    let kept = [&*format!("etag: {tag}"), "cache-control: max-age=60"];
    check(&with(&format!("if-none-match: {tag}\r\n")), "304", &kept, "");
    check(&with(&format!("if-modified-since: {date}\r\n")), "304", &kept, "");
    check(&with("if-none-match: \"other\"\r\n"), "200", &[], "0123456789");
    let (head, _) = with("if-match: \"other\"\r\n");
    assert!(head.starts_with("HTTP/1.1 412 "), "{head}");
    let same = format!("range: bytes=2-3\r\nif-range: {tag}\r\n");
    check(&with(&same), "206", &["content-range: bytes 2-3/10", "content-length: 2"], "23");
    fs::write(&path, "abcdefghij").expect("written");
    check(&with(&same), "200", &[], "abcdefghij");
    let (head, _) = with("");
    assert!(field(&head, "etag").starts_with("W/\""), "it may change again in this tick: {head}");
}

/// Archives and copies give all their files one time.
#[test]
fn another_content_of_the_same_length_and_time_has_another_tag() {
    let folder = Folder::new();
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    let put = |name: &str, content: &str| {
        let path = folder.put(name, content);
        let file = fs::File::options().write(true).open(&path).expect("the file");
        file.set_modified(old).expect("set");
        path
    };
    let served = put("file.txt", "AAAA");
    let server = serve(folder.root());
    let tag = field(&get(&server, "/static/file.txt").0, "etag").to_owned();
    let mut changed = put("next.txt", "BBBB");
    // Its file system may note both changes with one tick of its clock.
    while fs::metadata(&changed).expect("a file").ctime_nsec()
        == fs::metadata(&served).expect("a file").ctime_nsec()
    {
        changed = put("next.txt", "BBBB");
    }
    fs::rename(&changed, &served).expect("deployed");
    let with = |headers: &str| ask(&server, "GET", "/static/file.txt", headers);
    check(&with(&format!("if-none-match: {tag}\r\n")), "200", &[], "BBBB");
    check(&with(&format!("range: bytes=2-3\r\nif-range: {tag}\r\n")), "200", &[], "BBBB");
}

#[test]
fn a_part_is_sent_alone() {
    let folder = Folder::new();
    folder.put("file.bin", "0123456789");
    folder.put("empty.bin", "");
    let server = serve(folder.root());
    let with = |name: &str, range: &str| {
        ask(&server, "GET", &format!("/static/{name}"), &format!("range: {range}\r\n"))
    };
    for (range, told, body) in [
        ("bytes=0-0", "0-0", "0"),
        ("bytes=5-", "5-9", "56789"),
        ("bytes=-3", "7-9", "789"),
        ("bytes=8-1000", "8-9", "89"),
    ] {
        let told = format!("content-range: bytes {told}/10");
        check(&with("file.bin", range), "206", &[&told], body);
    }
    let outside = "content-range: bytes */10";
    check(&with("file.bin", "bytes=10-"), "416", &[outside], "the file has 10 bytes\n");
    check(&with("file.bin", "bytes=0-1,4-5"), "200", &["content-length: 10"], "0123456789");
    check(&with("file.bin", "bytes=5-4"), "200", &[], "0123456789");
    check(
        &with("empty.bin", "bytes=0-"),
        "416",
        &["content-range: bytes */0"],
        "the file has 0 bytes\n",
    );
    check(&get(&server, "/static/empty.bin"), "200", &["content-length: 0"], "");
}

/// A sparse file, which takes no room on the disk.
fn sparse(folder: &Folder, name: &str, bytes: u64) -> fs::File {
    let file = fs::File::create(folder.root().join(name)).expect("a file");
    file.set_len(bytes).expect("a sparse file");
    file
}

#[test]
fn a_large_file_comes_whole_and_in_order() {
    let folder = Folder::new();
    let content: Vec<u8> = (0..5_000_000_u32).map(|at| (at ^ at >> 8 ^ at >> 16) as u8).collect();
    folder.put("large.bin", &content);
    let server = serve(folder.root());
    let mut socket = server.connect();
    let twice = "GET /static/large.bin HTTP/1.1\r\nhost: h\r\n\r\n".repeat(2);
    socket.write_all(twice.as_bytes()).expect("two requests");
    for _ in 0..2 {
        read_until(&mut socket, "\r\n\r\n");
        let mut body = vec![0; content.len()];
        socket.read_exact(&mut body).expect("the file");
        assert!(body == content, "the file came changed");
    }
}

#[test]
fn a_file_that_becomes_shorter_ends_the_connection() {
    let folder = Folder::new();
    let file = sparse(&folder, "large.bin", 64 << 20);
    let server = serve(folder.root());
    let mut socket = server.connect();
    socket.write_all(b"GET /static/large.bin HTTP/1.1\r\nhost: h\r\n\r\n").expect("a request");
    let head = read_until(&mut socket, "\r\n\r\n");
    assert!(head.contains("content-length: 67108864"), "{head}");
    file.set_len(0).expect("emptied");
    let mut body = Vec::new();
    let _end_or_reset = socket.read_to_end(&mut body);
    assert!(body.len() < 64 << 20, "the rest of the file is made up");
    assert!(server.tell("GET / HTTP/1.1\r\nhost: h\r\n\r\n").ends_with("root"));
}

/// A number of this process that the kernel keeps, in bytes.
fn kept_by_kernel(name: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("the kernel tells");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the number");
    let kib =
        line.trim_matches([':', ' ', '\t']).split(' ').next().and_then(|kib| kib.parse().ok());
    kib.map(|kib: usize| kib << 10).expect("a number of KiB")
}

/// Returns when the server's only core has had many turns without taking more memory.
fn wait_for_rest(server: &Running) {
    const CALM_TURNS: u32 = 100;
    let (mut calm, mut last) = (0, 0);
    while calm < CALM_TURNS {
        assert!(server.tell("GET / HTTP/1.1\r\nhost: h\r\n\r\n").ends_with("root"));
        let now = kept_by_kernel("VmRSS");
        calm = if now == last { calm + 1 } else { 0 };
        last = now;
    }
}

#[test]
fn readers_who_do_not_read_hold_little_memory() {
    const READERS: usize = 200;
    alone(|| {
        let folder = Folder::new();
        let _file = sparse(&folder, "large.bin", 1 << 30);
        let server = serve(folder.root());
        let before = kept_by_kernel("VmRSS");
        let mut readers: Vec<_> = (0..READERS).map(|_| server.connect()).collect();
        for reader in &mut readers {
            reader
                .write_all(b"GET /static/large.bin HTTP/1.1\r\nhost: h\r\n\r\n")
                .expect("a request");
        }
        wait_for_rest(&server);
        let held = kept_by_kernel("VmHWM").saturating_sub(before);
        assert!(held <= READERS * (256 << 10), "{} KiB a reader", (held / READERS) >> 10);
    });
}
