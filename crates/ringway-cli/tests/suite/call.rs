//! `ringway call` as a user meets it.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use ringway_rpc::{
    Codec, Context, Kind, Method, Methods, Server, ServerHandle, Service, ServiceDescriptor, Sink,
    Status, Streaming, service,
};
use serde_json::Value;

use crate::support::{Ringway, run, run_with_input};

fn serve() -> (Ringway, String) {
    let server = Ringway::start("serve rpc --listen tcp://127.0.0.1:0 --cores 0");
    let address = server.line().replace("listening on ", "");
    (server, address)
}

#[test]
fn a_server_tells_what_it_offers() {
    let (_server, address) = serve();
    for address in over_both(&address) {
        list_of_the_tool(&address);
    }
}

/// The address of a server for each protocol.
fn over_both(address: &str) -> [String; 2] {
    [address.to_owned(), address.replace("tcp://", "grpc://")]
}

fn list_of_the_tool(address: &str) {
    let ended = run(&format!("call {address} --list"));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
    for part in [
        "grpc.health.v1.Health\n",
        "ringway.bench.Echo\n",
        "  Say       bytes            -> bytes            idempotent\n",
        "  Chat      stream of bytes  -> stream of bytes\n",
        "  Greet     JSON             -> JSON             idempotent\n",
        "ringway.reflection.v1.Reflection\n",
    ] {
        assert!(ended.out.contains(part), "{part} is not in\n{}", ended.out);
    }
}

#[test]
fn each_kind_of_method_answers_in_lines() {
    let (_server, address) = serve();
    let answers = |words: &str, input: &str, expected: &str| {
        for address in over_both(&address) {
            let call = format!("call {address} ringway.bench.Echo/{words}");
            let ended = run_with_input(&call, input);
            assert_eq!((ended.status.code(), &*ended.out), (Some(0), expected), "{}", ended.err);
        }
    };
    answers("Say hello", "", "hello\n");
    answers("Say -", "from a pipe\n", "from a pipe\n");
    answers("Greet {\"name\":\"Ada\"}", "", "{\"text\":\"Hello, Ada!\"}\n");
    answers("Chat -", "1\n2\n3\n", "1\n2\n3\n");
    answers("Collect -", "first\nlast\n", "last\n");
    answers("Repeat once", "", "once\n");
}

#[test]
fn json_rpc_takes_parameters_as_they_travel() {
    let (_server, address) = serve();
    for scheme in ["jsonrpc+tcp://", "http://", "ws://"] {
        json_rpc_calls(&address.replace("tcp://", scheme));
    }
}

fn json_rpc_calls(address: &str) {
    for (words, expected) in [
        ("ringway.bench.Echo/Greet {\"name\":\"Ada\"}", "{\"text\":\"Hello, Ada!\"}\n"),
        ("Echo.Greet [{\"name\":\"Ada\"}]", "{\"text\":\"Hello, Ada!\"}\n"),
        ("Echo.Say \"YQ==\"", "\"YQ==\"\n"),
        ("rpc.ping", "true\n"),
    ] {
        let ended = run(&format!("call {address} {words}"));
        assert_eq!((ended.status.code(), &*ended.out), (Some(0), expected), "{}", ended.err);
    }
    for (words, complaint) in [
        ("no.such []", "UNIMPLEMENTED"),
        ("Echo.Greet {", "not JSON"),
        ("Echo.Greet {\"name\":\"\"}", "the name is empty"),
        ("--list", "neither a list"),
    ] {
        let ended = run(&format!("call {address} {words}"));
        assert_ne!(ended.status.code(), Some(0), "{words}");
        assert!(ended.err.contains(complaint), "{words}: {}", ended.err);
    }
}

#[test]
fn built_in_services_take_and_print_json() {
    let (_server, address) = serve();
    let answers = |words: &str, expected: &str| {
        let ended = run(&format!("call {address} {words}"));
        assert_eq!((ended.status.code(), &*ended.out), (Some(0), expected), "{}", ended.err);
    };
    let health = "grpc.health.v1.Health";
    answers(&format!("{health}/Check"), "{\"status\":\"SERVING\"}\n");
    answers(&format!("{health}/Check {{\"service\":\"\"}}"), "{\"status\":\"SERVING\"}\n");
    let listed: Value = serde_json::from_str(&run(&format!("call {address} {health}/List")).out)
        .expect("one JSON object");
    assert_eq!(listed["statuses"][""]["status"], "SERVING", "{listed}");
    let services = [
        health,
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
        "ringway.bench.Echo",
        "ringway.reflection.v1.Reflection",
    ];
    let listed = format!("{{\"services\":[\"{}\"]}}\n", services.join("\",\""));
    answers("ringway.reflection.v1.Reflection/List", &listed);
    let ended = run(&format!("call {address} {health}/Check {{\"service\":\"no.Such\"}}"));
    assert!(ended.err.contains("NOT_FOUND"), "{}", ended.err);
    let watch = Ringway::start(&format!("call {address} {health}/Watch"));
    assert_eq!(watch.line(), "{\"status\":\"SERVING\"}");
}

/// Servers tell what they were compiled with, which is a file beside each.
#[test]
fn descriptors_of_built_in_services_are_those_of_their_proto_files() {
    for name in ["health", "reflection"] {
        let directory = format!("{}/../ringway-rpc/src/builtin/{name}", env!("CARGO_MANIFEST_DIR"));
        let mut compiler = protox::Compiler::new([&directory]).expect("the directory is there");
        compiler.include_source_info(false).include_imports(true);
        compiler.open_file(format!("{directory}/{name}.proto")).expect("the file compiles");
        let compiled = compiler.encode_file_descriptor_set();
        let place = format!("{directory}/{name}.binpb");
        if std::env::var_os("WRITE_DESCRIPTORS").is_some() {
            std::fs::write(&place, &compiled).expect("the file is writable");
        }
        let stored = std::fs::read(&place).expect("it is there");
        assert!(stored == compiled, "{place} is old: run this test with WRITE_DESCRIPTORS=1");
    }
}

#[test]
fn a_call_that_fails_says_why() {
    let (_server, address) = serve();
    let fails = |words: &str, part: &str| {
        let ended = run(&format!("call {words}"));
        assert_eq!((ended.status.code(), &*ended.out), (Some(1), ""), "{words}");
        assert!(ended.err.contains(part), "{words}: {}", ended.err);
    };
    for address in over_both(&address) {
        let echo = format!("{address} ringway.bench.Echo");
        fails(&format!("{echo}/Greet {{\"name\":\"\"}}"), "INVALID_ARGUMENT");
        fails(&format!("{echo}/Greet {{name}}"), "not JSON");
        fails(&format!("{echo}/Whisper x"), "Say");
        fails(&format!("{address} no.Such/Thing x"), "no.Such");
        fails(&format!("{address} Echo/Say x"), "there is ringway.bench.Echo");
        fails(&format!("{echo}/SayLater x --timeout 1ms"), "DEADLINE_EXCEEDED");
    }
    fails("unix:///tmp/ringway-nobody.sock --list", "UNAVAILABLE");
}

/// Far more than anything here takes, even while the machine compiles.
const LIMIT: Duration = Duration::from_secs(60);

fn serve_own(service: impl Service) -> (ServerHandle, String) {
    let server = Server::bind("tcp://127.0.0.1:0").expect("a port").threads(1);
    let server = server.service(service).start().expect("it starts");
    let address = server.addresses()[0].to_string();
    (server, address)
}

static LARGE: [Method; 1] = [Method::new("large.v1.Large/Get", Kind::Unary)];

/// A service whose descriptors, and whose reply, are longer than a message is by default.
struct Large(&'static ServiceDescriptor);

impl Large {
    const BYTES: usize = 5 << 20;

    fn new() -> Self {
        // The file of another service of the same build.
        let file = prost_reflect::prost_types::FileDescriptorProto {
            name: Some("other.proto".to_owned()),
            package: Some("x".repeat(Self::BYTES)),
            ..Default::default()
        };
        let set = prost_reflect::prost_types::FileDescriptorSet { file: vec![file] };
        let set: &'static [u8] = prost::Message::encode_to_vec(&set).leak();
        let descriptor = ServiceDescriptor {
            name: "large.v1.Large",
            methods: &LARGE,
            file_descriptor_set: Some(set),
        };
        Self(Box::leak(Box::new(descriptor)))
    }
}

impl Service for Large {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        self.0
    }

    fn register(&self, methods: &mut Methods) {
        let raw = Codec::raw();
        methods.unary(&LARGE[0], raw, raw, async |_: Context, _: Bytes| {
            Ok(Bytes::from(vec![b'7'; Self::BYTES]))
        });
    }
}

#[test]
fn long_descriptors_and_replies_are_taken() {
    let (server, address) = serve_own(Large::new());
    for address in over_both(&address) {
        let ended = run(&format!("call {address} large.v1.Large/Get"));
        assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
        assert_eq!(ended.out.trim_end().len(), Large::BYTES);
    }
    drop(server);
}

/// Answers before it has read what is sent.
#[service(package = "early.v1", crate = "ringway_rpc")]
trait Early {
    async fn first(&self, requests: Streaming<Bytes>) -> Result<Bytes, Status>;
    async fn none(&self, requests: Streaming<Bytes>) -> Result<Bytes, Status>;
    async fn refused(&self, requests: Streaming<Bytes>) -> Result<Bytes, Status>;
    async fn two(&self, requests: Streaming<Bytes>, replies: Sink<Bytes>) -> Result<(), Status>;
}

struct Hasty;

impl Early for Hasty {
    async fn first(&self, mut requests: Streaming<Bytes>) -> Result<Bytes, Status> {
        Ok(requests.next().await?.unwrap_or_default())
    }

    async fn none(&self, _: Streaming<Bytes>) -> Result<Bytes, Status> {
        Ok(Bytes::from_static(b"enough"))
    }

    async fn refused(&self, mut requests: Streaming<Bytes>) -> Result<Bytes, Status> {
        requests.next().await?;
        Err(Status::permission_denied("not from here"))
    }

    async fn two(
        &self,
        mut requests: Streaming<Bytes>,
        mut replies: Sink<Bytes>,
    ) -> Result<(), Status> {
        for _ in 0..2 {
            replies.send(requests.next().await?.unwrap_or_default()).await?;
        }
        Ok(())
    }
}

/// Before, the failure to send what nobody reads any more was printed in place of the reply.
#[test]
fn an_answer_before_the_end_of_the_input_is_the_answer() {
    let (server, address) = serve_own(EarlyServer::new(Hasty));
    let check = |method: &str, code: i32, out: &str, err: &str| {
        let mut call = Ringway::start(&format!("call {address} early.v1.Early/{method} -"));
        for line in 1..=2_000 {
            // Whoever has its answer may read no more.
            if writeln!(call.stdin(), "{line} {}", "x".repeat(1_000)).is_err() {
                break;
            }
        }
        // The input does not end.
        let ended = call.wait();
        let short: String = ended.out.lines().map(|line| line[..6].to_owned() + "\n").collect();
        assert_eq!((ended.status.code(), &*short), (Some(code), out), "{}", ended.err);
        assert!(ended.err.contains(err), "{}", ended.err);
    };
    check("First", 0, "1 xxxx\n", "");
    check("None", 0, "enough\n", "");
    check("Refused", 1, "", "PERMISSION_DENIED: not from here");
    check("Two", 0, "1 xxxx\n2 xxxx\n", "");
    server.abort();
}

#[test]
fn a_stream_answers_while_the_input_goes_on() {
    let (_server, address) = serve();
    let mut chat = Ringway::start(&format!("call {address} ringway.bench.Echo/Chat -"));
    for line in ["one", "", "three"] {
        writeln!(chat.stdin(), "{line}").expect("it reads");
        assert_eq!(chat.line(), line);
    }
    chat.close_stdin();
    assert_eq!(chat.wait().status.code(), Some(0));
}

/// What the binary writes, byte by byte.
fn bytes_of(words: &str, input: &'static [u8]) -> Vec<u8> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ringway"))
        .args(words.split_whitespace())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary under test starts");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(input).expect("a pipe holds a few bytes");
    drop(stdin);
    let mut stdout = child.stdout.take().expect("piped");
    let (sender, written) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        _ = stdout.read_to_end(&mut bytes);
        _ = sender.send(bytes);
    });
    let bytes = written.recv_timeout(LIMIT);
    _ = child.kill(); // it may have ended
    _ = child.wait();
    bytes.expect("an end within the limit")
}

#[test]
fn bytes_travel_as_they_are() {
    let (_server, address) = serve();
    let echo = format!("call {address} ringway.bench.Echo");
    let input = b"\xff\x00\r\n\x1b[2J\n";
    assert_eq!(bytes_of(&format!("{echo}/Say - --binary"), input), input);
    assert_eq!(bytes_of(&format!("{echo}/Chat --binary -"), input), input);
    assert_eq!(bytes_of(&format!("{echo}/Say -"), b"\xff\x00\n"), b"\xff\x00\n");
    assert_eq!(bytes_of(&format!("{echo}/Collect -"), b"a\n\xff\n"), b"\xff\n");
    let greeted = bytes_of(&format!("{echo}/Greet --binary -"), b"{\"name\":\"Ada\"}");
    assert_eq!(greeted, b"{\"text\":\"Hello, Ada!\"}");
}

/// Written by hand, of types of std.
#[service(package = "plain.v1", crate = "ringway_rpc")]
trait Plain {
    async fn greet(&self, name: String) -> Result<String, Status>;
    async fn double(&self, n: u64) -> Result<u64, Status>;
    async fn flip(&self, bytes: Vec<u8>) -> Result<Vec<u8>, Status>;
    async fn nothing(&self, nothing: ()) -> Result<bool, Status>;
    async fn sum(&self, numbers: Streaming<u64>) -> Result<f64, Status>;
    async fn own(&self, own: Own) -> Result<Own, Status>;
}

/// Protobuf of which no server has descriptors.
#[derive(Clone, PartialEq, prost::Message)]
struct Own {
    #[prost(uint32, tag = "1")]
    n: u32,
}

struct ByHand;

impl Plain for ByHand {
    async fn greet(&self, name: String) -> Result<String, Status> {
        Ok(format!("Hello, {name}!"))
    }

    async fn double(&self, n: u64) -> Result<u64, Status> {
        Ok(2 * n)
    }

    async fn flip(&self, bytes: Vec<u8>) -> Result<Vec<u8>, Status> {
        Ok(bytes.into_iter().rev().collect())
    }

    async fn nothing(&self, (): ()) -> Result<bool, Status> {
        Ok(true)
    }

    async fn sum(&self, mut numbers: Streaming<u64>) -> Result<f64, Status> {
        let mut sum = 0;
        while let Some(number) = numbers.next().await? {
            sum += number;
        }
        Ok(sum as f64)
    }

    async fn own(&self, own: Own) -> Result<Own, Status> {
        Ok(own)
    }
}

#[test]
fn services_written_by_hand_can_be_called() {
    let (server, address) = serve_own(PlainServer::new(ByHand));
    let call = |words: &str, input: &str| {
        run_with_input(&format!("call {address} plain.v1.Plain/{words}"), input)
    };
    let answers = |words: &str, input: &str, expected: &str| {
        let ended = call(words, input);
        assert_eq!((ended.status.code(), &*ended.out), (Some(0), expected), "{}", ended.err);
    };
    answers("Greet Ada", "", "\"Hello, Ada!\"\n");
    answers(
        "Greet -",
        "Ada \u{1f980} \"Lovelace\"\n",
        "\"Hello, Ada \u{1f980} \\\"Lovelace\\\"!\"\n",
    );
    answers("Greet \"5\"", "", "\"Hello, 5!\"\n");
    answers("Greet", "", "\"Hello, !\"\n");
    answers("Double 21", "", "\"42\"\n");
    answers("Flip \"AAEC\"", "", "\"AgEA\"\n");
    answers("Nothing", "", "true\n");
    answers("Sum -", "1\n2\n\"3\"\n", "6.0\n");
    let fails = |words: &str, input: &str, part: &str| {
        let ended = call(words, input);
        assert_eq!((ended.status.code(), &*ended.out), (Some(1), ""), "{words}");
        assert!(ended.err.contains(part), "{words}: {}", ended.err);
    };
    fails("Double -1", "", "the request is not google.protobuf.UInt64Value as JSON");
    fails("Sum -", "1\ntwo\n3\n", "line 2: the request is not google.protobuf.UInt64Value");
    fails("Own {\"n\":1}", "", "--binary");
    assert_eq!(
        bytes_of(&format!("call {address} plain.v1.Plain/Own - --binary"), b"\x08\x07"),
        b"\x08\x07"
    );
    let ended = run(&format!("call {address} Plain/Greet Ada"));
    assert!(ended.err.contains("there is plain.v1.Plain"), "{}", ended.err);
    server.abort();
}

#[test]
fn metadata_goes_with_every_question() {
    let server = Server::bind("tcp://127.0.0.1:0").expect("a port").threads(1);
    let server = server.service(PlainServer::new(ByHand));
    let server = server.intercept(async |context: Context, next: ringway_rpc::Next| match context
        .metadata()
        .get("authorization")
    {
        Some("sesame") => next.run(context).await,
        _ => Err(Status::unauthenticated("a token is needed")),
    });
    let server = server.start().expect("it starts");
    let address = server.addresses()[0].to_string();
    for address in over_both(&address) {
        for (words, part) in [("--list", "  Greet "), ("plain.v1.Plain/Greet Ada", "Hello, Ada!")] {
            for entry in ["authorization=sesame", "authorization: sesame"] {
                let words = ["call", &address, "-H", entry].into_iter().chain(words.split(' '));
                let ended = Ringway::start_with(words).wait();
                assert!(
                    ended.status.success() && ended.out.contains(part),
                    "{}{}",
                    ended.out,
                    ended.err
                );
            }
            let ended = run(&format!("call {address} {words}"));
            assert!(ended.err.contains("UNAUTHENTICATED"), "{}", ended.err);
        }
    }
    server.abort();
}

/// Says what a terminal would obey.
#[service(package = "evil.v1", crate = "ringway_rpc")]
trait Evil {
    async fn say(&self, request: Bytes) -> Result<Bytes, Status>;
    async fn text(&self, request: String) -> Result<String, Status>;
    async fn fail(&self, request: Bytes) -> Result<Bytes, Status>;
}

const ORDERS: &str = "\x1b]0;owned\x07\u{9b}2J\u{202e}";

struct Mallory;

impl Evil for Mallory {
    async fn say(&self, _: Bytes) -> Result<Bytes, Status> {
        Ok(Bytes::from_static(ORDERS.as_bytes()))
    }

    async fn text(&self, _: String) -> Result<String, Status> {
        Ok(ORDERS.to_owned())
    }

    async fn fail(&self, _: Bytes) -> Result<Bytes, Status> {
        Err(Status::internal(format!("{ORDERS}\nringway: all is well")))
    }
}

/// The same in its names.
struct Names;

static METHODS: [Method; 1] = [Method::new("evil\x1b[2J.Names/M\x07", Kind::Unary)];
static NAMES: ServiceDescriptor =
    ServiceDescriptor { name: "evil\x1b[2J.Names", methods: &METHODS, file_descriptor_set: None };

impl Service for Names {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &NAMES
    }

    fn register(&self, methods: &mut Methods) {
        let same = |_: Context, request: Bytes| async move { Ok(request) };
        methods.unary(&METHODS[0], Codec::raw(), Codec::raw(), same);
    }
}

fn serve_evil() -> (ServerHandle, String) {
    let server = Server::bind("tcp://127.0.0.1:0").expect("a port").threads(1);
    let server = server.service(EvilServer::new(Mallory)).service(Names);
    let server = server.start().expect("it starts");
    let address = server.addresses()[0].to_string();
    (server, address)
}

#[track_caller]
fn check_harmless(shown: &str, part: &str) {
    let is_order = |char: char| char.is_control() && !"\r\n".contains(char) || char == '\u{202e}';
    assert!(!shown.contains(is_order), "{shown:?}");
    assert!(shown.contains(part), "{shown:?}");
}

#[test]
fn names_and_errors_of_a_server_are_printed_without_control_characters() {
    let (server, address) = serve_evil();
    let listed = run(&format!("call {address} --list"));
    check_harmless(&listed.out, "evil\\u001b[2J.Names\n  M\\u0007 ");
    let failed = run(&format!("call {address} evil.v1.Evil/Fail"));
    check_harmless(&failed.err, "INTERNAL: \\u001b]0;owned\\u0007\\u009b2J\\u202e\\u000aringway");
    assert_eq!(failed.err.lines().count(), 1, "{}", failed.err);
    let mut unknown = Ringway::start_with(["call", &address, "evil\x1b[2J.Names/Other"]);
    unknown.close_stdin();
    check_harmless(&unknown.wait().err, "it has M\\u0007");
    server.abort();
}

/// What the binary shows on a terminal.
fn shown_on_a_terminal(words: &str) -> String {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&master).and_then(|()| unlockpt(&master)).expect("a terminal");
    let name = ptsname(&master, Vec::new()).expect("it has a name");
    let name = name.into_string().expect("a path");
    let slave = File::options().read(true).write(true).open(name).expect("its other side");
    let mut child = Command::new(env!("CARGO_BIN_EXE_ringway"))
        .args(words.split_whitespace())
        .stdin(Stdio::null())
        .stderr(slave.try_clone().expect("one more"))
        .stdout(slave)
        .spawn()
        .expect("the binary under test starts");
    let (sender, shown) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // It fails with EIO once nobody has the other side open.
        _ = File::from(master).read_to_end(&mut bytes);
        _ = sender.send(bytes);
    });
    let shown = shown.recv_timeout(LIMIT);
    _ = child.kill(); // it may have ended
    _ = child.wait();
    String::from_utf8(shown.expect("an end within the limit")).expect("UTF-8")
}

#[test]
fn a_terminal_shows_control_characters_in_place_of_obeying_them() {
    let (server, address) = serve_evil();
    let evil = format!("call {address} evil.v1.Evil");
    check_harmless(&shown_on_a_terminal(&format!("{evil}/Say")), "\\u001b]0;owned\\u0007");
    check_harmless(&shown_on_a_terminal(&format!("{evil}/Say --binary")), "\\u009b2J\\u202e");
    check_harmless(&shown_on_a_terminal(&format!("{evil}/Text x")), "\\u009b2J\\u202e\"");
    check_harmless(&shown_on_a_terminal(&format!("{evil}/Fail")), "INTERNAL: \\u001b]0;owned");
    // A file or a program gets what was sent.
    assert_eq!(bytes_of(&format!("{evil}/Say --binary"), b""), ORDERS.as_bytes());
    server.abort();
}

/// As behind `| head`, when that has read enough.
#[test]
fn replies_that_nobody_reads_are_no_error() {
    let (_server, address) = serve();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = Command::new(env!("CARGO_BIN_EXE_ringway"))
        .args(["call", &address, "ringway.bench.Echo/Flood", "{\"size\": 10}"])
        .stdin(Stdio::null())
        .stdout(writer)
        .output()
        .expect("the binary under test starts");
    assert_eq!((output.status.code(), &*output.stderr), (Some(0), &b""[..]));
}
