//! Calls that are given up: they are ordinary, unless they are opened only for that.

use std::time::Duration;

use ringway_wire::native::{
    Body, Client, Config, Flags, FrameKind, GoAwayCode, Header, Open, Reply, RequestHead, Server,
    StreamId, Violation,
};

use crate::support::pair::{Asked, Cut, Pair, drain, idle};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const UNAVAILABLE: u32 = 14;

fn frame(kind: FrameKind, flags: Flags, stream: StreamId, aux: u32, body: &[u8]) -> Vec<u8> {
    let header = Header { len: body.len() as u32, kind, flags, meta_len: 0, stream, aux };
    [&header.encode(), body].concat()
}

fn request(stream: StreamId) -> Vec<u8> {
    frame(FrameKind::Request, Flags::END, stream, 0, &RequestHead::default().encode())
}

fn reset(stream: StreamId) -> Vec<u8> {
    frame(FrameKind::Rst, Flags::NONE, stream, 1, b"")
}

/// A client put together by hand, with a call that stays open beside all others.
struct Attacker {
    server: Server,
    bystander: StreamId,
    stream: StreamId,
    served: usize,
    refused: usize,
}

impl Attacker {
    fn new() -> Self {
        let mut pair = Pair::new(Cut::Nowhere);
        let bystander = pair.unary(b"stays");
        pair.settle(&mut idle);
        let stream = StreamId::new(7, 1);
        Self { server: pair.server, bystander, stream, served: 0, refused: 0 }
    }

    /// Opens a call and gives it up later.
    fn give_up(&mut self, now: Duration, after: Duration) -> Result<(), Violation> {
        let both = [(request(self.stream), now), (reset(self.stream), now + after)];
        for (bytes, now) in both {
            let mut input = &bytes[..];
            while let Some(event) = self.server.receive(&mut input, now)? {
                self.served += usize::from(matches!(Asked::from(event), Asked::Request { .. }));
            }
        }
        let output = drain(|out| self.server.transmit(usize::MAX, out));
        let header = output.first_chunk().map(|head| Header::decode(head).expect("ours"));
        self.refused += usize::from(header.is_some_and(|header| header.aux == UNAVAILABLE));
        self.stream = self.stream.next();
        Ok(())
    }

    /// Whether a call is served now.
    fn is_served(&mut self, now: Duration) -> bool {
        let before = self.served;
        self.give_up(now, SECOND).expect("in order");
        self.served > before
    }
}

#[test]
fn calls_that_have_run_are_given_up_at_any_rate() {
    let mut attacker = Attacker::new();
    for call in 0..100_000 {
        let now = call * Duration::from_micros(10);
        attacker.give_up(now, Duration::from_micros(5)).expect("an ordinary thing to do");
    }
    assert_eq!((attacker.served, attacker.refused), (100_000, 0));
}

#[test]
fn calls_that_are_given_up_at_once_are_refused_and_others_go_on() {
    // Ten thousand calls a second reach their deadlines before a slow server reads them.
    let mut attacker = Attacker::new();
    for call in 0..200_000 {
        let now = call * Duration::from_micros(100);
        attacker.give_up(now, Duration::ZERO).expect("refused at worst");
    }
    assert!((20_000..100_000).contains(&attacker.served), "{} were served", attacker.served);
    assert_eq!(attacker.served + attacker.refused, 200_000);
    let reply = Reply { status: 0, meta: &[], message: Some(Body::Copy(b"well")) };
    assert!(attacker.server.respond(attacker.bystander, reply).is_some(), "nobody else is harmed");
    assert!(attacker.is_served(21 * SECOND), "and it is over when they stop");
}

#[test]
fn opening_only_to_cancel_is_a_flood() {
    let mut attacker = Attacker::new();
    let violation = loop {
        if let Err(violation) = attacker.give_up(Duration::ZERO, Duration::ZERO) {
            break violation;
        }
        assert!(attacker.refused < 100_000);
    };
    assert_eq!(violation, Violation::Flood { kind: FrameKind::Rst });
    assert_eq!(violation.code(), GoAwayCode::TooManyResets);
    // A burst is forgiven. Then each request earns half of what its reset costs.
    assert_eq!(attacker.served, 2 * 4_096);
    assert_eq!(attacker.refused, 16_384);
}

#[test]
fn a_lease_and_a_drain_hold_beside_refusals() {
    let mut attacker = Attacker::new();
    attacker.server.lease(0);
    for _ in 0..10_000 {
        attacker.give_up(Duration::ZERO, Duration::ZERO).expect("refused");
    }
    assert_eq!(attacker.served, 0, "the lease has refused them, which costs nothing else");
    attacker.server.lease(10);
    assert!(attacker.is_served(Duration::ZERO));
    while attacker.is_served_suddenly() {}
    attacker.server.lease(20);
    assert!(!attacker.is_served(MS), "a lease is no pardon");
    assert!(attacker.is_served(2 * SECOND));
    attacker.server.go_away(GoAwayCode::NoError, 60 * SECOND, "");
    for at in [2, 7] {
        attacker.server.handle_timeout(at * SECOND).expect("alive");
    }
    while attacker.is_served_suddenly() {}
    assert!(!attacker.is_served(10 * SECOND), "the drain goes on");
}

impl Attacker {
    fn is_served_suddenly(&mut self) -> bool {
        let before = self.served;
        self.give_up(SECOND, Duration::ZERO).expect("refused at worst");
        self.served > before
    }
}

/// RSTs that a client sends.
fn resets(client: &mut Client) -> usize {
    let output = drain(|out| client.transmit(usize::MAX, out));
    let mut rest = &output[..];
    let mut count = 0;
    while let Some((head, behind)) = rest.split_first_chunk() {
        let header = Header::decode(head).expect("ours");
        count += usize::from(header.kind == FrameKind::Rst);
        rest = &behind[header.len as usize..];
    }
    count
}

#[test]
fn a_client_holds_back_what_a_server_would_take_for_an_attack() {
    let mut pair = Pair::with(Cut::Nowhere, Config::default(), {
        let mut config = Config::default();
        config.settings.max_streams = 20_000;
        config
    });
    pair.settle(&mut idle);
    let open = || Open { message: Some(Body::Copy(b"x")), end: true, ..Open::default() };
    for _ in 0..15_000 {
        let call = pair.client.open(open()).expect("room");
        pair.client.cancel(call, 1, "at once");
    }
    // Calls with a reset of their own are within what a server tolerates.
    assert_eq!(resets(&mut pair.client), 4_096 + 15_000 / 2 - 1 + 1);
    let due = pair.client.poll_timeout().expect("it lives");
    assert!(due <= MS, "the others follow soon: {due:?}");
    pair.client.handle_timeout(due).expect("alive");
    assert_eq!(resets(&mut pair.client), 15_000 - 4_096 - 15_000 / 2);
    assert!(pair.client.poll_timeout() > Some(SECOND));

    // A call that is answered in the meantime needs no reset.
    let mut pair = Pair::new(Cut::Nowhere);
    pair.settle(&mut idle);
    let mut call = pair.client.open(open()).expect("room");
    while {
        pair.client.cancel(call, 1, "");
        pair.client.poll_timeout() > Some(SECOND)
    } {
        if pair.client.capacity() == 0 {
            pair.settle(&mut idle);
        }
        call = pair.client.open(open()).expect("room");
    }
}
