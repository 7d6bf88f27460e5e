//! One connection of an endpoint: its machine, and the call that each of its streams belongs to.
//!
//! The connection's task (`connection_driver.rs`) feeds it bytes and time and sends the machine's output.
//! Calls use the connection directly and wake the task, which runs after them in the same turn of the
//! core.

use std::cell::{Cell, OnceCell, Ref, RefCell, RefMut};
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use ringway_net::View;
use ringway_runtime::drop_each;
use ringway_wire::native::{Open, OpenError, Outgoing, StreamId};

use super::connection_state::{ConnectionState, StreamUse};
use super::load_balancer::EndpointId;
use super::machine::{AnyMachine, ClientMachine, Violation};
use super::pending_calls::PendingCalls;
use super::pool_context::PoolContext;
use super::server_address::ServerAddress;
use super::stream_timers::Watcher;
use super::task_waker::TaskWaker;
use crate::call::method::{Kind, Method};
use crate::call::status::{Code, Status};
use crate::connection::carrier::CarrierId;
use crate::connection::driver::MESSAGE;
use crate::connection::table::{Handles, StreamKey};
use crate::slab::SlabKey;
use crate::waiters::Borrowed;

pub(super) struct ClientConnection {
    id: ConnectionId,
    address: ServerAddress,
    endpoint: EndpointId,
    pending: PendingTable,
    state: RefCell<ConnectionState>,
    task: TaskWaker,
    /// The number of calls and streams in flight.
    in_flight: Cell<u32>,
    /// Whether the connection's task has ended.
    gone: Cell<bool>,
    /// Whether new calls are refused because the peer is leaving or the connection is not needed.
    closing: Cell<bool>,
    /// The id by which stream handles find this connection, once it has had a stream.
    pub(super) carrier: OnceCell<CarrierId>,
}

/// Identifies a connection of one pool. Ids are not reused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ConnectionId(pub(super) u32);

/// The calls of a core that wait for their reply, which all its connections share.
pub(super) type PendingTable = Rc<RefCell<PendingCalls<Rc<ClientConnection>>>>;

/// A unary call that was sent over a connection.
#[derive(Clone, Copy)]
pub(super) struct SentCall {
    pub(super) pending: SlabKey,
    pub(super) connection: ConnectionId,
    pub(super) endpoint: EndpointId,
    /// The connection's [`lease_cuts`](ClientConnection::lease_cuts) when the call was sent.
    pub(super) lease_cuts: u32,
}

impl ClientConnection {
    pub(super) fn new(
        id: ConnectionId,
        address: ServerAddress,
        endpoint: EndpointId,
        context: Rc<PoolContext>,
        pending: PendingTable,
    ) -> Rc<Self> {
        let machine = context.config.machine(&address, context.clock.now());
        let state = ConnectionState::new(context, endpoint, machine);
        Rc::new(Self {
            id,
            address,
            endpoint,
            pending,
            state: RefCell::new(state),
            task: TaskWaker::new(),
            in_flight: Cell::new(0),
            gone: Cell::new(false),
            closing: Cell::new(false),
            carrier: OnceCell::new(),
        })
    }

    #[inline]
    pub(super) fn id(&self) -> ConnectionId {
        self.id
    }

    pub(super) fn endpoint(&self) -> EndpointId {
        self.endpoint
    }

    pub(super) fn address(&self) -> &ServerAddress {
        &self.address
    }

    /// Borrows the state. Wakers of stream handles run when the borrow ends, so nothing else may be
    /// borrowed then.
    #[inline]
    pub(super) fn state(&self) -> Borrowed<'_, ConnectionState> {
        Borrowed::of(&self.state)
    }

    /// Borrows the state for reading.
    pub(super) fn known_state(&self) -> Ref<'_, ConnectionState> {
        self.state.borrow()
    }

    /// Borrows the state for changes that wake nobody.
    #[inline]
    pub(super) fn quiet_state(&self) -> RefMut<'_, ConnectionState> {
        self.state.borrow_mut()
    }

    /// The number of calls and streams in flight.
    #[inline]
    pub(super) fn in_flight(&self) -> u32 {
        self.in_flight.get()
    }

    /// The number of further calls that the connection could take now.
    pub(super) fn capacity(&self) -> usize {
        if self.closing.get() {
            return 0;
        }
        self.state.borrow().machine.capacity()
    }

    /// Whether the server has told that it takes fewer calls than it could.
    pub(super) fn is_leased(&self) -> bool {
        self.state.borrow().machine.is_leased()
    }

    /// The number of times that the server has lowered its limit of concurrent calls.
    pub(super) fn lease_cuts(&self) -> u32 {
        self.state.borrow().machine.lease_cuts()
    }

    /// Whether the connection accepts new calls, now or later.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        !self.closing.get()
    }

    /// Whether the connection's task has ended.
    pub(super) fn is_gone(&self) -> bool {
        self.gone.get()
    }

    /// Whether the peer has answered a call other than by refusing it.
    pub(super) fn has_answered(&self) -> bool {
        self.state.borrow().calls.has_answered
    }

    /// Whether this side, and not the peer, has stopped new calls.
    pub(super) fn is_closed_here(&self) -> bool {
        self.closing.get() && !self.state.borrow().calls.is_peer_leaving()
    }

    /// Stops new calls, and ends the connection once those in flight are over.
    pub(super) fn close(&self) {
        self.closing.set(true);
        self.wake();
    }

    /// Sends a unary call.
    ///
    /// # Errors
    /// Fails when there is no room.
    #[inline]
    pub(super) fn open(
        self: &Rc<Self>,
        open: Open<'_>,
        deadline: Duration,
        waker: &Waker,
    ) -> Result<SentCall, OpenError> {
        let waker = waker.clone(); // may run user code, so before the borrow
        let mut state = self.state.borrow_mut();
        let (stream, lease_cuts) = state.machine.open(open)?;
        let pending = self.pending.borrow_mut().insert(Rc::clone(self), stream, waker);
        state.calls.enter(stream, StreamUse::Unary(pending), deadline);
        drop(state);
        self.in_flight.set(self.in_flight.get() + 1);
        self.wake();
        Ok(SentCall { pending, connection: self.id, endpoint: self.endpoint, lease_cuts })
    }

    /// Opens a streaming call that has spent `waited` in the queue.
    ///
    /// # Errors
    /// Fails when there is no room.
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
        let (stream, _) = state.machine.open(open)?;
        state.calls.enter(stream, StreamUse::Streams, deadline);
        state.calls.timers.set_time(now);
        state.calls.timers.began(stream.slot(), method, waited);
        if method.kind == Kind::ClientStream {
            state.calls.watch_finish(stream, now);
        }
        let key = state.calls.streams.insert(stream, handles);
        drop(state);
        self.in_flight.set(self.in_flight.get() + 1);
        self.wake();
        Ok(key)
    }

    /// Notifies `watcher` when the stream ends.
    pub(super) fn watch_stream(&self, key: StreamKey, watcher: Watcher) {
        let state = &mut *self.state.borrow_mut();
        if let Some(stream) = state.calls.streams.stream(key) {
            state.calls.timers.watch(stream.slot(), watcher);
        }
    }

    /// Cancels a call from this side. The caller has to end the call's own state.
    pub(super) fn end_call(&self, stream: StreamId, code: Code, reason: &str) {
        let ended = self.state().end_here(stream, code, reason);
        self.count_ended(ended);
    }

    /// Updates the number of calls in flight after this side has ended some.
    pub(super) fn count_ended(&self, ended: u32) {
        if ended > 0 {
            self.in_flight.set(self.in_flight.get() - ended);
            self.wake();
        }
    }

    /// Wakes the connection's task, which runs after the calls of this turn.
    #[inline]
    pub(super) fn wake(&self) {
        self.task.wake();
    }

    pub(super) fn task(&self) -> &TaskWaker {
        &self.task
    }
}

/// Methods for the connection's task.
impl ClientConnection {
    /// Processes received bytes. Wakers are added to `woken`, to be woken after all borrows.
    ///
    /// # Errors
    /// Fails when the peer has broken the protocol; the connection has to be closed then.
    pub(super) fn handle_input(
        &self,
        view: Option<&View>,
        now: Duration,
        woken: &mut Vec<Waker>,
    ) -> Result<(), Violation> {
        let state = &mut *self.state();
        let pending = &mut *self.pending.borrow_mut();
        let (ended, taken) = state.handle_input(view, now, pending, woken);
        if ended > 0 {
            self.in_flight.set(self.in_flight.get() - ended);
        }
        if state.calls.is_peer_leaving() {
            self.closing.set(true);
        }
        taken
    }

    /// The peer says nothing more, which may end calls with a reply.
    pub(super) fn end_input(&self, now: Duration, woken: &mut Vec<Waker>) {
        match &mut self.quiet_state().machine {
            AnyMachine::Json(machine) => machine.end_input(),
            AnyMachine::Native(_) | AnyMachine::Grpc(_) => return,
        }
        let _ended_anyway = self.handle_input(None, now, woken);
    }

    /// Ends calls whose deadline has passed, and tells the machine the time.
    ///
    /// # Errors
    /// Fails when the peer does not answer.
    pub(super) fn handle_timeout(
        &self,
        now: Duration,
        woken: &mut Vec<Waker>,
    ) -> Result<(), Violation> {
        let state = &mut *self.state();
        if state.has_expired(now) {
            let late = || {
                let address = &self.address;
                Status::deadline_exceeded(format!("no reply from {address} before the deadline"))
            };
            let ended = state.expire(now, late, &mut self.pending.borrow_mut(), woken);
            self.in_flight.set(self.in_flight.get() - ended);
        }
        state.calls.check_finish(now);
        if state.machine.poll_timeout().is_some_and(|at| at <= now) {
            state.machine.handle_timeout(now)?;
        }
        Ok(())
    }

    /// The time at which [`handle_timeout`](Self::handle_timeout) is due.
    #[inline]
    pub(super) fn next_timeout(&self) -> Option<Duration> {
        self.state.borrow().next_timeout()
    }

    /// Hands over up to about `budget` bytes of output.
    #[inline]
    pub(super) fn poll_transmit(&self, budget: usize, out: &mut dyn FnMut(Outgoing<'_>)) {
        self.state.borrow_mut().poll_transmit(budget, out);
    }

    /// Whether the machine has events that do not come from received bytes.
    pub(super) fn has_events(&self) -> bool {
        self.state.borrow().machine.has_events()
    }

    /// Whether there is output to send.
    #[inline]
    pub(super) fn has_output(&self) -> bool {
        self.state.borrow().machine.has_output()
    }

    /// Tells the peer that no more calls come, if the protocol allows it. Returns whether that produced
    /// output.
    pub(super) fn announce_leave(&self) -> bool {
        self.state.borrow_mut().machine.announce_leave()
    }

    /// Whether the peer was told in the protocol's words why the connection ends.
    pub(super) fn has_said_why(&self) -> bool {
        self.state.borrow().machine.has_said_why()
    }

    /// The peer's reason for leaving, formatted for appending to a message; empty if it gave none.
    pub(super) fn go_away_reason(&self) -> String {
        self.state.borrow().calls.go_away_reason()
    }

    /// Fails all calls in flight because the connection is gone.
    pub(super) fn fail_all(&self, why: &str, now: Duration, woken: &mut Vec<Waker>) {
        self.closing.set(true);
        self.gone.set(true);
        let state = &mut *self.state();
        state.calls.timers.set_time(now);
        state.fail_all(why, now, &mut self.pending.borrow_mut(), woken);
        state.machine.discard_output();
        self.in_flight.set(0);
    }

    /// Takes the message bodies that will not be sent any more, to be dropped outside of any borrow.
    #[inline]
    pub(super) fn take_discarded(&self) -> Vec<Bytes> {
        self.state.borrow_mut().machine.take_discarded()
    }
}

impl Drop for ClientConnection {
    fn drop(&mut self) {
        let machine = &mut self.state.get_mut().machine;
        machine.discard_output();
        drop_each(MESSAGE, machine.take_discarded());
    }
}
