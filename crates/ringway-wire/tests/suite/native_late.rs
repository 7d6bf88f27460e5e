//! Which requests and replies are late, and which are only not read, or were answered late.

use std::time::Duration;

use ringway_wire::native::{Body, Config, HEADER_LEN, Header, Open, Reply, ServerEvent, StreamId};

use crate::support::pair::{Cut, Pair, drain, idle};

/// Longer than the longest frame and than the least credit.
const LONG: usize = 300_000;
/// Time without progress after which a call of a client without a timeout ends.
const STALL: Duration = Duration::from_secs(300);

fn at(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A client and a server after the greeting, which do not probe each other.
fn greeted() -> Pair {
    let config = || Config { ping_after: at(1_000_000), ..Config::default() };
    let mut pair = Pair::with(Cut::Nowhere, config(), config());
    pair.settle(&mut idle);
    pair
}

/// Opens a call whose request is long, and hands over its bytes.
fn long_request(pair: &mut Pair, timeout: Option<Duration>) -> (StreamId, Vec<u8>) {
    let message = Some(Body::Copy(&[7; LONG]));
    let call = Open { message, end: true, timeout, ..Open::default() };
    let call = pair.client.open(call).expect("room");
    (call, drain(|out| pair.client.transmit(usize::MAX, out)))
}

/// The first frame, and the others.
fn cut(bytes: &[u8]) -> (&[u8], &[u8]) {
    let header = bytes.first_chunk().expect("a header");
    let header = Header::decode(header).expect("a good one");
    bytes.split_at(HEADER_LEN + header.len as usize)
}

/// Whether the server has got the whole of the request with these bytes.
fn is_whole(pair: &mut Pair, mut bytes: &[u8], now: Duration) -> bool {
    let event = pair.server.receive(&mut bytes, now).expect("sound");
    matches!(event, Some(ServerEvent::Request { end: true, .. }))
}

#[test]
fn a_reply_has_its_time_however_long_its_handler_took() {
    for (timeout, took) in [(None, at(1_000)), (Some(at(10)), at(9))] {
        let mut pair = greeted();
        let (call, bytes) = long_request(&mut pair, timeout);
        assert!(is_whole(&mut pair, &bytes, at(0)));
        let message = Some(Body::Copy(&[7; LONG]));
        pair.server.respond(call, Reply { status: 0, meta: &[], message });
        // The connection's task looks at the time before it sends.
        pair.now = took + at(5);
        pair.server.handle_timeout(pair.now).expect("nothing is due");
        pair.settle(&mut idle);
        let (status, message) = pair.response(call).expect("an answer");
        assert_eq!((status, message.map(<[u8]>::len)), (0, Some(LONG)), "within {timeout:?}");
        assert_eq!(pair.server.unserved().stalled, 0);
    }
}

#[test]
fn a_reply_that_is_not_taken_is_late_from_when_it_was_given() {
    let mut pair = greeted();
    let (call, bytes) = long_request(&mut pair, None);
    assert!(is_whole(&mut pair, &bytes, at(0)));
    let message = Some(Body::Copy(&[7; LONG]));
    pair.server.respond(call, Reply { status: 0, meta: &[], message });
    assert!(pair.server.poll_timeout() <= Some(at(1_000)), "it asks for the time");
    pair.server.handle_timeout(at(1_000)).expect("nothing is due");
    assert_eq!(pair.server.poll_timeout(), Some(at(1_000) + STALL));
    pair.server.handle_timeout(at(1_000) + STALL).expect("the connection is sound");
    assert_eq!((pair.server.unserved().stalled, pair.server.in_flight()), (1, 0));
}

#[test]
fn a_request_is_not_late_while_its_server_does_not_read() {
    let mut pair = greeted();
    let (_, bytes) = long_request(&mut pair, None);
    let (front, rest) = cut(&bytes);
    assert!(!is_whole(&mut pair, front, at(10)));
    assert_eq!(pair.server.in_flight(), 1);
    pair.server.note_reading(false, at(20));
    // Whatever it handles meanwhile, and however often it says so.
    for secs in (30..=2_000).step_by(10) {
        pair.server.note_reading(false, at(secs));
        pair.server.handle_timeout(at(secs)).expect("the connection is sound");
        let due = pair.server.poll_timeout().expect("it is watched");
        assert!(due > at(secs), "no look after the other without a pause");
    }
    pair.server.note_reading(true, at(2_000));
    pair.server.handle_timeout(at(2_000)).expect("the connection is sound");
    assert!(is_whole(&mut pair, rest, at(2_010)));
    assert_eq!(pair.server.unserved().overdue, 0);
}

#[test]
fn a_request_is_late_by_the_time_in_which_its_server_has_read() {
    let mut pair = greeted();
    let (_, bytes) = long_request(&mut pair, None);
    let (front, _) = cut(&bytes);
    let came = at(10);
    assert!(!is_whole(&mut pair, front, came));
    // The server reads every second time.
    for secs in 1..STALL.as_secs() {
        pair.server.note_reading(secs % 2 == 0, came + at(secs));
        pair.server.handle_timeout(came + at(secs)).expect("the connection is sound");
    }
    pair.server.note_reading(true, came + STALL);
    let paused = STALL / 2;
    pair.server.handle_timeout(came + STALL + paused - at(1)).expect("the connection is sound");
    assert_eq!(pair.server.in_flight(), 1);
    pair.server.handle_timeout(came + STALL + paused).expect("the connection is sound");
    assert_eq!((pair.server.unserved().overdue, pair.server.in_flight()), (1, 0));
}

#[test]
fn what_a_client_has_said_and_its_server_not_read_is_no_silence() {
    let config = Config { ping_after: at(30), ..Config::default() };
    let mut pair = Pair::with(Cut::Nowhere, config.clone(), config);
    pair.settle(&mut idle);
    pair.server.handle_timeout(at(30)).expect("it probes");
    pair.settle(&mut idle);
    pair.server.handle_timeout(at(60)).expect("it probes again");
    pair.server.note_reading(false, at(65));
    pair.server.note_reading(true, at(600));
    pair.server.handle_timeout(at(600)).expect("the answer may be there, and was not read");
    pair.server.handle_timeout(at(605)).expect_err("it has not come within ten seconds");
}

#[test]
fn a_probe_that_was_sent_unread_has_its_time_from_when_its_answer_could_be_read() {
    let config = Config { ping_after: at(30), ..Config::default() };
    let mut pair = Pair::with(Cut::Nowhere, config.clone(), config);
    pair.settle(&mut idle);
    pair.server.note_reading(false, at(10));
    pair.server.handle_timeout(at(30)).expect("it probes");
    pair.server.note_reading(true, at(100));
    pair.server.handle_timeout(at(109)).expect("the answer has some time left");
    pair.server.handle_timeout(at(110)).expect_err("it has not come within ten seconds");
}
