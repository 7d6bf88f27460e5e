//! The client of the ping-pong suite: one message in flight on each connection, each reply compared.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Instant;

use ringway_runtime::io::{Incoming, Next, Stream};
use ringway_runtime::sync::Notify;
use ringway_runtime::{sleep, timeout};

use super::connect::{self, bounds_of_one, connect_all};
use super::engine::Part;
use super::outcome::CoreOutcome;
use super::phase::Phase;
use super::server::Usage;
use super::timeline;
use crate::histogram::Latencies;
use crate::limits;
use crate::payload::{Mismatch, Series, Verifier};
use crate::report::Errors;

/// Exchanges messages of `size` bytes on the connections of `part`.
pub(super) async fn play(part: Part, series: Series, size: usize) -> io::Result<CoreOutcome> {
    let mut errors = Errors::default();
    let bounds = Rc::new(bounds_of_one(size));
    let address = part.address.as_ref().expect("only calls take a source of servers");
    let streams = connect_all(address, part.connections.clone(), &bounds, &mut errors).await;
    part.wait_for_all(1).await;
    let game = Rc::new(Game::new(series, size, errors));
    for (number, stream) in streams {
        Player::begin(&game, number, stream);
    }
    sleep(part.length.warmup).await;
    part.read_costs_before()?;
    let before = Usage::of_this_core();
    let began = game.begin();
    let (length, done) = (part.length.measured, || game.replies.get());
    let timeline = timeline::watch(began, length, done, None).await;
    let elapsed = game.end(began);
    game.drain().await;
    let after = Usage::of_this_core();
    part.read_costs_after()?;
    let (operations, charged) = (game.replies.get(), game.replies.get() + game.late_replies.get());
    Ok(CoreOutcome {
        operations,
        begun: 0,
        charged,
        elapsed,
        timeline,
        latencies: Some(game.latencies.borrow().clone()),
        errors: game.errors.take(),
        verified: game.verified.get(),
        client: after.since(before, charged),
        complaint: game.complaint.take(),
        clock: None,
    })
}

/// State shared by the connections of a core.
struct Game {
    series: Series,
    size: usize,
    phase: Cell<Phase>,
    /// Start of the measured interval; messages sent before it are not timed.
    began: Cell<Instant>,
    /// Replies within the measured interval.
    replies: Cell<u64>,
    /// Replies after its end to messages sent before it.
    late_replies: Cell<u64>,
    verified: Cell<u64>,
    latencies: RefCell<Latencies>,
    errors: RefCell<Errors>,
    complaint: RefCell<Option<String>>,
    /// Connections that wait for a reply.
    waiting: Cell<u32>,
    all_answered: Notify,
    scratch: RefCell<Vec<u8>>,
}

/// One connection with one message in flight.
struct Player {
    game: Rc<Game>,
    number: u32,
    sequence: u64,
    sent_at: Instant,
    verifier: Verifier,
}

impl Game {
    fn new(series: Series, size: usize, errors: Errors) -> Self {
        Self {
            series,
            size,
            phase: Cell::new(Phase::WarmUp),
            began: Cell::new(Instant::now()),
            replies: Cell::new(0),
            late_replies: Cell::new(0),
            verified: Cell::new(0),
            latencies: RefCell::new(Latencies::new()),
            errors: RefCell::new(errors),
            complaint: RefCell::new(None),
            waiting: Cell::new(0),
            all_answered: Notify::new(),
            scratch: RefCell::new(Vec::with_capacity(SMALL_BYTES)),
        }
    }

    fn begin(&self) -> Instant {
        let now = Instant::now();
        self.began.set(now);
        self.phase.set(Phase::Measured);
        now
    }

    fn end(&self, began: Instant) -> std::time::Duration {
        self.phase.set(Phase::Drain);
        began.elapsed()
    }

    /// Waits for the outstanding replies; missing ones are errors.
    async fn drain(&self) {
        if self.waiting.get() == 0 {
            return;
        }
        if timeout(limits::DRAIN_MAX, self.all_answered.notified()).await.is_err() {
            self.errors.borrow_mut().unanswered += u64::from(self.waiting.get());
        }
    }

    /// One connection waits no longer.
    fn answered(&self) {
        self.waiting.set(self.waiting.get() - 1);
        if self.waiting.get() == 0 && self.phase.get() == Phase::Drain {
            self.all_answered.notify_one();
        }
    }
}

impl Player {
    fn begin(game: &Rc<Game>, number: u32, stream: Stream) {
        let mut player = Self {
            game: Rc::clone(game),
            number,
            sequence: 0,
            sent_at: Instant::now(),
            verifier: Verifier::new(game.series),
        };
        game.waiting.set(game.waiting.get() + 1);
        player.send(&stream, Instant::now());
        stream.on_incoming(move |stream, incoming| player.on_incoming(stream, incoming));
    }

    #[inline]
    fn on_incoming(&mut self, stream: &Stream, incoming: Incoming) -> Next {
        let outcome = match incoming {
            Incoming::Data(view) => return self.receive(stream, &view),
            Incoming::Drained => return Next::Continue,
            Incoming::Eof => io::ErrorKind::UnexpectedEof.into(),
            Incoming::Failed(error) => error,
        };
        connect::count(&mut self.game.errors.borrow_mut(), &outcome);
        self.leave()
    }

    fn receive(&mut self, stream: &Stream, mut bytes: &[u8]) -> Next {
        loop {
            match self.verifier.feed(bytes) {
                Err(mismatch) => return self.complain(&mismatch),
                Ok(progress) if !progress.complete => return Next::Continue,
                Ok(progress) => bytes = &bytes[progress.consumed..],
            }
            if self.reply(stream) == Next::Close {
                return Next::Close;
            }
            // More than was asked for is compared with the next message, and found wrong.
            if bytes.is_empty() {
                return Next::Continue;
            }
        }
    }

    /// A reply is complete: it counts, and the next message leaves.
    #[inline]
    fn reply(&mut self, stream: &Stream) -> Next {
        let game = &*self.game;
        let now = Instant::now();
        game.verified.set(game.verified.get() + 1);
        let phase = game.phase.get();
        // Every message of the interval, or the slowest would be missing.
        if phase != Phase::WarmUp && self.sent_at >= game.began.get() {
            game.latencies.borrow_mut().record(now - self.sent_at);
        }
        match phase {
            Phase::WarmUp => {}
            Phase::Measured => game.replies.set(game.replies.get() + 1),
            Phase::Drain => {
                game.late_replies.set(game.late_replies.get() + 1);
                return self.leave();
            }
        }
        self.sequence += 1;
        self.send(stream, now);
        Next::Continue
    }

    #[inline]
    fn send(&mut self, stream: &Stream, now: Instant) {
        let size = self.game.size;
        let message = self.game.series.message(self.number, self.sequence, size);
        self.sent_at = now;
        self.verifier.expect(message);
        if size <= SMALL_BYTES {
            let mut scratch = self.game.scratch.borrow_mut();
            scratch.clear();
            scratch.extend_from_slice(message.header());
            scratch.extend_from_slice(message.body());
            stream.write(&scratch);
        } else {
            stream.write(message.header());
            stream.send(message.body());
        }
    }

    #[cold]
    fn complain(&mut self, mismatch: &Mismatch) -> Next {
        self.game.errors.borrow_mut().mismatched += 1;
        self.game.complaint.borrow_mut().get_or_insert_with(|| mismatch.to_string());
        self.leave()
    }

    fn leave(&self) -> Next {
        self.game.answered();
        Next::Close
    }
}

/// Messages up to this size are copied into one piece; of larger ones only the header is.
const SMALL_BYTES: usize = 1024;
