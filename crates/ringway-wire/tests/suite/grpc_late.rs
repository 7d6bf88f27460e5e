//! Which requests over HTTP/2 are late, and which are only not read.

use std::sync::Arc;
use std::time::Duration;

use ringway_wire::grpc::{GrpcServer, RequestNames, ServerConfig};
use ringway_wire::http2::{Http2Config, Violation, Vocabulary};
use ringway_wire::native::{Body, Reply, ServerEvent};

use crate::support::grpc::{MESSAGE_MAX, Pair, echo, message};
use crate::support::http2::{HEADERS, NOW, PREFACE, SETTINGS, WINDOW_UPDATE, frame};

/// Time without progress after which a request of a client without a timeout ends.
const STALL: Duration = Duration::from_secs(300);
/// Time for the rest of a field block.
const BLOCK: Duration = Duration::from_secs(10);

fn at(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A server that does not probe its clients.
fn server() -> GrpcServer {
    let names = RequestNames::new([("/a.B/C", 1)]);
    let http2 = Http2Config { ping_after: at(1_000_000), ..Http2Config::default() };
    let config = ServerConfig { http2: http2.into(), max_message: MESSAGE_MAX };
    GrpcServer::new(config, Arc::new(Vocabulary::new(names)), NOW)
}

#[test]
fn a_request_is_not_late_while_its_server_does_not_read() {
    let mut pair = Pair::new(echo);
    pair.server = server();
    let call = pair.call(&[], &message(b"x"), false);
    pair.run();
    pair.server.note_reading(false, at(20));
    for secs in (30..=2_000).step_by(10) {
        pair.server.note_reading(false, at(secs));
        pair.server.handle_timeout(at(secs)).expect("the connection is sound");
        let due = pair.server.poll_timeout().expect("it is watched");
        assert!(due > at(secs), "no look after the other without a pause");
    }
    pair.server.note_reading(true, at(2_000));
    pair.server.handle_timeout(at(2_000)).expect("the connection is sound");
    pair.now = at(2_010);
    pair.more(call, b"", true);
    pair.run();
    assert_eq!(pair.status(call), "0");
    assert_eq!(pair.server.unserved().overdue, 0);
}

#[test]
fn a_request_is_late_by_the_time_in_which_its_server_has_read() {
    let mut pair = Pair::new(echo);
    pair.server = server();
    let call = pair.call(&[], &message(b"x"), false);
    pair.run();
    for secs in 1..STALL.as_secs() {
        pair.server.note_reading(secs % 2 == 0, at(secs));
        pair.server.handle_timeout(at(secs)).expect("the connection is sound");
    }
    pair.server.note_reading(true, STALL);
    let late = STALL + STALL / 2;
    pair.server.handle_timeout(late - at(1)).expect("the connection is sound");
    assert_eq!(pair.server.in_flight(), 1);
    pair.server.handle_timeout(late).expect("the connection is sound");
    pair.run();
    assert_eq!(pair.status(call), "4 the request did not arrive completely in time");
    assert_eq!((pair.server.unserved().overdue, pair.server.in_flight()), (1, 0));
}

#[test]
fn a_field_block_is_late_by_the_time_in_which_its_server_has_read() {
    let mut server = server();
    let ack = frame(SETTINGS, 1, 0, &[]);
    let block = frame(HEADERS, 0, 1, &[]);
    let said = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &ack, &block].concat();
    assert!(server.receive(&mut &said[..], at(0)).expect("sound").is_none());
    assert_eq!(server.poll_timeout(), Some(BLOCK));
    server.note_reading(false, at(4));
    server.handle_timeout(at(100)).expect("the rest may be there, and is not read");
    assert_eq!(server.poll_timeout(), Some(at(1_000_000)));
    server.note_reading(true, at(200));
    assert_eq!(server.poll_timeout(), Some(at(206)));
    server.handle_timeout(at(205)).expect("it has some time left");
    assert_eq!(server.handle_timeout(at(206)), Err(Violation::BlockTimeout));
}

#[test]
fn a_probe_that_was_sent_unread_has_its_time_from_when_its_answer_could_be_read() {
    let config = ServerConfig { http2: Http2Config::default().into(), max_message: MESSAGE_MAX };
    let (after, answer) = (Http2Config::default().ping_after, Http2Config::default().ping_timeout);
    let names = RequestNames::new([("/a.B/C", 1)]);
    let mut server = GrpcServer::new(config, Arc::new(Vocabulary::new(names)), NOW);
    let ack = frame(SETTINGS, 1, 0, &[]);
    let said = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &ack].concat();
    assert!(server.receive(&mut &said[..], at(0)).expect("sound").is_none());
    server.note_reading(false, at(10));
    server.handle_timeout(after).expect("it probes");
    let read = after + at(1_000);
    server.note_reading(true, read);
    server.handle_timeout(read + answer - at(1)).expect("the answer has some time left");
    assert_eq!(server.handle_timeout(read + answer), Err(Violation::Silent));
}

#[test]
fn a_request_that_is_whole_only_after_its_deadline_is_late() {
    let mut pair = Pair::new(echo);
    let late = pair.call(&[("grpc-timeout", "2S")], &message(b"x"), false);
    let early = pair.call(&[("grpc-timeout", "2S")], &message(b"x"), false);
    pair.run();
    pair.now = at(2) - Duration::from_nanos(1);
    pair.more(early, b"", true);
    pair.run();
    pair.now = at(2); // before anybody looks at the time
    pair.more(late, b"", true);
    pair.run();
    assert_eq!(pair.status(late), "4 the request did not arrive completely in time");
    assert_eq!((pair.status(early).as_str(), pair.server.unserved().overdue), ("0", 1));
}

/// For two hours, so many bytes of a request come every 299 seconds. Whether it is late.
fn trickles(bytes: usize) -> bool {
    let mut pair = Pair::new(echo);
    pair.server = server();
    let call = pair.call(&[], &message(&[7; 200_000])[..1_000], false);
    pair.run();
    for round in 1..25 {
        pair.now = at(299 * round);
        pair.server.handle_timeout(pair.now).expect("the connection is sound");
        pair.run();
        let _gone = pair.client.send(call, &[], Body::Copy(&vec![7; bytes]), false);
        pair.run();
    }
    pair.server.unserved().overdue > 0
}

#[test]
fn a_request_that_comes_byte_by_byte_is_late() {
    assert_eq!([1, 1_000, 4_096].map(trickles), [true, true, false]);
}

/// For two hours, a client lets so many bytes of a reply pass every 299 seconds. Whether the reply is given up.
fn is_taken_by(bytes: u32) -> bool {
    let mut pair = Pair::new(|server, event| {
        if let ServerEvent::Request { stream, .. } = event {
            let message = Some(Body::Shared(vec![7; 3 << 20].into()));
            server.respond(*stream, Reply { status: 0, meta: &[], message });
        }
    });
    pair.server = server();
    pair.reads = false;
    let call = pair.call(&[], &message(b"x"), true);
    pair.run();
    for round in 1..25 {
        pair.now = at(299 * round);
        pair.server.handle_timeout(pair.now).expect("the connection is sound");
        pair.receive(&frame(WINDOW_UPDATE, 0, call.id(), &bytes.to_be_bytes()))
            .expect("a good frame");
        // The client of these tests would not take more than it has granted.
        pair.server.transmit(usize::MAX, &mut |_| {});
    }
    pair.server.unserved().stalled > 0
}

#[test]
fn a_reply_that_is_taken_byte_by_byte_is_given_up() {
    assert_eq!([1, 1_000, 4_096].map(is_taken_by), [true, true, false]);
}
