//! Requests over HTTP in the account of their core: what is read of a body counts as unread, and whoever
//! keeps the most gives way.

use std::rc::Rc;
use std::time::Duration;

use ringway_runtime::io::Stream;
use ringway_runtime::{JoinHandle, sleep, timeout, uptime};
use ringway_wire::native::Side;

use super::left_over::{Plain, run};
use super::{SimServer, accept, listen};
use crate::server::settings::Settings;
use crate::server::stats::ServerStats;

/// Virtual time in which whatever is waited for has happened; less than an idle connection is kept.
const LIMIT: Duration = Duration::from_secs(10);

/// As long as the next piece of a body may take.
const BODY_STALL: Duration = Duration::from_secs(30);

/// A client of HTTP by hand.
struct HttpPeer {
    stream: Stream,
    server: Rc<SimServer>,
    serving: JoinHandle<()>,
}

impl HttpPeer {
    async fn of(server: &Rc<SimServer>) -> Self {
        let (listener, address) = listen();
        let serving = server.serve(address);
        let stream = accept(&listener).await;
        Self { stream, server: Rc::clone(server), serving }
    }

    /// Sends the head of a request whose body has `length` bytes, and as many of them as there are in `part`.
    fn post(&self, method: &str, length: usize, part: &[u8]) {
        self.post_as("octet-stream", method, length, part);
    }

    fn post_as(&self, kind: &str, method: &str, length: usize, part: &[u8]) {
        let kind = format!("content-type: application/{kind}");
        let head = format!(
            "POST /left.Over/{method} HTTP/1.1\r\nhost: here\r\n{kind}\r\ncontent-length: {length}\r\n\r\n"
        );
        let _pressure = self.stream.write(head.as_bytes());
        let _pressure = self.stream.write(part);
    }

    fn stats(&self) -> ServerStats {
        self.server.shared.stats()
    }

    async fn until(&self, what: &str, is_so: impl Fn(&ServerStats) -> bool) {
        let so = timeout(LIMIT, async {
            while !is_so(&self.stats()) {
                sleep(Duration::from_millis(1)).await;
            }
        });
        so.await.unwrap_or_else(|_| panic!("not in time: {what}: {:?}", self.stats()));
    }

    /// All that comes until `end` has come, or until the connection ends.
    async fn heard(&self, end: &str) -> String {
        let mut heard = String::new();
        let whole = timeout(LIMIT, async {
            while !heard.contains(end) {
                let Ok(Some(view)) = self.stream.recv().await else { break };
                heard += &String::from_utf8_lossy(&view);
            }
        });
        whole.await.expect("in time");
        heard
    }

    /// The server has closed the connection, and nothing of it is left.
    async fn closed(self) {
        self.heard("there is no such end").await;
        timeout(LIMIT, self.serving).await.expect("it ends").expect("no panic");
    }
}

#[test]
fn what_has_come_of_a_body_counts_as_unread() {
    run(async || {
        let server = SimServer::new(Settings::default(), Plain);
        for leaves in [false, true] {
            let peer = HttpPeer::of(&server).await;
            peer.post("Say", 100_000, &[b'x'; 60_000]);
            peer.until("it is counted", |stats| stats.unread_bytes == 60_000).await;
            let _pressure = peer.stream.write(&[b'x'; 30_000]);
            peer.until("it is counted", |stats| stats.unread_bytes == 90_000).await;
            if leaves {
                drop(peer.stream);
                timeout(LIMIT, peer.serving).await.expect("it ends").expect("no panic");
                assert_eq!(server.shared.stats().unread_bytes, 0);
                continue;
            }
            let _pressure = peer.stream.write(&[b'x'; 10_000]);
            assert!(peer.heard("xxx").await.starts_with("HTTP/1.1 200 "));
            peer.until("nothing is kept", |stats| stats.unread_bytes == 0).await;
        }
    });
}

#[test]
fn the_largest_body_is_given_up_when_memory_is_short() {
    run(async || {
        let settings = Settings { unread_bytes_max: 100_000, ..Settings::default() };
        let server = SimServer::new(settings, Plain);
        let (small, large) = (HttpPeer::of(&server).await, HttpPeer::of(&server).await);
        small.post("Say", 30_000, &[b's'; 29_000]);
        small.until("it is counted", |stats| stats.unread_bytes == 29_000).await;
        large.post("Say", 90_000, &[b'l'; 80_000]);
        let refused = large.heard("memory").await;
        assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
        large.closed().await;
        small.until("the other is left", |stats| stats.unread_bytes == 29_000).await;
        let _pressure = small.stream.write(&[b's'; 1_000]);
        assert!(small.heard("sss").await.starts_with("HTTP/1.1 200 "));
        assert_eq!(small.stats().exhausted, 1);
    });
}

#[test]
fn an_upload_that_is_given_up_when_memory_is_short_was_not_malformed() {
    run(async || {
        let settings = Settings { unread_bytes_max: 100_000, ..Settings::default() };
        let server = SimServer::new(settings, Plain);
        let peer = HttpPeer::of(&server).await;
        let message = [&[0, 0, 3, 0, 0][..], &[b'm'; 150_000]].concat();
        peer.post_as("connect+octet-stream", "Collect", 200_000, &message);
        let answer = peer.heard("memory").await;
        assert!(answer.contains("unavailable"), "{answer}");
        let stats = peer.stats();
        assert_eq!((stats.exhausted, stats.malformed), (1, 0), "{stats:?}");
        peer.closed().await;
    });
}

#[test]
fn a_connection_that_is_given_up_ends_with_its_call() {
    run(async || {
        let server = SimServer::new(Settings::default(), Plain);
        let peer = HttpPeer::of(&server).await;
        peer.post("Wait", 1, b"w");
        peer.until("it runs", |stats| stats.in_flight == 1).await;
        let core = server.core().expect("it serves");
        core.connections().all().iter().for_each(|connection| connection.end());
        let answer = peer.heard("unavailable").await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        peer.until("its handler is dropped", |stats| stats.in_flight == 0).await;
        peer.closed().await;
    });
}

#[test]
fn a_call_that_waits_when_the_time_to_drain_is_over_was_not_cut_off() {
    run(async || {
        let drain_timeout = Duration::from_millis(50); // less than calls wait in a queue
        let server = SimServer::new(Settings { drain_timeout, ..Settings::default() }, Plain);
        let (runs, waits) = (HttpPeer::of(&server).await, HttpPeer::of(&server).await);
        runs.post("Wait", 1, b"w");
        runs.until("it runs", |stats| stats.in_flight == 1).await;
        waits.post("Wait", 1, b"w");
        waits.until("it waits", |stats| stats.in_flight == 2).await;
        server.core().expect("it serves").drain();
        let answer = runs.heard("}").await;
        assert!(answer.contains("unavailable") && answer.contains("was done"), "{answer}");
        let answer = waits.heard("}").await;
        assert!(answer.contains("unavailable") && answer.contains("could begin"), "{answer}");
        let stats = server.shared.stats();
        assert_eq!((stats.cut_off, stats.refused), (1, 1), "{stats:?}");
    });
}

#[test]
fn a_connection_of_age_is_closed_behind_its_next_answer() {
    run(async || {
        let connection_age_max = Some(Duration::from_secs(10));
        let server = SimServer::new(Settings { connection_age_max, ..Settings::default() }, Plain);
        let peer = HttpPeer::of(&server).await;
        for (age, is_told) in [(0, false), (5, false), (12, true)] {
            sleep(Duration::from_secs(age).saturating_sub(uptime())).await;
            peer.post("Say", 3, b"hi!");
            let answer = peer.heard("hi!").await;
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
            assert_eq!(answer.contains("connection: close"), is_told, "at {age} s: {answer}");
        }
        peer.closed().await;
    });
}

#[test]
fn a_connection_of_age_may_become_a_web_socket() {
    run(async || {
        let connection_age_max = Some(Duration::from_secs(10));
        let server = SimServer::new(Settings { connection_age_max, ..Settings::default() }, Plain);
        let peer = HttpPeer::of(&server).await;
        peer.post("Say", 3, b"hi!");
        assert!(peer.heard("hi!").await.starts_with("HTTP/1.1 200 "));
        sleep(Duration::from_secs(12).saturating_sub(uptime())).await;
        let handshake =
            b"GET /rpc HTTP/1.1\r\nhost: here\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
            sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        let _pressure = peer.stream.write(handshake);
        let answer = peer.heard("\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
        assert!(answer.contains("connection: upgrade\r\n"), "{answer}");
        drop(peer.stream);
        timeout(LIMIT, peer.serving).await.expect("it ends").expect("no panic");
    });
}

#[test]
fn a_call_over_http_that_outlives_the_age_of_its_connection_has_its_grace() {
    run(async || {
        let settings = Settings {
            connection_age_max: Some(Duration::from_secs(10)),
            connection_age_grace: Duration::from_secs(5),
            ..Settings::default()
        };
        let server = SimServer::new(settings, Plain);
        let peer = HttpPeer::of(&server).await;
        peer.post("Wait", 1, b"w");
        sleep(Duration::from_secs(13)).await;
        assert_eq!(peer.stats().in_flight, 1);
        let answer = peer.heard("its age").await;
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("unavailable"), "{answer}");
        assert!(answer.contains("connection: close"), "{answer}");
        peer.closed().await;
    });
}

#[test]
fn the_largest_reply_that_nobody_takes_is_given_up_when_memory_is_short() {
    run(async || {
        // Four times as much may be kept of replies.
        let settings = Settings { unread_bytes_max: 1_000_000, ..Settings::default() };
        let server = SimServer::new(settings, Plain);
        let mut silent = Vec::new();
        for _ in 0..8 {
            let peer = HttpPeer::of(&server).await;
            peer.post("Say", 900_000, &vec![b'x'; 900_000]);
            let begun = timeout(LIMIT, peer.stream.recv()).await.expect("in time");
            assert!(begun.expect("a reply").expect("a reply").starts_with(b"HTTP/1.1 200 "));
            silent.push(peer);
        }
        let peer = HttpPeer::of(&server).await;
        peer.until("some are ended", |stats| stats.exhausted > 0).await;
        peer.post("Say", 3, b"hi!");
        assert!(peer.heard("hi!").await.starts_with("HTTP/1.1 200 "));
        let mut whole = 0;
        for HttpPeer { stream, serving, .. } in silent {
            let mut heard = 0;
            while heard < 800_000
                && let Ok(Some(view)) = timeout(LIMIT, stream.recv()).await.expect("in time")
            {
                heard += view.len();
            }
            whole += usize::from(heard >= 800_000);
            drop(stream);
            timeout(LIMIT, serving).await.expect("it ends").expect("no panic");
        }
        drop(peer.stream);
        timeout(LIMIT, peer.serving).await.expect("it ends").expect("no panic");
        assert!((3..8).contains(&whole), "{whole} replies came whole");
        let kept = server.core().expect("it serves").budget().of(Side::Unsent).kept.get();
        assert_eq!(kept, 0);
    });
}

#[test]
fn a_size_of_a_chunk_that_never_ends_is_given_up() {
    run(async || {
        let server = SimServer::new(Settings::default(), Plain);
        let head = "POST /left.Over/Say HTTP/1.1\r\nhost: here\r\n\
                    content-type: application/octet-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        for (size, again) in [("", "0"), ("1\r\nx\r\n", "0"), ("1", " ")] {
            let peer = HttpPeer::of(&server).await;
            let _pressure = peer.stream.write(format!("{head}{size}").as_bytes());
            let began = uptime();
            let answer = loop {
                let _pressure = peer.stream.write(again.as_bytes());
                match timeout(Duration::from_secs(1), peer.stream.recv()).await {
                    Ok(Ok(Some(view))) => break String::from_utf8_lossy(&view).into_owned(),
                    Ok(ended) => panic!("{again:?} is not answered: {ended:?}"),
                    Err(_elapsed) => assert!(uptime() - began < 2 * BODY_STALL, "{again:?}"),
                }
            };
            assert!(answer.starts_with("HTTP/1.1 504 "), "{again:?} is told {answer}");
        }
        for size in ["-000000000000", "+1", "0x1", "10000000000000000"] {
            let peer = HttpPeer::of(&server).await;
            let _pressure = peer.stream.write(format!("{head}{size}").as_bytes());
            let answer = peer.heard("\r\n").await;
            assert!(answer.starts_with("HTTP/1.1 400 "), "{size} is told {answer}");
        }
    });
}

/// The method takes bytes as they are, so a message in JSON is refused by whoever looks at it.
#[test]
fn a_message_is_translated_for_calls_that_are_admitted_alone() {
    run(async || {
        let server = SimServer::new(Settings { in_flight_max: 1, ..Settings::default() }, Plain);
        let json = |path: &str| {
            let kind = "content-type: application/json";
            format!("POST {path} HTTP/1.1\r\nhost: here\r\n{kind}\r\ncontent-length: 4\r\n\r\ntrue")
        };
        let said = json("/left.Over/Say");
        let told = async |said: &str| {
            let peer = HttpPeer::of(&server).await;
            let _pressure = peer.stream.write(said.as_bytes());
            peer.heard("}").await
        };
        let answer = told(&said).await;
        assert!(answer.contains("unimplemented"), "{answer}");
        let busy = HttpPeer::of(&server).await;
        busy.post("Wait", 1, b"w");
        busy.until("it runs", |stats| stats.in_flight == 1).await;
        let answer = told(&said).await;
        assert!(answer.contains("resource_exhausted"), "{answer}");
    });
}
