//! The client's end of a connection, from the first byte to the last.

use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use ringway_net::{Connection, View};
use ringway_runtime::drop_each;
use ringway_wire::native::Outgoing;

use super::connection::ClientConnection;
use super::endpoint::{PoolEndpoint, Usefulness};
use super::greeting::{closed_in_silence, protocol_mismatch};
use super::load_balancer::EndpointId;
use super::machine::Violation;
use crate::connection::driver::{Clock, Closed, Driver, Endpoint, Flow, MESSAGE};
use crate::limits;
use crate::waiters;

/// Receives news of a connection's room and loss. Connections know nothing else of their pool.
pub(super) trait ConnectionListener {
    /// Called after a connection has had input, output or a timeout. `is_open` tells whether it accepts
    /// calls, now or later.
    fn after_round(&self, is_open: bool);

    /// Called when an attempt to connect to the endpoint, or a connection to it, has ended.
    fn changed(&self, endpoint: EndpointId);
}

/// Makes the driver of a connection of `endpoint`.
pub(super) fn drive(
    io: Connection,
    connection: Rc<ClientConnection>,
    endpoint: Rc<PoolEndpoint>,
    listener: Rc<dyn ConnectionListener>,
    clock: Clock,
) -> Driver<ClientEnd> {
    let why = format!("the core of the connection to {} has ended", connection.address());
    let end = ClientEnd {
        connection,
        endpoint,
        listener,
        clock,
        idle_since: None,
        began: clock.now(),
        heard: false,
        foreign: false,
        woken: Vec::new(),
        why,
    };
    Driver::new(io, end)
}

/// The client's end of a connection. Dropping it fails its calls, whatever has ended the task.
pub(super) struct ClientEnd {
    connection: Rc<ClientConnection>,
    endpoint: Rc<PoolEndpoint>,
    listener: Rc<dyn ConnectionListener>,
    clock: Clock,
    /// The time since which no call is in flight.
    idle_since: Option<Duration>,
    began: Duration,
    /// Whether the peer has sent anything.
    heard: bool,
    /// Whether nothing more is sent, because the peer speaks another protocol or was given up.
    foreign: bool,
    woken: Vec<Waker>,
    /// The message for calls in flight when the connection ends.
    why: String,
}

impl ClientEnd {
    /// Whether the peer has sent anything.
    pub(super) fn has_heard(&self) -> bool {
        self.heard
    }

    /// What the connection was good for. Having received something is not enough: a server that turns its
    /// clients away at once would be connected to in a loop.
    fn usefulness(&self) -> Usefulness {
        let was_there = self.heard || !self.connection.address().is_greeting();
        let worked = self.connection.has_answered()
            || self.connection.is_closed_here()
            || was_there && self.lasted() >= limits::RECONNECT_DELAY_MAX;
        match (worked, self.heard) {
            (true, _) => Usefulness::Worked,
            (false, true) => Usefulness::Greeted,
            (false, false) => Usefulness::None,
        }
    }

    /// The age of the connection.
    fn lasted(&self) -> Duration {
        self.clock.now().saturating_sub(self.began)
    }

    /// Sets the message for calls if the connection is dropped early.
    pub(super) fn give_up(&mut self, why: String) {
        self.why = why;
    }

    /// The message for calls when the connection closes because it takes no more of them.
    fn why_over(&self) -> String {
        let address = self.connection.address();
        match self.connection.is_closed_here() {
            true => format!("the connection to {address} was not needed any more"),
            false => {
                let reason = self.connection.go_away_reason();
                format!("{address} takes no more calls on the connection{reason}")
            }
        }
    }

    /// Sets the message for calls from how the connection has ended.
    pub(super) fn explain(&mut self, ended: Closed<Violation>) {
        let address = self.connection.address();
        self.why = match ended {
            Closed::Wanted => return,
            Closed::ByPeer if !self.heard => closed_in_silence(address),
            Closed::ByPeer => {
                format!("{address} has closed the connection{}", self.connection.go_away_reason())
            }
            Closed::Lost(error) if !self.heard => {
                format!("{}: {error}", closed_in_silence(address))
            }
            Closed::Lost(error) => format!("the connection to {address} was lost: {error}"),
            Closed::Violated(violation) if violation.is_leave() => {
                format!("no connection to {address}: {violation}")
            }
            Closed::Violated(violation) => format!("{address} broke the protocol: {violation}"),
            Closed::GivenUp(violation) => format!("{address} was given up: {violation}"),
        };
    }
}

impl Endpoint for ClientEnd {
    type Violation = Violation;

    fn begin_turn(&self, waker: &Waker) {
        self.connection.task().begin_turn(waker);
    }

    fn handle_input(&mut self, view: Option<&View>, now: Duration) -> Result<(), Violation> {
        if let Some(first) = view.filter(|_| !self.heard)
            && let Some(why) = protocol_mismatch(self.connection.address(), first)
        {
            self.why = why;
            self.foreign = true;
            return Ok(());
        }
        self.heard |= view.is_some();
        let taken = self.connection.handle_input(view, now, &mut self.woken);
        self.foreign |= taken.is_err();
        taken
    }

    fn has_events(&self) -> bool {
        self.connection.has_events()
    }

    fn is_full(&self) -> bool {
        self.foreign
    }

    fn next_timeout(&self) -> Option<Duration> {
        self.connection.next_timeout()
    }

    fn handle_timeout(&mut self, now: Duration) -> Result<(), Violation> {
        let outcome = self.connection.handle_timeout(now, &mut self.woken);
        self.foreign |= outcome.is_err();
        outcome
    }

    fn poll_transmit(&mut self, room: usize, out: &mut dyn FnMut(Outgoing<'_>)) {
        self.connection.poll_transmit(room, out);
    }

    fn has_output(&self) -> bool {
        self.connection.has_output()
    }

    /// The connection's marks are set so that it counts as drained only when there is room again.
    fn send_mark(&self) -> usize {
        limits::OUTPUT_QUEUED_MAX
    }

    fn after_round(&mut self, now: Duration) -> Flow {
        if self.foreign {
            return Flow::Close;
        }
        if self.connection.in_flight() > 0 {
            self.idle_since = None;
            return Flow::Wait(None);
        }
        let since = *self.idle_since.get_or_insert(now);
        let spare_at = Some(since + limits::SPARE_CONNECTION_KEPT);
        let spare_at = spare_at.filter(|_| self.endpoint.has_spare());
        if spare_at.is_some_and(|at| at <= now) {
            self.connection.close();
        }
        if self.connection.is_open() {
            return Flow::Wait(spare_at);
        }
        self.why = self.why_over();
        match self.connection.announce_leave() {
            true => Flow::Again,
            false => Flow::CloseWhenSent,
        }
    }

    /// Reads the answer that it makes whole; nothing is to leave any more.
    fn on_end_of_input(&mut self) -> bool {
        self.connection.end_input(self.clock.now(), &mut self.woken);
        false
    }

    fn end_turn(&mut self) {
        self.connection.task().end_turn();
        waiters::wake_all(self.woken.drain(..));
        self.listener.after_round(self.connection.is_open());
    }

    fn take_discarded(&mut self) -> Vec<Bytes> {
        self.connection.take_discarded()
    }

    fn announces_its_end(&self) -> bool {
        // A reset would overtake what the peer was told.
        let is_clean = self.connection.in_flight() == 0 || self.connection.has_said_why();
        is_clean && !self.connection.has_output()
    }
}

impl Drop for ClientEnd {
    /// Fails the calls in flight, and lets calls that wait for room look for another connection.
    fn drop(&mut self) {
        let usefulness = self.usefulness();
        self.connection.fail_all(&self.why, self.clock.now(), &mut self.woken);
        self.connection.forget_if_unused();
        self.endpoint.lost(&self.connection, usefulness, &self.why);
        waiters::wake_all(self.woken.drain(..));
        drop_each(MESSAGE, self.connection.take_discarded());
        self.listener.changed(self.endpoint.id());
    }
}
