//! Streams that nobody reads hold back their own windows, and no credit of the connection.

use std::collections::BTreeMap;

use bytes::Bytes;
use ringway_wire::http2::{
    Body, Connection, Event, Http2Client, Http2Server, NewRequest, Role, StreamHandle,
};

use crate::support::http2::*;

const MIB: usize = 1 << 20;
/// The bytes that a stream may send without being read.
const WINDOW: usize = MIB;
/// The bytes that may be in flight on a connection. Half of them are returned at a time.
const CONNECTION_WINDOW: usize = 64 * MIB;

/// Two ends, and what one of them received from the other.
struct Pair {
    client: Http2Client,
    server: Http2Server,
    /// The streams that are not read.
    unread: Vec<u32>,
    /// The received bytes of each stream.
    came: BTreeMap<u32, usize>,
    /// Credit for each stream, and with 0 for the connection.
    granted: BTreeMap<u32, usize>,
    opened: Vec<StreamHandle>,
}

impl Pair {
    fn new() -> Self {
        let (unread, came, granted, opened) = Default::default();
        Self { client: client(), server: server(), unread, came, granted, opened }
    }

    fn open(&mut self, body: &Bytes) -> u32 {
        let body = Some(Body::Shared(body.clone()));
        let request = NewRequest { head: REQUEST, prefix: &[], body, end: true };
        self.client.open(request).expect("room").id()
    }

    fn leave_unread(&mut self, mut streams: Vec<u32>, only_last: bool) {
        let last = streams.pop().expect("one at least");
        self.unread = if only_last { vec![last] } else { streams };
    }

    /// Moves bytes both ways until nothing moves.
    fn run(&mut self) {
        while self.client.has_output() || self.server.has_output() {
            let up = output(&mut self.client, MIB);
            self.note_credit(&up);
            self.opened.extend(take(&mut self.server, &up, &self.unread, &mut self.came));
            let down = output(&mut self.server, MIB);
            self.note_credit(&down);
            take(&mut self.client, &down, &self.unread, &mut self.came);
        }
    }

    fn note_credit(&mut self, wire: &[u8]) {
        for (_, _, stream, by) in frames(wire).into_iter().filter(|frame| frame.0 == WINDOW_UPDATE)
        {
            let by = u32::from_be_bytes(by.try_into().expect("four bytes"));
            *self.granted.entry(stream).or_default() += by as usize;
        }
    }

    /// All of `body` has come of every stream that is read, and a window of the others; the credit of the
    /// connection is there again, but for what is not worth a frame yet.
    #[track_caller]
    fn check(&self, body: &Bytes) {
        for (stream, &came) in &self.came {
            let is_read = !self.unread.contains(stream);
            assert_eq!(came, if is_read { body.len() } else { WINDOW }, "stream {stream}");
        }
        let came: usize = self.came.values().sum();
        let first = CONNECTION_WINDOW - 65_535; // beyond what RFC 9113 begins with
        // Both ends have said how much they take at first; one of them has received.
        let again = self.granted[&0] - 2 * first;
        assert!(came > CONNECTION_WINDOW, "{came} bytes prove nothing");
        assert!(came - again < CONNECTION_WINDOW / 2, "{again} of {came} bytes were given back");
        for stream in &self.unread {
            assert_eq!(self.granted.get(stream), None, "credit of stream {stream}");
        }
    }
}

/// Gives an end its input, and reads all streams but those that are not read. Returns the new streams.
fn take<R: Role>(
    end: &mut Connection<R>,
    mut wire: &[u8],
    unread: &[u32],
    came: &mut BTreeMap<u32, usize>,
) -> Vec<StreamHandle> {
    let mut opened = Vec::new();
    while let Some(event) = end.receive(&mut wire, NOW).expect("well-formed") {
        let (stream, len) = match event {
            Event::Head { stream, data, .. } => {
                opened.push(stream);
                (stream, data.len())
            }
            Event::Data { stream, data, .. } => (stream, data.len()),
            _ => continue,
        };
        *came.entry(stream.id()).or_default() += len;
        if !unread.contains(&stream.id()) {
            end.taken(stream, len);
        }
    }
    opened
}

/// Of this number of requests the server reads the last, or all but the last.
#[track_caller]
fn check_requests(count: usize, last_is_unread: bool) {
    let (mut pair, body) = (Pair::new(), Bytes::from(vec![7; 12 * MIB]));
    let streams: Vec<u32> = (0..count).map(|_| pair.open(&body)).collect();
    pair.leave_unread(streams, last_is_unread);
    pair.run();
    pair.check(&body);
}

/// Of this number of replies the client reads the last, or all but the last.
#[track_caller]
fn check_replies(count: usize, last_is_unread: bool) {
    let (mut pair, body) = (Pair::new(), Bytes::from(vec![7; 12 * MIB]));
    let streams: Vec<u32> = (0..count).map(|_| pair.open(&Bytes::new())).collect();
    pair.leave_unread(streams, last_is_unread);
    pair.run();
    for stream in std::mem::take(&mut pair.opened) {
        let body = Body::Shared(body.clone());
        pair.server.respond(stream, RESPONSE, &[], body, TRAILERS).expect("open");
    }
    pair.run();
    pair.check(&body);
}

#[test]
fn one_of_ten_is_not_read() {
    check_requests(10, true);
    check_replies(10, true);
}

/// The messages exceed the window of the connection.
#[test]
fn one_of_a_hundred_is_read() {
    check_requests(100, false);
    check_replies(100, false);
}
