//! One connection of a pool: its machine, and which call each of its streams is.
//!
//! The connection's task (`driver.rs`) brings bytes and time and carries the machine's output away.
//! Calls come straight here and leave a note for the task, which runs after them in the same turn
//! of the core.

mod events;

use std::cell::{Cell, OnceCell, Ref, RefCell};
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use ringway_net::View;
use ringway_wire::native::{
    self, Body, ClientEvent, Open, OpenError, Outgoing, StreamId, Violation,
};

use super::local_clients::{LinkKey, LocalClients};
use super::pending_calls::{CellKey, Cells, Flight};
use super::pool_host::PoolHost;
use super::stream_lives::{StreamLives, Watcher};
use super::tally::Tally;
use crate::call::method::Method;
use crate::call::status::{Code, Status};
use crate::call::zero_copy;
use crate::connection::carrier::CarrierId;
use crate::connection::table::{Handles, StreamKey, StreamTable};
use crate::limits;
use crate::waiters::{Borrowed, Errands, HasErrands};

pub(super) struct Link {
    pub(super) key: LinkKey,
    pub(super) host: Rc<PoolHost>,
    state: RefCell<State>,
    /// The task, and whether it was asked to run since it last did.
    task: RefCell<Waker>,
    stirred: Cell<bool>,
    /// Calls and streams under way.
    in_flight: Cell<u32>,
    /// Its task has ended.
    gone: Cell<bool>,
    /// A call has been answered.
    answered: Cell<bool>,
    /// No new calls: the peer is leaving, or the connection is not needed any more.
    closing: Cell<bool>,
    /// Where handles of streams find it, once it has had one.
    pub(super) carrier: OnceCell<CarrierId>,
}

/// What belongs together under one borrow. No waker is woken and none dropped meanwhile: wakers of
/// calls are handed out, those of streams are errands.
pub(super) struct State {
    pub(super) machine: native::Client,
    /// By the machine's slots.
    entries: Vec<Entry>,
    pub(super) streams: StreamTable,
    lives: StreamLives,
    /// Calls opened so far, and how many of them the machine had when it last gave its output.
    opened: u64,
    given_out: u64,
    /// No entry's deadline is before this.
    next_deadline: Duration,
    /// What the peer's GOAWAY says of the calls it has accepted.
    accepted: Option<u32>,
    /// Why it leaves, in its words, if it has said so.
    farewell: String,
}

impl HasErrands for State {
    #[inline]
    fn errands(&mut self) -> &mut Errands {
        self.streams.errands()
    }
}

/// A slot's call.
#[derive(Clone, Copy)]
struct Entry {
    stream: Option<StreamId>,
    kind: Kind,
    /// Of the calls opened so far. Their number does not go round in the life of a connection.
    number: u64,
    deadline: Duration,
}

#[derive(Clone, Copy)]
enum Kind {
    /// One reply, which goes to the cell with this index.
    Unary(u32),
    /// Messages, which go to the table of streams.
    Stream,
}

/// The deadline of calls without one.
pub(super) const NEVER: Duration = Duration::MAX;

impl Link {
    pub(super) fn new(
        key: LinkKey,
        host: Rc<PoolHost>,
        tally: Rc<Tally>,
        config: native::Config,
        now: Duration,
    ) -> Self {
        let state = State {
            machine: native::Client::new(config, now),
            entries: Vec::new(),
            streams: StreamTable::default(),
            lives: StreamLives::new(tally, Rc::clone(&host), now),
            opened: 0,
            given_out: 0,
            next_deadline: NEVER,
            accepted: None,
            farewell: String::new(),
        };
        Self {
            key,
            host,
            state: RefCell::new(state),
            task: RefCell::new(Waker::noop().clone()),
            stirred: Cell::new(true), // its task runs first of all
            in_flight: Cell::new(0),
            gone: Cell::new(false),
            answered: Cell::new(false),
            closing: Cell::new(false),
            carrier: OnceCell::new(),
        }
    }

    /// When the state is given back, handles of streams are woken. Nothing else may be borrowed then.
    pub(super) fn state(&self) -> Borrowed<'_, State> {
        Borrowed::of(&self.state)
    }

    /// The same, to be looked at only.
    pub(super) fn known_state(&self) -> Ref<'_, State> {
        self.state.borrow()
    }

    /// Calls and streams under way.
    #[inline]
    pub(super) fn in_flight(&self) -> u32 {
        self.in_flight.get()
    }

    /// How many more calls it could take now.
    pub(super) fn capacity(&self) -> usize {
        if self.closing.get() {
            return 0;
        }
        self.state.borrow().machine.capacity()
    }

    /// How often the server has lowered the number of calls that it takes at once.
    #[inline]
    pub(super) fn lease_cuts(&self) -> u32 {
        self.state.borrow().machine.lease_cuts()
    }

    /// Whether new calls may be given to it, now or later.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        !self.closing.get()
    }

    /// Whether its task has ended.
    pub(super) fn is_gone(&self) -> bool {
        self.gone.get()
    }

    /// Whether the peer has answered a call.
    pub(super) fn has_answered(&self) -> bool {
        self.answered.get()
    }

    /// Whether it takes no more calls without the peer having said so.
    pub(super) fn is_closed_here(&self) -> bool {
        self.closing.get() && self.state.borrow().accepted.is_none()
    }

    /// Takes no more calls, and ends once those under way are over.
    pub(super) fn close(&self) {
        self.closing.set(true);
        self.stir();
    }

    /// Sends a unary call.
    ///
    /// # Errors
    /// When there is no room.
    #[inline]
    pub(super) fn open(
        &self,
        local: &LocalClients,
        open: Open<'_>,
        deadline: Duration,
        waker: &Waker,
    ) -> Result<CellKey, OpenError> {
        let mut state = self.state.borrow_mut();
        let stream = state.machine.open(open)?;
        let flight = Flight { link: self.key, stream };
        let cell = local.cells.borrow_mut().insert(flight, waker.clone());
        state.enter(stream, Kind::Unary(cell.index()), deadline);
        drop(state);
        self.in_flight.set(self.in_flight.get() + 1);
        self.stir();
        Ok(cell)
    }

    /// Opens a call with streams, which has waited for so long.
    ///
    /// # Errors
    /// When there is no room.
    pub(super) fn open_stream(
        &self,
        method: &'static Method,
        open: Open<'_>,
        deadline: Duration,
        handles: Handles,
        now: Duration,
        waited: Duration,
    ) -> Result<StreamKey, OpenError> {
        let mut state = self.state.borrow_mut();
        let stream = state.machine.open(open)?;
        state.enter(stream, Kind::Stream, deadline);
        state.lives.tell_time(now);
        state.lives.began(stream.slot(), method, waited);
        let key = state.streams.insert(stream, handles);
        drop(state);
        self.in_flight.set(self.in_flight.get() + 1);
        self.stir();
        Ok(key)
    }

    /// Has `watcher` told how a stream ends.
    pub(super) fn watch_stream(&self, key: StreamKey, watcher: Watcher) {
        let state = &mut *self.state.borrow_mut();
        if let Some(stream) = state.streams.stream(key) {
            state.lives.watch(stream.slot(), watcher);
        }
    }

    /// Ends a call from this side; its cell or its handles are the caller's to end.
    pub(super) fn end_call(&self, stream: StreamId, code: Code, reason: &str) {
        let mut state = self.state();
        if state.leave(stream).is_some() {
            state.machine.cancel(stream, code.number(), reason);
            let State { lives, streams, .. } = &mut *state;
            lives.given_up(stream.slot(), code, streams.errands());
            drop(state);
            self.in_flight.set(self.in_flight.get() - 1);
            self.stir();
        }
    }

    /// Has the task run after the calls of this turn.
    #[inline]
    pub(super) fn stir(&self) {
        if !self.stirred.replace(true) {
            self.task.borrow().wake_by_ref();
        }
    }

    /// The task runs: until it has ended its turn, nobody needs to wake it.
    #[inline]
    pub(super) fn turn_begins(&self, waker: &Waker) {
        self.stirred.set(true);
        let mut task = self.task.borrow_mut();
        if !task.will_wake(waker) {
            task.clone_from(waker);
        }
    }

    #[inline]
    pub(super) fn turn_ends(&self) {
        self.stirred.set(false);
    }
}

/// What the task does.
impl Link {
    /// Takes received bytes in; wakes are collected, to be done when nothing is borrowed.
    ///
    /// # Errors
    /// When the peer has broken the protocol: the connection is to be closed.
    pub(super) fn take_in(
        &self,
        local: &LocalClients,
        view: Option<&View>,
        now: Duration,
        woken: &mut Vec<Waker>,
    ) -> Result<(), Violation> {
        let state = &mut *self.state();
        let cells = &mut *local.cells.borrow_mut();
        state.lives.tell_time(now);
        let mut input = view.map_or(&[][..], |view| view);
        let mut ended = 0;
        let taken = loop {
            match state.machine.receive(&mut input, now) {
                Ok(Some(mut event)) => {
                    if let ClientEvent::Response { message: Some(message), .. }
                    | ClientEvent::Message { message, .. } = &mut event
                    {
                        zero_copy::keep(message, view);
                    }
                    ended += state.on_event(event, cells, woken);
                    ended += state.take_messages(&mut input, view, cells, woken);
                }
                Ok(None) => break Ok(()),
                Err(violation) => break Err(violation),
            }
        };
        if ended > 0 {
            self.in_flight.set(self.in_flight.get() - ended);
            self.answered.set(true);
        }
        if state.accepted.is_some() {
            self.closing.set(true);
        }
        taken
    }

    /// Ends calls whose deadline has passed, and tells the machine the time.
    ///
    /// # Errors
    /// When the peer is given up.
    pub(super) fn on_time(
        &self,
        local: &LocalClients,
        now: Duration,
        woken: &mut Vec<Waker>,
    ) -> Result<(), Violation> {
        let state = &mut *self.state();
        if state.next_deadline <= now {
            state.lives.tell_time(now);
            let late = || {
                let address = self.host.address();
                Status::deadline_exceeded(format!("no reply from {address} before the deadline"))
            };
            let ended = state.expire(now, late, &mut local.cells.borrow_mut(), woken);
            self.in_flight.set(self.in_flight.get() - ended);
        }
        if state.machine.poll_timeout().is_some_and(|at| at <= now) {
            state.machine.handle_timeout(now)?;
        }
        Ok(())
    }

    /// When [`on_time`](Self::on_time) is next needed.
    #[inline]
    pub(super) fn next_time(&self) -> Option<Duration> {
        let state = self.state.borrow();
        let machine = state.machine.poll_timeout().unwrap_or(NEVER);
        let next = machine.min(state.next_deadline);
        (next != NEVER).then_some(next)
    }

    /// Gives out up to about `budget` bytes.
    #[inline]
    pub(super) fn give_out(&self, budget: usize, out: &mut dyn FnMut(Outgoing<'_>)) {
        let mut state = self.state.borrow_mut();
        state.given_out = state.opened;
        state.machine.transmit(budget, out);
    }

    /// Whether the machine has something to tell, whatever arrives.
    pub(super) fn has_events(&self) -> bool {
        self.state.borrow().machine.has_events()
    }

    /// What the peer has said of its leaving, to be put behind what it has done.
    pub(super) fn farewell(&self) -> String {
        let farewell = &self.state.borrow().farewell;
        if farewell.is_empty() { String::new() } else { format!(": {farewell}") }
    }

    /// Whether there is anything to give out.
    #[inline]
    pub(super) fn has_output(&self) -> bool {
        self.state.borrow().machine.has_output()
    }

    /// The connection is gone: every call under way fails.
    pub(super) fn fail_all(&self, local: &LocalClients, why: &str, woken: &mut Vec<Waker>) {
        self.closing.set(true);
        self.gone.set(true);
        let state = &mut *self.state();
        let cells = &mut *local.cells.borrow_mut();
        for slot in 0..state.entries.len() {
            let Some(stream) = state.entries[slot].stream else {
                continue;
            };
            let status = state.lost(&state.entries[slot], stream, why);
            match state.entries[slot].kind {
                Kind::Unary(cell) => woken.extend(cells.end(cell, Err(status))),
                Kind::Stream => {
                    let status = state.lives.named(stream.slot(), status);
                    state.lives.ended(stream.slot(), Some(&status), state.streams.errands());
                    state.streams.finish(stream, Err(status));
                }
            }
            state.entries[slot].stream = None;
        }
        self.in_flight.set(0);
    }
}

impl State {
    #[inline]
    fn enter(&mut self, stream: StreamId, kind: Kind, deadline: Duration) {
        let slot = stream.slot() as usize;
        if slot >= self.entries.len() {
            let unused = Entry { stream: None, kind: Kind::Stream, number: 0, deadline: NEVER };
            self.entries.resize(slot + 1, unused);
        }
        self.opened += 1;
        debug_assert!(self.entries[slot].stream.is_none(), "the machine gives free slots");
        self.entries[slot] = Entry { stream: Some(stream), kind, number: self.opened, deadline };
        self.next_deadline = self.next_deadline.min(deadline);
    }

    /// What a stream's frames are for; `None` once this side has ended the call.
    #[inline]
    fn kind(&self, stream: StreamId) -> Option<Kind> {
        let entry = self.entries.get(stream.slot() as usize)?;
        (entry.stream == Some(stream)).then_some(entry.kind)
    }

    /// Forgets a call.
    #[inline]
    pub(super) fn leave(&mut self, stream: StreamId) -> Option<()> {
        let entry = self.entries.get_mut(stream.slot() as usize)?;
        entry.stream.take_if(|own| *own == stream).map(drop)
    }

    /// Ends what is overdue, and finds out when to look again. The table is as long as there ever
    /// were calls at once, and looked through only when a deadline of one has come: calls that are
    /// answered in time cost nothing here.
    fn expire(
        &mut self,
        now: Duration,
        late: impl Fn() -> Status,
        cells: &mut Cells,
        woken: &mut Vec<Waker>,
    ) -> u32 {
        let mut ended = 0;
        let mut next = NEVER;
        for slot in 0..self.entries.len() {
            let Entry { stream: Some(stream), kind, deadline, .. } = self.entries[slot] else {
                continue;
            };
            if deadline > now {
                next = next.min(deadline);
                continue;
            }
            match kind {
                Kind::Unary(cell) => woken.extend(cells.end(cell, Err(late()))),
                Kind::Stream => {
                    let late = self.lives.named(stream.slot(), late());
                    let errands = self.streams.errands();
                    self.lives.given_up(stream.slot(), Code::DeadlineExceeded, errands);
                    self.streams.finish(stream, Err(late));
                }
            }
            self.entries[slot].stream = None;
            self.machine.cancel(stream, Code::DeadlineExceeded.number(), "");
            ended += 1;
        }
        self.next_deadline = next;
        ended
    }

    /// The failure of a call whose connection was lost.
    fn lost(&self, entry: &Entry, stream: StreamId, why: &str) -> Status {
        let waited = entry.number > self.given_out;
        let refused =
            self.accepted.is_some_and(|accepted| !self.machine.was_accepted(stream, accepted));
        let status = Status::unavailable(why.to_owned());
        if waited || refused { status.not_executed() } else { status }
    }
}

/// A message as the machine wants it: a small one is copied into its output at once, a large one is
/// shared.
#[inline]
pub(super) fn body(message: &Bytes) -> Body<'_> {
    match message.len() > limits::REQUEST_COPY_BYTES_MAX {
        true => Body::Shared(message.clone()),
        false => Body::Copy(message),
    }
}
