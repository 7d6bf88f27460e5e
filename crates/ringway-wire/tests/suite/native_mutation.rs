//! Recorded sessions that were changed, against a server and a client with ordinary
//! callers: nothing panics, every turn ends, and memory stays within its bounds.
//!
//! `RINGWAY_MUTATIONS=10000000 cargo test --release -p ringway-wire --test suite native_mutation` tries more.

use std::time::Duration;

use ringway_wire::native::{
    Client, ClientEvent, GoAwayCode, Header, Outgoing, PREFACE, Server, ServerEvent, Side,
    StreamId, Violation,
};

use crate::support::mutation;
use crate::support::mutation::{SESSIONS, Session, answer, append, mutate, perform, pick, split};
use crate::support::{Random, for_seeds};

/// The memory of incomplete messages, and in addition that of a frame and of the metadata of a few.
const UNREAD_MAX: usize = (64 << 20) + (400 << 10);

fn mutations() -> u64 {
    let given = std::env::var("RINGWAY_MUTATIONS").ok();
    given.and_then(|count| count.parse().ok()).unwrap_or(6_000)
}

/// The bytes of a changed session, cut anywhere.
fn bytes(frames: &[Vec<u8>], others: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut frames = frames.to_vec();
    mutate(&mut frames, others, random);
    frames.concat()
}

/// The most that a machine may do for its input: every event has a reason.
struct Allowance {
    events: usize,
    given: usize,
}

impl Allowance {
    /// A frame may cause two events.
    fn give(&mut self, bytes: usize) {
        self.given += bytes;
        self.events += bytes / 8 + 2;
    }

    /// An action of the caller may cause one event for each stream that it concerns.
    fn act(&mut self) {
        self.events += 16;
    }

    fn spend(&mut self) {
        self.events = self.events.checked_sub(1).expect("more is told than has happened");
    }
}

#[test]
fn servers_stand_what_clients_send() {
    for_seeds(mutations(), |random| {
        let session = &SESSIONS[random.below(SESSIONS.len())];
        let others = &SESSIONS[random.below(SESSIONS.len())].up;
        let input = bytes(&session.up, others, random);
        Served::new(session, random).run(&input);
    });
}

/// A server with an application that answers, streams, and forgets calls.
struct Served<'r> {
    server: Server,
    running: Vec<StreamId>,
    random: &'r mut Random,
    allowance: Allowance,
    now: Duration,
    said: Vec<u8>,
    /// The peer has ended the connection.
    is_left: bool,
}

impl<'r> Served<'r> {
    fn new(session: &Session, random: &'r mut Random) -> Self {
        Self {
            server: Server::new(session.server.clone(), Duration::ZERO),
            running: Vec::new(),
            random,
            allowance: Allowance { events: 16, given: 0 },
            now: Duration::ZERO,
            said: Vec::new(),
            is_left: false,
        }
    }

    fn run(mut self, input: &[u8]) {
        let piece_len = [input.len().max(1), 1_000, 100, 7][self.random.below(4)];
        for piece in input.chunks(piece_len) {
            if self.take(piece).is_err() || self.act().is_err() {
                break;
            }
        }
        for _ in 0..8 {
            let _failed = self.act();
        }
        self.finish();
    }

    fn take(&mut self, mut piece: &[u8]) -> Result<(), Violation> {
        self.allowance.give(piece.len());
        loop {
            let event = match self.server.receive(&mut piece, self.now) {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(violation) => return Err(self.failed(violation)),
            };
            self.allowance.spend();
            match event {
                ServerEvent::Request { stream, head, meta, message, end } => {
                    if !end && self.random.below(3) == 0 {
                        self.server.await_rest(stream, head, &meta, message.as_deref());
                        continue;
                    }
                    assert!(!self.running.contains(&stream), "{stream} begins once");
                    self.running.push(stream);
                    self.allowance.act();
                    if self.random.below(2) == 0 {
                        answer(&mut self.server, &mut self.running, self.random);
                    }
                }
                ServerEvent::Message { stream, .. } => {
                    assert!(self.running.contains(&stream), "{stream} runs");
                    if self.random.below(4) > 0 {
                        self.server.taken(stream, 1);
                    }
                }
                ServerEvent::Cancelled { stream, .. } | ServerEvent::Failed { stream, .. } => {
                    self.running.retain(|running| *running != stream);
                }
                _ => {}
            }
            let kept = self.server.kept_len(Side::Unread);
            // Memory follows the input; a request of 33 bytes takes at least 256.
            assert!(kept <= 10 * self.allowance.given + 1_024, "{kept} bytes are kept");
            assert!(kept <= UNREAD_MAX && self.server.in_flight() <= 1 << 10);
        }
        assert!(piece.is_empty(), "no event, and bytes are left");
        Ok(())
    }

    /// The actions of a caller besides receiving.
    fn act(&mut self) -> Result<(), Violation> {
        self.allowance.act();
        match self.random.below(12) {
            0..=3 => answer(&mut self.server, &mut self.running, self.random),
            4 => self.server.set_memory_pressure(self.random.below(2) == 0),
            5 => self.server.lease(self.random.below(40) as u32),
            6 => drop(self.server.end_largest(Side::Unread)),
            7 => drop(self.server.end_largest(Side::Unsent)),
            8 => {
                if let Some(&stream) = pick(&self.running, self.random) {
                    self.server.ignore(stream);
                }
            }
            9 if self.random.below(8) == 0 => {
                let drain = Duration::from_millis(self.random.below(3) as u64);
                self.server.go_away(GoAwayCode::NoError, drain, "enough");
            }
            10 => self.wait()?,
            _ => {
                let budget = [1, 100, 70_000, usize::MAX][self.random.below(4)];
                let said = &mut self.said;
                self.server.transmit(budget, &mut |out| append(said, &out));
            }
        }
        self.take(&[])
    }

    /// Lets time pass until a timer is due. Firing it leaves fewer timers.
    fn wait(&mut self) -> Result<(), Violation> {
        let Some(due) = self.server.poll_timeout() else {
            return Ok(());
        };
        self.now = self.now.max(due);
        for _ in 0..4 {
            if let Err(violation) = self.server.handle_timeout(self.now) {
                return Err(self.failed(violation));
            }
            if self.server.poll_timeout().is_none_or(|next| next > self.now) {
                return Ok(());
            }
        }
        panic!("what is due stays due");
    }

    /// Checks that a machine that has failed reports that, and nothing else.
    fn failed(&mut self, violation: Violation) -> Violation {
        for _ in 0..2 {
            assert!(!self.server.has_events());
            let again = self.server.receive(&mut &b"more"[..], self.now).map(drop);
            assert_eq!(again, Err(violation.clone()));
            let said = &mut self.said;
            self.server.transmit(100, &mut |out| append(said, &out));
        }
        assert_eq!((self.server.kept_len(Side::Unread), self.server.poll_timeout()), (0, None));
        self.running.clear();
        self.is_left = matches!(violation, Violation::PeerLeft { .. });
        violation
    }

    /// Checks that the output ends and is well-formed.
    fn finish(mut self) {
        let mut rounds = 0;
        while self.server.has_output() {
            let before = self.said.len();
            let said = &mut self.said;
            self.server.transmit(1 << 20, &mut |out| append(said, &out));
            let gives = self.said.len() > before;
            assert!(gives || !self.server.has_output(), "it has output and gives none");
            rounds += 1;
            assert!(rounds < 1_000, "it never ends");
        }
        check_frames(&self.said, self.is_left);
        while self.server.end_largest(Side::Unread) {}
        while self.server.end_largest(Side::Unsent) {}
        let left = self.server.kept_len(Side::Unread);
        assert!(left <= self.server.incomplete_len(), "{left} bytes are nobody's");
    }
}

/// What a machine sends is a preface and whole, consistent frames; what its peer did not wait for is
/// cut off.
fn check_frames(said: &[u8], is_left: bool) {
    if is_left {
        return;
    }
    for (at, frame) in split(said).iter().enumerate() {
        match frame.first_chunk() {
            _ if at == 0 => assert!(frame.is_empty() || **frame == PREFACE),
            None => panic!("half a header"),
            Some(head) => {
                let header = Header::decode(head).expect("our own frames are consistent");
                assert_eq!(frame.len(), head.len() + header.len as usize, "and whole");
            }
        }
    }
}

#[test]
fn clients_stand_what_servers_send() {
    for_seeds(mutations(), |random| {
        let session = &SESSIONS[random.below(SESSIONS.len())];
        let others = &SESSIONS[random.below(SESSIONS.len())].down;
        let mut frames = session.down.clone();
        mutate(&mut frames, others, random);
        Asking::new(session, random).run(session, &frames);
    });
}

/// A client whose caller acts like a recorded one.
struct Asking<'r> {
    client: Client,
    open: Vec<StreamId>,
    random: &'r mut Random,
    allowance: Allowance,
    now: Duration,
    said: Vec<u8>,
    /// The peer has ended the connection.
    is_left: bool,
}

impl<'r> Asking<'r> {
    fn new(session: &Session, random: &'r mut Random) -> Self {
        Self {
            client: Client::new(session.client.clone(), Duration::ZERO),
            open: Vec::new(),
            random,
            allowance: Allowance { events: 16, given: 0 },
            now: Duration::ZERO,
            said: Vec::new(),
            is_left: false,
        }
    }

    fn run(mut self, session: &Session, frames: &[Vec<u8>]) {
        let mut acts = session.acts.iter().peekable();
        'session: for (at, frame) in frames.iter().enumerate() {
            while let Some((_, act)) = acts.next_if(|(frames, _)| *frames <= at) {
                self.allowance.act();
                perform(&mut self.client, act, &mut self.open, self.random);
                self.transmit();
            }
            for piece in frame.chunks([frame.len().max(1), 100, 5][self.random.below(3)]) {
                if self.take(piece).is_err() || self.act().is_err() {
                    break 'session;
                }
            }
        }
        let mut rounds = 0;
        while self.client.has_output() {
            self.transmit();
            rounds += 1;
            assert!(rounds < 1_000, "it never ends");
        }
        check_frames(&self.said, self.is_left);
    }

    fn transmit(&mut self) {
        let before = self.said.len();
        let said = &mut self.said;
        let budget = [1, 5_000, 1 << 20][self.random.below(3)];
        self.client.transmit(budget, &mut |out: Outgoing<'_>| append(said, &out));
        let gives = self.said.len() > before;
        assert!(gives || !self.client.has_output(), "it has output and gives none");
    }

    fn take(&mut self, mut piece: &[u8]) -> Result<(), Violation> {
        self.allowance.give(piece.len());
        loop {
            let event = match self.client.receive(&mut piece, self.now) {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(violation) => {
                    assert!(!self.client.has_events());
                    let again = self.client.receive(&mut &b"more"[..], self.now).map(drop);
                    assert_eq!(again, Err(violation.clone()));
                    self.is_left = matches!(violation, Violation::PeerLeft { .. });
                    return Err(violation);
                }
            };
            self.allowance.spend();
            match event {
                ClientEvent::Message { stream, .. } if self.random.below(4) > 0 => {
                    self.client.taken(stream, 1);
                }
                ClientEvent::Response { stream, .. } | ClientEvent::Failed { stream, .. } => {
                    let is_open = self.open.contains(&stream);
                    assert!(is_open, "{stream} ends once, and never after it was cancelled");
                    self.open.retain(|open| *open != stream);
                }
                _ => {}
            }
            let kept = self.client.incomplete_len();
            assert!(kept <= 10 * self.allowance.given + 1_024, "{kept} bytes are kept");
        }
        assert!(piece.is_empty(), "no event, and bytes are left");
        Ok(())
    }

    fn act(&mut self) -> Result<(), Violation> {
        match self.random.below(8) {
            0 => self.transmit(),
            1 => {
                let act = mutation::Act::Open { method: 1, len: Some(5), end: true, timeout_ms: 0 };
                self.allowance.act();
                let room = self.client.capacity();
                let before = self.open.len();
                perform(&mut self.client, &act, &mut self.open, self.random);
                // A server may take so little metadata that not even a name fits.
                assert!(self.open.len() == before || room > 0, "no room, and a call is opened");
            }
            2 => {
                if let Some(due) = self.client.poll_timeout() {
                    self.now = self.now.max(due.min(self.now + Duration::from_secs(1)));
                    self.client.handle_timeout(self.now)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}
