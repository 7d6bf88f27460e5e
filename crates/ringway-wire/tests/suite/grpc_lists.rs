//! Lists that a peer makes long, and limits that it lowers: calls that follow find neither memory nor
//! places lost.

use std::collections::VecDeque;
use std::time::Duration;

use ringway_wire::grpc::{ClientConfig, GrpcClient, prefix};
use ringway_wire::native::{Body, ClientEvent, Open, OpenError, Reply};

use crate::support::allocations::ALLOCATOR;
use crate::support::alone::alone;
use crate::support::grpc::{Pair, message, nothing};
use crate::support::http2::*;

const CALLS: usize = 32;
/// Bytes of an entry of the lists.
const ENTRY: usize = 8;

/// The bytes by which `work` reduces the memory of the process.
fn freed_by(work: impl FnOnce()) -> usize {
    let held = || {
        let stats = ALLOCATOR.stats();
        stats.bytes_allocated as isize + stats.bytes_reallocated - stats.bytes_deallocated as isize
    };
    let before = held();
    work();
    usize::try_from(before - held()).unwrap_or(0)
}

/// A server with calls that each have this many unread messages.
fn unread(messages: usize) -> Pair {
    let mut pair = Pair::new(nothing);
    let content = message(b"").repeat(messages);
    for _ in 0..CALLS {
        pair.call(&[], &content, false);
    }
    pair.run();
    assert_eq!(pair.server.in_flight(), CALLS);
    pair
}

#[test]
fn a_server_frees_the_list_of_a_call_whose_messages_are_taken() {
    alone(|| {
        const MESSAGES: usize = 5_000;
        let mut pair = unread(MESSAGES);
        let ids = pair.ids.clone();
        let freed = freed_by(|| ids.iter().for_each(|id| pair.server.taken(*id, MESSAGES)));
        assert!(freed >= CALLS * MESSAGES * ENTRY, "{freed} bytes");
    });
}

#[test]
fn a_server_keeps_no_list_of_a_call_that_has_ended() {
    alone(|| {
        const MESSAGES: usize = 500;
        let mut pair = unread(MESSAGES);
        let ids = pair.ids.clone();
        let freed = freed_by(|| {
            for id in ids {
                pair.server.respond(id, Reply { status: 0, meta: &[], message: None });
            }
        });
        assert!(freed >= CALLS * MESSAGES * ENTRY / 2, "{freed} bytes");
        assert_eq!(pair.server.kept_len(ringway_wire::native::Side::Unread), 0);
    });
}

fn client() -> GrpcClient {
    GrpcClient::new(ClientConfig::new("example.org:50051"), NOW)
}

fn open(client: &mut GrpcClient) -> Result<(), OpenError> {
    let message = Some(Body::Copy(b"hello"));
    let open = Open { method: 1, name: "a.B/C", message, end: true, ..Open::default() };
    client.open(open).map(drop)
}

fn exchange(client: &mut GrpcClient, wire: &[u8]) -> usize {
    exchange_at(client, wire, NOW)
}

/// Sends the client's output, and gives it `wire` as input. Returns the number of calls that end.
fn exchange_at(client: &mut GrpcClient, wire: &[u8], now: Duration) -> usize {
    client.transmit(usize::MAX, &mut |out| drop(out));
    let (mut input, mut ended) = (wire, 0);
    while let Some(event) = client.receive(&mut input, now).expect("well-formed") {
        ended +=
            usize::from(matches!(event, ClientEvent::Response { .. } | ClientEvent::Failed { .. }));
    }
    ended
}

fn head(stream: usize, flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, flags | END_HEADERS, stream as u32, &block(fields))
}

fn end(stream: usize) -> Vec<u8> {
    head(stream, END_STREAM, &[("grpc-status", "0")])
}

/// The streams of the first calls of a client.
fn streams(calls: usize) -> impl Iterator<Item = usize> {
    (0..calls).map(|call| 2 * call + 1)
}

#[test]
fn a_client_shortens_the_list_of_a_call_that_has_ended() {
    alone(|| {
        const MESSAGES: usize = 10_000;
        let mut client = client();
        (0..CALLS).for_each(|_| open(&mut client).expect("room"));
        let content = [prefix(0, false)].concat().repeat(MESSAGES);
        let fields = [(":status", "200"), ("content-type", "application/grpc")];
        let mut wire = frame(SETTINGS, 0, 0, &[]);
        for stream in streams(CALLS) {
            wire.extend(head(stream, 0, &fields));
            content
                .chunks(10_000)
                .for_each(|part| wire.extend(frame(DATA, 0, stream as u32, part)));
        }
        assert_eq!(exchange(&mut client, &wire), 0);
        let ends: Vec<u8> = streams(CALLS).flat_map(end).collect();
        let freed = freed_by(|| assert_eq!(exchange(&mut client, &ends), CALLS));
        assert!(freed >= CALLS * MESSAGES * ENTRY / 2, "{freed} bytes");
    });
}

/// A client and the streams of its running calls, the oldest first.
struct Calls {
    client: GrpcClient,
    running: VecDeque<usize>,
    next: usize,
    now: Duration,
}

impl Calls {
    fn limit(&mut self, streams: u32) {
        self.now += Duration::from_secs(1); // a peer that changes its mind more often is given up
        let settings = frame(SETTINGS, 0, 0, &setting(3, streams));
        exchange_at(&mut self.client, &settings, self.now);
    }

    /// Opens as many calls as the client may. Returns how many run then.
    fn fill(&mut self) -> usize {
        while open(&mut self.client).is_ok() {
            self.running.push_back(self.next);
            self.next += 2;
        }
        assert_eq!(self.client.capacity(), 0);
        self.running.len()
    }

    fn end_one(&mut self) {
        let oldest = self.running.pop_front().expect("one runs");
        assert_eq!(exchange_at(&mut self.client, &end(oldest), self.now), 1);
    }
}

#[test]
fn a_limit_that_is_lowered_and_raised_again_loses_no_place() {
    let running = VecDeque::new();
    let mut calls = Calls { client: client(), running, next: 1, now: NOW };
    for _ in 0..100 {
        calls.limit(8);
        assert_eq!(calls.fill(), 8);
        calls.limit(3);
        // Running calls go on, and no call begins before their number is below the limit.
        for left in (3..8).rev() {
            calls.end_one();
            assert_eq!((calls.fill(), calls.client.capacity()), (left, 0));
        }
        calls.end_one();
        assert_eq!(calls.client.capacity(), 1);
        assert_eq!(calls.fill(), 3);
        calls.limit(0);
        calls.end_one();
        assert_eq!(calls.fill(), 2);
    }
}
