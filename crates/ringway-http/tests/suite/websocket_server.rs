//! WebSockets of a server, against sockets that say what they are told to.

use std::io::{ErrorKind, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::StatusCode;
use ringway_http::{
    Error, Result, Router, WebSocket, WebSocketLimits, WebSocketMessage, WebSocketUpgrade, text,
};
use ringway_wire::websocket::{Arrival, CloseCode, put_ping, put_pong};

use crate::support::{LIMIT, Page, Running, frame, read_to_end, upgrade};

async fn echo(socket: &mut WebSocket) -> Result {
    while let Some(message) = socket.recv().await? {
        socket.send(message).await?;
    }
    Ok(())
}

/// Echoes at `/echo`.
fn echoes() -> Running {
    echoes_within(WebSocketLimits::default())
}

fn echoes_within(limits: WebSocketLimits) -> Running {
    let router = Router::new().get("/", async |_| Ok(text("root")));
    Running::start(router.get("/echo", async move |request| {
        WebSocketUpgrade::new(request).limits(limits).answer(echo)
    }))
}

/// Serves `/` by `handler`, and tells how each ended.
fn told<F>(limits: WebSocketLimits, handler: F) -> (Running, Receiver<Result>)
where
    F: AsyncFn(&mut WebSocket) -> Result + Clone + Send + Sync + 'static,
{
    let (tell, told) = channel();
    let router = Router::new().get("/", async move |request| {
        let (handler, tell): (F, Sender<Result>) = (handler.clone(), tell.clone());
        WebSocketUpgrade::new(request).limits(limits).answer(async move |socket| {
            let outcome = handler(socket).await;
            tell.send(outcome.clone()).expect("the test waits");
            outcome
        })
    });
    (Running::start(router), told)
}

fn outcome(told: &Receiver<Result>) -> Result {
    told.recv_timeout(LIMIT).expect("the handler ends")
}

#[test]
fn messages_of_every_kind_and_size_come_back() {
    let server = echoes();
    let mut page = Page::open(&server, "/echo", b"");
    assert!(page.head.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
    for length in [0, 1, 125, 126, 16_383, 16_384, 65_535, 65_536, 1 << 20] {
        let message = WebSocketMessage::from("x".repeat(length));
        page.send(message.clone());
        page.expect(message);
        let message = WebSocketMessage::from(vec![7; length]);
        page.send(message.clone());
        page.expect(message);
    }
    page.close(1000, "done");
    page.expect_close(1000);
    page.expect_end();
}

#[test]
fn bytes_may_be_cut_anywhere_and_come_with_the_request() {
    let server = echoes();
    let mut sent = upgrade("/echo", "").into_bytes();
    for message in ["one", "two €", "three"] {
        sent.extend(frame(message));
    }
    for cut in 1..sent.len() {
        let mut socket = server.connect();
        socket.set_nodelay(true).expect("an option");
        socket.write_all(&sent[..cut]).expect("the front");
        socket.write_all(&sent[cut..]).expect("the rest");
        let mut page = Page::opened(socket);
        for message in ["one", "two €", "three"] {
            page.expect(message);
        }
    }
}

#[test]
fn a_connection_answers_requests_until_it_is_a_websocket() {
    let server = echoes();
    let mut socket = server.connect();
    socket.write_all(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n").expect("a request");
    assert!(crate::support::read_until(&mut socket, "root").starts_with("HTTP/1.1 200"));
    socket.write_all(upgrade("/echo", "").as_bytes()).expect("a request");
    let mut page = Page::opened(socket);
    page.send("hello");
    page.expect("hello");
}

#[track_caller]
fn assert_refused(server: &Running, head: &str, status: &str) {
    let answer = server.tell(head);
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{head:?} is told {answer:?}");
}

#[test]
fn a_wrong_handshake_is_refused() {
    let server = echoes();
    let good = upgrade("/echo", "");
    let without = |field: &str| {
        let lines = good.split_inclusive("\r\n").filter(|line| !line.starts_with(field));
        lines.collect::<String>()
    };
    assert_refused(&server, &without("sec-websocket-key"), "400");
    assert_refused(&server, &without("connection"), "400");
    assert_refused(&server, &without("upgrade"), "426");
    assert_refused(&server, &without("sec-websocket-version"), "426");
    assert_refused(&server, &good.replace(": 13", ": 12"), "426");
    assert_refused(&server, &good.replace("websocket\r\n", "h2c\r\n"), "426");
    assert_refused(&server, &good.replace("jZQ==", "jZQ"), "400");
    assert_refused(&server, &good.replace("key: dGhl", "key: dGhldGhl"), "400");
    assert_refused(&server, &upgrade("/echo", "content-length: 3\r\n"), "400");
    assert_refused(&server, &upgrade("/echo", "transfer-encoding: chunked\r\n"), "400");
    let twice = upgrade("/echo", "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n");
    assert_refused(&server, &twice, "400");
    let plain = server.tell("GET /echo HTTP/1.1\r\nhost: h\r\n\r\n");
    assert!(plain.starts_with("HTTP/1.1 426 "), "{plain}");
    assert!(plain.contains("sec-websocket-version: 13\r\n"), "{plain}");
}

#[test]
fn a_page_of_another_origin_opens_nothing_unless_it_may() {
    let router = Router::new()
        .get("/own", async |request| WebSocketUpgrade::new(request).answer(echo))
        .get("/other", async |request| {
            WebSocketUpgrade::new(request).origin("https://app.example").answer(echo)
        })
        .get("/any", async |request| WebSocketUpgrade::new(request).any_origin().answer(echo));
    let server = Running::start(router);
    for (path, origin, status) in [
        ("/own", "http://h", "101"),
        ("/own", "https://H", "101"),
        ("/own", "http://h:81", "403"),
        ("/own", "http://evil.example", "403"),
        ("/own", "null", "403"),
        ("/own", "https://app.example", "403"),
        ("/other", "https://app.example", "101"),
        ("/other", "http://app.example", "403"),
        ("/any", "http://evil.example", "101"),
    ] {
        assert_refused(&server, &upgrade(path, &format!("origin: {origin}\r\n")), status);
    }
    // A proxy has changed the host, and the browser knows which one it has asked.
    for (site, status) in [("same-origin", "101"), ("same-site", "403"), ("cross-site", "403")] {
        let fields = format!("origin: https://shop.example\r\nsec-fetch-site: {site}\r\n");
        assert_refused(&server, &upgrade("/own", &fields), status);
    }
    let told = server.tell(upgrade("/own", "origin: https://shop.example\r\n"));
    assert!(told.contains("https://shop.example, and the request is for h."), "{told}");
}

#[test]
fn the_first_protocol_that_both_know_is_agreed_on() {
    let router = Router::new().get("/", async |request| {
        WebSocketUpgrade::new(request).protocols(["b", "a"]).answer(async |socket| {
            let protocol = socket.protocol().unwrap_or("none").to_owned();
            socket.send(protocol).await
        })
    });
    let server = Running::start(router);
    for (offer, agreed) in [("a, b, c", "b"), ("c,a", "a"), ("c", "none")] {
        let mut socket = server.connect();
        let head = upgrade("/", &format!("sec-websocket-protocol: {offer}\r\n"));
        socket.write_all(head.as_bytes()).expect("a request");
        let mut page = Page::opened(socket);
        assert_eq!(
            page.head.contains(&format!("sec-websocket-protocol: {agreed}\r\n")),
            agreed != "none"
        );
        page.expect(agreed);
        page.expect_close(1000);
    }
}

#[test]
fn bad_frames_are_told_why_and_cost_the_connection() {
    let mut limits = WebSocketLimits::default();
    limits.message_bytes_max = 1000;
    let server = echoes_within(limits);
    let unmasked = b"\x81\x02hi".to_vec();
    let long = frame(vec![0; 1001]);
    let endless =
        [&[0x02, 0x81, 0, 0, 0, 0, 1][..], &[0, 0x81, 0, 0, 0, 0, 1].repeat(1000)].concat();
    for (bad, code) in [
        (unmasked, 1002),
        (b"\xC1\x80\0\0\0\0".to_vec(), 1002),
        (b"\x83\x80\0\0\0\0".to_vec(), 1002),
        (b"\x89\xFE".to_vec(), 1002),
        (b"\x80\x80\0\0\0\0".to_vec(), 1002),
        (b"\x88\x82\0\0\0\0\x03\xED".to_vec(), 1002),
        (b"\x81\x81\0\0\0\0\xFF".to_vec(), 1007),
        (b"\x82\xFF\0\0\0\x01\0\0\0\0\0\0\0\0".to_vec(), 1009),
        (long, 1009),
        (endless, 1009),
    ] {
        // What follows is read and ignored: it does not turn the Close frame into a reset.
        let mut page = Page::open(&server, "/echo", &[frame("good"), bad].concat());
        page.expect("good");
        let _refused = page.socket.write_all(&[0; 10_000]);
        assert_ne!(page.expect_close(code), "");
        page.expect_end();
    }
}

#[test]
fn pings_are_answered_in_the_middle_of_a_message() {
    let server = echoes();
    let mut page = Page::open(&server, "/echo", b"");
    let mut sent = vec![0x01, 0x81, 0, 0, 0, 0, b'a'];
    put_ping(b"are you there", Some([1; 4]), &mut sent);
    put_pong(b"nobody asked", Some([1; 4]), &mut sent);
    sent.extend([0x80, 0x81, 0, 0, 0, 0, b'b']);
    page.write(&sent);
    assert_eq!(page.next(), Some(Arrival::Pong(b"are you there".into())));
    page.expect("ab");
}

/// Writes until the server takes no more, and returns how much that was.
fn fill(page: &mut Page, bytes: &[u8], max: usize) -> usize {
    page.socket.set_write_timeout(Some(Duration::from_millis(300))).expect("an option");
    let mut written = 0;
    while written < max {
        match page.socket.write(&bytes[written % bytes.len()..]) {
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return written,
            Err(error) => panic!("{error} after {written} bytes"),
        }
    }
    panic!("the server takes {max} bytes from a peer that does not read");
}

#[test]
fn a_peer_that_does_not_read_is_not_read_and_loses_nothing() {
    let server = echoes();
    let mut page = Page::open(&server, "/echo", b"");
    let message = WebSocketMessage::from(vec![3; 100_000]);
    let bytes = frame(message.clone());
    let written = fill(&mut page, &bytes, 256 << 20);
    for _ in 0..written / bytes.len() {
        page.expect(message.clone());
    }
}

#[test]
fn pongs_that_nobody_reads_do_not_gather() {
    let (server, ends) = told(WebSocketLimits::default(), async |socket| {
        while socket.recv().await?.is_some() {}
        assert!(socket.connection().queued_bytes() <= 128 << 10, "pongs have gathered");
        Ok(())
    });
    let mut page = Page::open(&server, "/", b"");
    let mut pings = Vec::new();
    for _ in 0..1000 {
        put_ping(&[5; 125], Some([2; 4]), &mut pings);
    }
    for _ in 0..400 {
        page.write(&pings); // 50 MB of pongs, which neither socket has room for
    }
    page.close(1000, "");
    assert_eq!(outcome(&ends), Ok(()));
}

#[test]
fn a_peer_that_vanishes_is_told_to_the_handler() {
    let (server, ends) = told(WebSocketLimits::default(), async |socket| {
        while socket.recv().await?.is_some() {}
        Ok(())
    });
    drop(Page::open(&server, "/", b""));
    assert_eq!(
        outcome(&ends).expect_err("no Close frame").status(),
        StatusCode::SERVICE_UNAVAILABLE
    );
    let page = Page::open(&server, "/", b"\x81\x85\0\0\0\0ha");
    drop(page);
    assert_eq!(outcome(&ends).expect_err("half a frame").status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[test]
fn a_silent_peer_is_pinged_and_given_up() {
    let mut limits = WebSocketLimits::default();
    (limits.ping_after, limits.pong_wait) =
        (Some(Duration::from_millis(20)), Duration::from_millis(20));
    let (server, ends) = told(limits, async |socket| socket.recv().await.map(drop));
    let mut page = Page::open(&server, "/", b"");
    assert_eq!(page.next(), Some(Arrival::Ping(Vec::new())));
    page.expect_end();
    assert_eq!(outcome(&ends).expect_err("no pong").status(), StatusCode::GATEWAY_TIMEOUT);
}

#[test]
fn a_peer_that_answers_pings_may_be_silent() {
    let mut limits = WebSocketLimits::default();
    (limits.ping_after, limits.pong_wait) = (Some(Duration::from_millis(5)), LIMIT);
    let server = echoes_within(limits);
    let mut page = Page::open(&server, "/echo", b"");
    for _ in 0..5 {
        assert_eq!(page.next(), Some(Arrival::Ping(Vec::new())));
        let mut pong = Vec::new();
        put_pong(&[], Some([0; 4]), &mut pong);
        page.write(&pong);
    }
}

#[test]
fn either_end_closes_with_a_code_and_a_reason() {
    let (server, ends) =
        told(WebSocketLimits::default(), async |socket| match socket.recv().await? {
            Some(_) => socket.close(4000.into(), "enough").await,
            None => {
                let closing = socket.closing().expect("the peer has closed it");
                assert_eq!((closing.code, &*closing.reason), (CloseCode::from(3001), "bye"));
                socket.send("late").await
            }
        });
    let mut page = Page::open(&server, "/", &frame("close"));
    assert_eq!(page.expect_close(4000), "enough");
    page.close(4000, "");
    page.expect_end();
    assert_eq!(outcome(&ends), Ok(()));

    let mut page = Page::open(&server, "/", b"");
    page.close(3001, "bye");
    page.expect_close(3001);
    page.expect_end();
    let late = outcome(&ends).expect_err("nothing is sent behind a Close frame");
    assert_eq!(late.status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[test]
fn a_handler_that_fails_or_panics_is_told_to_its_peer_alone() {
    let router = Router::new()
        .get("/fails", async |request| {
            WebSocketUpgrade::new(request)
                .answer(async |_| Err(Error::internal("no more messages today")))
        })
        .get("/panics", async |request| {
            WebSocketUpgrade::new(request).answer(async |_| panic!("on purpose"))
        })
        .get("/echo", async |request| WebSocketUpgrade::new(request).answer(echo));
    let server = Running::start(router);
    let mut other = Page::open(&server, "/echo", b"");
    assert_eq!(Page::open(&server, "/fails", b"").expect_close(1011), "no more messages today");
    assert_eq!(Page::open(&server, "/panics", b"").expect_close(1011), "the handler has failed");
    other.send("still here");
    other.expect("still here");
}

#[test]
fn a_drain_ends_receiving_and_what_runs_is_answered() {
    let (began, has_begun) = channel();
    let (go_on, may_go_on) = channel::<()>();
    let gate = Arc::new(Mutex::new(Some((began, may_go_on))));
    let router = Router::new()
        .get("/echo", async |request| WebSocketUpgrade::new(request).answer(echo))
        .get("/slow", async move |request| {
            let (began, may_go_on) = gate.lock().expect("no panic").take().expect("one request");
            WebSocketUpgrade::new(request).answer(async move |socket| {
                let message = socket.recv().await?.expect("a message");
                began.send(()).expect("the test waits");
                assert_eq!(socket.recv().await?, None, "the server drains");
                let waited = ringway_runtime::spawn_blocking(move || may_go_on.recv());
                let _told = waited.expect("a thread").await;
                socket.send(message).await
            })
        });
    let server = Running::start(router);
    let (mut idle, mut busy) =
        (Page::open(&server, "/echo", b""), Page::open(&server, "/slow", &frame("work")));
    idle.send("here");
    idle.expect("here");
    has_begun.recv_timeout(LIMIT).expect("the handler begins");
    server.handle().shutdown();
    idle.expect_close(1001);
    idle.close(1001, "");
    idle.expect_end();
    go_on.send(()).expect("the handler waits");
    busy.expect("work");
    busy.expect_close(1001);
    busy.close(1001, "");
    busy.expect_end();
}

#[test]
fn other_tasks_send_while_one_receives() {
    let (server, ends) = told(WebSocketLimits::default(), async |socket| {
        let (sender, mut left) = (socket.sender(), None);
        while let Some(message) = socket.recv().await? {
            let sender = sender.clone();
            left = Some(sender.clone());
            ringway_runtime::spawn(async move {
                ringway_runtime::yield_now().await;
                sender.send(message).await
            });
        }
        let left = left.expect("messages came");
        assert!(left.is_closed() && left.send("late").await.is_err());
        Ok(())
    });
    let mut page = Page::open(&server, "/", b"");
    for n in 0..10 {
        page.send(format!("message {n}"));
    }
    for n in 0..10 {
        page.expect(format!("message {n}"));
    }
    page.close(1000, "");
    page.expect_close(1000);
    assert_eq!(outcome(&ends), Ok(()));
}

/// A server that closes waits for the answer, but not for ever; what comes meanwhile is dropped.
#[test]
fn messages_behind_our_close_frame_are_dropped() {
    let (server, ends) = told(WebSocketLimits::default(), async |_| Ok(()));
    let mut page = Page::open(&server, "/", b"");
    page.expect_close(1000);
    for _ in 0..100 {
        page.send(vec![1; 10_000]);
    }
    page.close(1000, "");
    page.expect_end();
    assert_eq!(outcome(&ends), Ok(()));
    let answer = read_to_end(&mut page.socket);
    assert_eq!(answer, "");
}
