//! gRPC calls over real sockets, to a server that speaks the native protocol on the same port.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ringway_net::{Client, ClientTls, Connection, ServerTls};
use ringway_rpc::{Server, ServerHandle, ServingStatus};
use ringway_runtime::timeout;
use ringway_wire::http2::{Body, ErrorCode, Event, Http2Config, Line, NewRequest, Outgoing};

use crate::support::caller::Caller;
use crate::support::echo::{Echo, serve, serve_at};
use crate::support::grpc_caller::{Came, GrpcCaller, framed, machine};
use crate::support::{LIMIT, end, eventually, socket_addr, wait};

fn connected() -> (ServerHandle, GrpcCaller) {
    let handle = serve(&Echo::default(), |server| server);
    let caller = GrpcCaller::connect(socket_addr(&handle));
    (handle, caller)
}

/// Ends a server, and reads until it has closed the connection.
fn leave(handle: ServerHandle, mut caller: GrpcCaller) {
    handle.shutdown();
    while caller.read() {}
    wait(handle);
}

#[test]
fn both_protocols_are_served_on_one_port() {
    let (handle, mut grpc) = connected();
    let mut native = Caller::connect(socket_addr(&handle));
    for _ in 0..3 {
        let came = grpc.call("echo.Echo/Say", b"by gRPC");
        assert_eq!((came.status(), &came.messages()[0][..]), ((0, ""), &b"by gRPC"[..]));
        assert_eq!(native.call("echo.Echo/Say", b"natively").ok(), "natively");
    }
    leave(handle, grpc);
}

#[test]
fn waiting_handlers_are_answered_in_the_order_of_completion() {
    let (handle, mut caller) = connected();
    let slow = caller.open("echo.Echo/Late", b"50");
    let fast = caller.open("echo.Echo/Late", b"1");
    let at_once = caller.open("echo.Echo/Say", b"now");
    for (stream, body) in [(at_once, &b"now"[..]), (fast, b"1"), (slow, b"50")] {
        assert_eq!(caller.answer(stream).messages(), [body]);
    }
    leave(handle, caller);
}

#[test]
fn messages_of_any_size_up_to_the_limit_are_echoed() {
    let (handle, mut caller) = connected();
    for len in [0, 1, 16_379, 16_384, 100_000, 1 << 20, 4 << 20] {
        let message: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        let came = caller.call("echo.Echo/Say", &message);
        assert_eq!(came.status(), (0, ""), "{len} bytes");
        assert!(came.messages() == [&message[..]], "{len} bytes");
    }
    let too_long = caller.call("echo.Echo/Say", &vec![0; (4 << 20) + 1]);
    let (status, text) = too_long.status();
    assert!(status == 8 && text.contains("4194305 bytes"), "{status} {text}");
    assert_eq!(caller.call("echo.Echo/Say", b"on").status(), (0, ""), "the connection goes on");
    leave(handle, caller);
}

#[test]
fn client_stream_has_one_reply() {
    let (handle, mut caller) = connected();
    let stream = caller.open_with("echo.Echo/Collect", &[], &[], false);
    for message in [&b"one "[..], b"", b"two "] {
        caller.send(stream, message, false);
    }
    caller.send(stream, b"three", true);
    assert_eq!(caller.answer(stream).messages(), [&b"one two three"[..]]);
    let empty = caller.open_with("echo.Echo/Collect", &[], &[], true);
    assert_eq!(caller.answer(empty).messages(), [&b""[..]]);
    let at_once = [framed(b"a"), framed(b"b"), framed(b"c")].concat();
    let at_once = caller.open_with("echo.Echo/Collect", &[], &at_once, true);
    assert_eq!(caller.answer(at_once).messages(), [&b"abc"[..]]);
    leave(handle, caller);
}

#[test]
fn server_stream_has_many_replies() {
    let (handle, mut caller) = connected();
    for count in [0_u8, 1, 200] {
        let came = caller.call("echo.Echo/Repeat", &[count, 7]);
        assert_eq!(came.status(), (0, ""));
        assert_eq!(came.messages(), vec![&[count, 7][..]; count.into()]);
    }
    leave(handle, caller);
}

#[test]
fn streams_go_both_ways_at_once() {
    let (handle, mut caller) = connected();
    let streams: Vec<_> =
        (0..20).map(|_| caller.open_with("echo.Echo/Chat", &[], &[], false)).collect();
    for round in 0..30_u8 {
        for &stream in &streams {
            caller.send(stream, &[round], false);
        }
        for stream in &streams {
            let wanted = usize::from(round) + 1;
            caller.until("an echo comes", |came| {
                came.get(&stream.id()).is_some_and(|it| it.messages().len() == wanted)
            });
        }
    }
    for stream in streams {
        caller.finish(stream);
        let came = caller.answer(stream);
        assert_eq!((came.status(), came.messages().len()), ((0, ""), 30));
    }
    leave(handle, caller);
}

#[test]
fn failures_have_a_status_message() {
    let (handle, mut caller) = connected();
    let failed = caller.call("echo.Echo/Fail", "nö %".as_bytes());
    assert_eq!(failed.status(), (5, "n%C3%B6 %25"));
    assert_eq!(failed.field("shard"), Some("7"));
    let unknown = caller.call("echo.Echo/Unknown", b"");
    assert_eq!(unknown.status(), (12, "the server has no method echo.Echo/Unknown"));
    for method in ["echo.Echo/Panic", "echo.Echo/PanicLate"] {
        assert_eq!(caller.call(method, b"so").status(), (13, "the handler failed"));
    }
    let aborted = caller.open_with("echo.Echo/Chat", &[], &framed(b"fail"), false);
    assert_eq!(caller.answer(aborted).status(), (10, "as the message wants"));
    leave(handle, caller);
}

#[test]
fn unary_call_needs_exactly_one_message() {
    let (handle, mut caller) = connected();
    let two = [framed(b"a"), framed(b"b")].concat();
    let two = caller.open_with("echo.Echo/Say", &[], &two, true);
    let text = "the method takes one message, and more were sent";
    assert_eq!(caller.answer(two).status(), (12, text));
    let none = caller.open_with("echo.Echo/Say", &[], &[], true);
    let text = "the method takes one message, and none was sent";
    assert_eq!(caller.answer(none).status(), (12, text));
    let late = caller.open_with("echo.Echo/Say", &[], &[], false);
    caller.send(late, b"late", false);
    caller.finish(late);
    assert_eq!(caller.answer(late).messages(), [&b"late"[..]]);
    leave(handle, caller);
}

#[test]
fn unsupported_content_types_are_rejected() {
    let (handle, mut caller) = connected();
    let of = |caller: &mut GrpcCaller, content_type| {
        let fields = [("content-type", content_type)];
        let stream = caller.open_with("echo.Echo/Say", &fields, &framed(b"x"), true);
        caller.answer(stream)
    };
    for good in ["application/grpc", "application/grpc+proto", "application/grpc+raw"] {
        assert_eq!(of(&mut caller, good).status(), (0, ""), "{good}");
    }
    let json = of(&mut caller, "application/grpc+json");
    assert_eq!(json.status(), (12, "echo.Echo/Say takes raw bytes, and was sent JSON"));
    let none = of(&mut caller, "text/plain");
    assert_eq!(none.field(":status"), Some("415"));
    leave(handle, caller);
}

#[test]
fn deadline_of_a_client_ends_its_call() {
    let (handle, mut caller) = connected();
    let fields = [("grpc-timeout", "20m")];
    let hangs = caller.open_with("echo.Echo/Hang", &fields, &framed(b""), true);
    let text = "the deadline passed while the handler ran";
    assert_eq!(caller.answer(hangs).status(), (4, text));
    let never_whole = caller.open_with("echo.Echo/Say", &fields, &framed(b"x"), false);
    let text = "the request did not arrive completely in time";
    assert_eq!(caller.answer(never_whole).status(), (4, text));
    eventually("it is counted", || handle.stats().expired == 1);
    leave(handle, caller);
}

#[test]
fn cancelled_call_drops_its_handler() {
    let echo = Echo::default();
    let handle = serve(&echo, |server| server);
    let mut caller = GrpcCaller::connect(socket_addr(&handle));
    let hangs = caller.open("echo.Echo/Hang", b"");
    eventually("it has begun", || echo.seen.begun.load(Ordering::SeqCst) == 1);
    caller.reset(hangs);
    eventually("it is dropped", || echo.seen.dropped.load(Ordering::SeqCst) == 1);
    eventually("it is counted", || handle.stats().cancelled == 1);
    let lost = caller.open("echo.Echo/Hang", b"");
    eventually("it has begun", || echo.seen.begun.load(Ordering::SeqCst) == 2);
    assert!(caller.seen(lost).fields.is_empty());
    drop(caller);
    eventually("it is dropped with its connection", || {
        echo.seen.dropped.load(Ordering::SeqCst) == 2
    });
    end(handle);
}

#[test]
fn unread_stream_blocks_no_other() {
    let (handle, mut caller) = connected();
    caller.reads = false;
    let unread = caller.open("echo.Echo/Repeat", &[200; 60_000]);
    let window = Http2Config::client().initial_window as usize;
    caller.until("a window of replies has come", |came| {
        came.get(&unread.id()).is_some_and(|it| it.messages().len() * 60_000 + 60_000 >= window)
    });
    caller.reads = true;
    // Other streams are read; together they have more than the connection's initial window.
    for _ in 0..50 {
        let came = caller.call("echo.Echo/Say", &[1; 100_000]);
        assert_eq!(came.status(), (0, ""));
    }
    assert!(!caller.seen(unread).has_ended);
    caller.reset(unread);
    assert_eq!(caller.call("echo.Echo/Say", b"on").status(), (0, ""));
    leave(handle, caller);
}

#[test]
fn limits_apply_to_every_protocol() {
    let echo = Echo::default();
    let handle = serve(&echo, |server| server.queue_room(0));
    let mut caller = GrpcCaller::connect(socket_addr(&handle));
    let mut native = Caller::connect(socket_addr(&handle));
    let runs: Vec<_> = (0..2).map(|_| caller.open("echo.Echo/Limited", b"60000")).collect();
    eventually("both run", || echo.seen.running.load(Ordering::SeqCst) == 2);
    let refused = caller.call("echo.Echo/Limited", b"1");
    let (code, text) = refused.status();
    assert!(code == 8 && text.contains("(concurrency)"), "{code} {text}");
    assert!(native.call("echo.Echo/Limited", b"1").refused);
    eventually("both are counted", || handle.stats().refused == 2);
    for stream in runs {
        caller.reset(stream);
    }
    eventually("they are given up", || handle.stats().in_flight == 0);
    assert_eq!(native.call("echo.Echo/Limited", b"1").ok(), "1");
    leave(handle, caller);
}

#[test]
fn drain_answers_every_call_that_is_not_refused() {
    let echo = Echo::default();
    let handle = serve(&echo, |server| server);
    let address = socket_addr(&handle);
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let mut caller = GrpcCaller::connect(address);
            assert_eq!(caller.call("echo.Echo/Say", b"first").status(), (0, ""));
            std::thread::spawn(move || call_until_told_to_leave(caller))
        })
        .collect();
    eventually("many are made", || echo.seen.begun.load(Ordering::SeqCst) > 1_000);
    handle.shutdown();
    let done: usize = callers.into_iter().map(|it| it.join().expect("no call fails")).sum();
    assert_eq!(echo.seen.begun.load(Ordering::SeqCst), done + 4, "each is executed once");
    wait(handle);
}

/// Keeps many calls under way until the server leaves; returns how many were answered.
fn call_until_told_to_leave(mut caller: GrpcCaller) -> usize {
    let mut streams = Vec::new();
    while caller.machine.capacity() > 0 {
        for _ in 0..caller.machine.capacity().min(20) {
            streams.push(caller.open("echo.Echo/Say", b"x"));
        }
        let last = *streams.last().expect("one at least");
        let has_come = |caller: &GrpcCaller| caller.came.contains_key(&last.id());
        while !has_come(&caller) && caller.read() {}
    }
    let mut answered = 0;
    for stream in streams {
        let came = caller.answer(stream);
        match came.reset {
            Some(code) => assert_eq!(code, ErrorCode::REFUSED_STREAM),
            None => {
                assert_eq!(came.status(), (0, ""));
                answered += 1;
            }
        }
    }
    answered
}

#[test]
fn calls_that_outlive_the_drain_are_unavailable() {
    let handle = serve(&Echo::default(), |server| server.drain_timeout(Duration::from_millis(50)));
    let mut caller = GrpcCaller::connect(socket_addr(&handle));
    let hangs = caller.open("echo.Echo/Hang", b"");
    eventually("it runs", || handle.stats().in_flight == 1);
    handle.shutdown();
    assert_eq!(
        caller.answer(hangs).status(),
        (14, "the server is shutting down and the time to finish open calls is over")
    );
    while caller.read() {}
    wait(handle);
}

#[test]
fn protocol_violation_gets_go_away_and_a_close() {
    let (handle, mut caller) = connected();
    assert_eq!(caller.call("echo.Echo/Say", b"x").status(), (0, ""));
    let mut socket = std::net::TcpStream::connect(socket_addr(&handle)).expect("it listens");
    std::io::Write::write_all(&mut socket, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").expect("sent");
    // DATA on a stream that was never opened.
    let frames = [&[0, 0, 0, 4, 0, 0, 0, 0, 0][..], &[0, 0, 0, 0, 0, 0, 0, 0, 1]].concat();
    std::io::Write::write_all(&mut socket, &frames).expect("sent");
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut socket, &mut rest).expect("closed in order");
    let text = "a frame names a stream that was never opened";
    assert!(rest.windows(text.len()).any(|part| part == text.as_bytes()), "GOAWAY says why");
    eventually("it is counted", || handle.stats().violations == 1);
    assert_eq!(caller.call("echo.Echo/Say", b"on").status(), (0, ""));
    leave(handle, caller);
}

#[test]
fn health_is_reported_and_watched() {
    let (handle, mut caller) = connected();
    let check = |service: &str| [&[0x0a, service.len() as u8][..], service.as_bytes()].concat();
    let came = caller.call("grpc.health.v1.Health/Check", &check("echo.Echo"));
    assert_eq!((came.status(), &came.messages()[0][..]), ((0, ""), &[8, 1][..]), "SERVING");
    assert_eq!(caller.call("grpc.health.v1.Health/Check", &check("no.Such")).status().0, 5);
    let listed = caller.call("grpc.health.v1.Health/List", b"");
    assert!(has(&listed.messages()[0], "echo.Echo"));
    let watch = caller.open("grpc.health.v1.Health/Watch", &check("echo.Echo"));
    let seen = |count: usize| {
        move |came: &BTreeMap<u32, Came>| {
            came.get(&watch.id()).is_some_and(|it| it.messages().len() == count)
        }
    };
    caller.until("it is told what is so", seen(1));
    handle.health().set("echo.Echo", ServingStatus::NotServing);
    caller.until("it is told the change", seen(2));
    let told: Vec<_> = caller.seen(watch).messages();
    assert_eq!(told, [&[8, 1][..], &[8, 2]]);
    caller.reset(watch);
    leave(handle, caller);
}

#[test]
fn reflection_works_for_grpc_tools() {
    let (handle, mut caller) = connected();
    for version in ["v1", "v1alpha"] {
        let method = format!("grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
        let stream = caller.open_with(&method, &[], &[], false);
        let ask = |caller: &mut GrpcCaller, field: u8, text: &str, asked: usize| {
            let request = [&[field << 3 | 2, text.len() as u8][..], text.as_bytes()].concat();
            caller.send(stream, &request, false);
            caller.until("an answer comes", |came| {
                came.get(&stream.id()).is_some_and(|it| it.messages().len() == asked)
            });
            let answer = caller.seen(stream).messages().pop().expect("an answer");
            // The response contains the request.
            assert!(has(&answer, text));
            answer
        };
        let services = ask(&mut caller, 7, "*", 1);
        assert!(has(&services, "echo.Echo") && has(&services, &method[..method.len() - 21]));
        let file = ask(&mut caller, 4, "grpc.health.v1.Health.Check", 2);
        assert!(has(&file, "HealthListResponse"), "the whole file");
        let name = "health.proto";
        let at =
            file.windows(name.len()).position(|part| part == name.as_bytes()).expect("its name");
        let start = file[..at].iter().rposition(|byte| !byte.is_ascii_graphic()).expect("a length");
        let name = String::from_utf8_lossy(&file[start + 1..at + name.len()]).into_owned();
        assert!(has(&ask(&mut caller, 3, &name, 3), "HealthListResponse"), "{name}");
        assert!(has(&ask(&mut caller, 4, "echo.Echo", 4), "echo.Echo is unknown"));
        caller.finish(stream);
        assert_eq!(caller.answer(stream).status(), (0, ""));
    }
    leave(handle, caller);
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

#[test]
fn tls_clients_agree_on_a_protocol() {
    check_tls(|server, tls| server.tls(tls));
}

#[test]
fn tls_clients_agree_on_a_protocol_if_tls_is_set_on_the_sockets() {
    check_tls(|server, tls| server.net(|net| net.tls(tls)));
}

fn check_tls(secure: impl FnOnce(Server, ServerTls) -> Server) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
    let tls = ServerTls::from_pem(made.cert.pem(), made.signing_key.serialize_pem());
    let tls = tls.expect("they belong together");
    let address = "tls://localhost:0".parse().expect("an address");
    let handle = serve_at(address, &Echo::default(), |server| secure(server, tls));
    let address = handle.addresses()[0].to_string();
    let port = address.rsplit_once(':').expect("a port").1.to_owned();
    let connect = move |alpn: &[&str]| {
        let trusting = ClientTls::new().roots_pem(made.cert.pem()).expect("a certificate");
        let client = Client::new(format!("tls://localhost:{port}")).expect("an address");
        client.tls(trusting.alpn(alpn))
    };
    let test = async move {
        for alpn in [&["h2"][..], &["other", "h2"], &[]] {
            let mut connection = connect(alpn).open().await.expect("it listens");
            let agreed = (!alpn.is_empty()).then_some(&b"h2"[..]);
            assert_eq!(connection.alpn_protocol(), agreed);
            let echo = echoed(&mut connection).await.expect("it is served");
            assert!(has(&echo, "over TLS"));
        }
        let mut native = connect(&["ringway/1"]).open().await.expect("it listens");
        assert!(echoed(&mut native).await.is_none(), "HTTP/2 is not what was agreed on");
        connect(&["http/1.1"]).open().await.expect("side doors are open");
        connect(&["spdy/3"]).attempts_max(1).open().await.expect_err("nothing to agree on");
    };
    let ended = ringway_runtime::block_on(timeout(LIMIT, test));
    ended.expect("a core").expect("no hang");
    eventually("it is counted", || handle.stats().unknown_protocols == 1);
    end(handle);
}

/// Returns the reply to a call of `Say` up to its trailers; `None` if the connection ends.
async fn echoed(connection: &mut Connection) -> Option<Vec<u8>> {
    let mut machine = machine();
    let path = Line::Once { name: b":path", value: b"/echo.Echo/Say" };
    let kind = Line::Once { name: b"content-type", value: b"application/grpc" };
    let head = [Line::Static(3), Line::Static(6), path, kind];
    let content = framed(b"over TLS");
    let request =
        NewRequest { head: &head, prefix: &[], body: Some(Body::Copy(&content)), end: true };
    machine.open(request).expect("room");
    let mut came = Vec::new();
    loop {
        let mut wire = Vec::new();
        machine.transmit(usize::MAX, &mut |out| match out {
            Outgoing::Copy(bytes) => wire.extend_from_slice(bytes),
            Outgoing::Shared(bytes) => wire.extend_from_slice(&bytes),
        });
        let _pressure = connection.write(&wire);
        let view = connection.recv().await.ok()??;
        let mut input = &view[..];
        while let Some(event) = machine.receive(&mut input, Duration::ZERO).expect("good") {
            match event {
                Event::Head { data, .. } | Event::Data { data, .. } => {
                    came.extend_from_slice(&data);
                }
                Event::Trailers { .. } => return Some(came),
                _ => {}
            }
        }
    }
}
