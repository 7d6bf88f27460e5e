//! The client's end of a connection, from its first byte to its end.

use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use ringway_net::{Address, Connection, TlsStream, View};
use ringway_runtime as runtime;
use ringway_wire::native::{Outgoing, PREFACE, Violation};

use super::link::Link;
use super::local_clients;
use super::pool::Pool;
use super::pool_host::Usefulness;
use crate::connection::driver::{Closed, Driver, Endpoint, Flow};
use crate::limits;
use crate::waiters;

/// The task of a connection of `pool`.
pub(super) fn drive(connection: Connection, link: Rc<Link>, pool: Rc<Pool>) -> Driver<ClientEnd> {
    let clock = local_clients::with(|local| local.clock());
    let why = format!("the core of the connection to {} has ended", link.host.address());
    let (began, heard, foreign) = (clock.now(), false, false);
    let end =
        ClientEnd { link, pool, idle_since: None, began, heard, foreign, woken: Vec::new(), why };
    Driver::new(connection, end, clock)
}

/// Lets its calls fail when it is dropped, whatever has ended the task.
pub(super) struct ClientEnd {
    link: Rc<Link>,
    pool: Rc<Pool>,
    /// Since when nothing is under way.
    idle_since: Option<Duration>,
    began: Duration,
    /// The peer has said something, so it is there.
    heard: bool,
    /// It is no server of ours, or was given up: nothing is sent to it any more.
    foreign: bool,
    woken: Vec<Waker>,
    /// Why it ends, for the calls that are under way then.
    why: String,
}

impl ClientEnd {
    /// Whether the peer has said anything.
    pub(super) fn has_heard(&self) -> bool {
        self.heard
    }

    /// What the connection was good for. A server that sends its clients away as soon as they come
    /// would be connected to in a loop, if to have heard of it was enough.
    fn usefulness(&self) -> Usefulness {
        let lasted = || local_clients::try_with(|local| local.clock().now()).unwrap_or_default();
        let worked = self.link.has_answered()
            || self.link.is_closed_here()
            || self.heard && lasted().saturating_sub(self.began) >= limits::RECONNECT_DELAY_MAX;
        match (worked, self.heard) {
            (true, _) => Usefulness::Worked,
            (false, true) => Usefulness::Greeted,
            (false, false) => Usefulness::None,
        }
    }

    /// Says why it is dropped before its end.
    pub(super) fn give_up(&mut self, why: String) {
        self.why = why;
    }

    /// Tells its calls why the connection has ended.
    pub(super) fn tell(&mut self, ended: Closed<Violation>) {
        let address = self.link.host.address();
        self.why = match ended {
            Closed::Wanted => return,
            Closed::ByPeer if !self.heard => closed_in_silence(address),
            Closed::ByPeer => {
                format!("{address} has closed the connection{}", self.link.farewell())
            }
            Closed::Lost(error) if !self.heard => {
                format!("{}: {error}", closed_in_silence(address))
            }
            Closed::Lost(error) => format!("the connection to {address} was lost: {error}"),
            Closed::Violated(violation @ Violation::PeerLeft { .. }) => {
                format!("no connection to {address}: {violation}")
            }
            Closed::Violated(violation) => format!("{address} broke the protocol: {violation}"),
            Closed::GivenUp(violation) => format!("{address} was given up: {violation}"),
        };
    }

    /// Whether the first bytes may be those of a server of ours.
    fn speaks_our_protocol(&mut self, first: &[u8]) -> bool {
        let common = first.len().min(PREFACE_MARK);
        let is_ours = first[..common] == PREFACE[..common];
        if !is_ours {
            let address = self.link.host.address();
            self.why = match TlsStream::is_alert(first) {
                true => format!("{address} expects TLS: connect to it by a tls:// address"),
                false => format!("{address} speaks another protocol than a server of this one"),
            };
        }
        is_ours
    }
}

impl Endpoint for ClientEnd {
    type Violation = Violation;

    fn begin_turn(&self, waker: &Waker) {
        self.link.turn_begins(waker);
        local_clients::with(|local| local.set_look(runtime::now()));
    }

    fn handle_input(&mut self, view: Option<&View>, now: Duration) -> Result<(), Violation> {
        if let Some(first) = view.filter(|_| !self.heard)
            && !self.speaks_our_protocol(first)
        {
            self.foreign = true;
            return Ok(());
        }
        self.heard |= view.is_some();
        let taken =
            local_clients::with(|local| self.link.take_in(local, view, now, &mut self.woken));
        self.foreign |= taken.is_err();
        taken
    }

    fn has_events(&self) -> bool {
        self.link.has_events()
    }

    fn is_full(&self) -> bool {
        self.foreign
    }

    fn next_timeout(&self) -> Option<Duration> {
        self.link.next_time()
    }

    fn handle_timeout(&mut self, now: Duration) -> Result<(), Violation> {
        let outcome = local_clients::with(|local| self.link.on_time(local, now, &mut self.woken));
        self.foreign |= outcome.is_err();
        outcome
    }

    fn poll_transmit(&mut self, room: usize, out: &mut dyn FnMut(Outgoing<'_>)) {
        self.link.give_out(room, out);
    }

    fn has_output(&self) -> bool {
        self.link.has_output()
    }

    /// The marks of the connection are set so that it has drained only when there is room again.
    fn send_mark(&self) -> usize {
        limits::OUTPUT_QUEUED_MAX
    }

    fn after_round(&mut self, now: Duration) -> Flow {
        waiters::wake_all(self.woken.drain(..));
        if self.pool.has_waiting() {
            if !self.link.is_open() {
                self.pool.stir(); // they need another connection
            }
            self.pool.offer();
        }
        if self.foreign {
            return Flow::Close;
        }
        if self.link.in_flight() > 0 {
            self.idle_since = None;
            return Flow::Wait(None);
        }
        let since = *self.idle_since.get_or_insert(now);
        let spare_at = Some(since + limits::SPARE_CONNECTION_KEPT);
        let spare_at = spare_at.filter(|_| self.link.host.has_spare());
        if spare_at.is_some_and(|at| at <= now) {
            self.link.close();
        }
        if self.link.is_open() {
            return Flow::Wait(spare_at);
        }
        self.why = not_needed(self.link.host.address());
        Flow::CloseWhenSent
    }

    fn end_turn(&self) {
        self.link.turn_ends();
    }

    fn says_its_end(&self) -> bool {
        self.link.in_flight() == 0 && !self.link.has_output()
    }
}

/// Bytes of the preface that do not depend on the version.
const PREFACE_MARK: usize = 4;

fn closed_in_silence(address: &Address) -> String {
    let or_tls = match address {
        Address::Tcp(_) => ", or it expects TLS and a tls:// address",
        _ => "",
    };
    format!(
        "{address} has closed the connection before it said anything: it is about to stop, or does not \
         speak the protocol of this client{or_tls}"
    )
}

fn not_needed(address: &Address) -> String {
    format!("the connection to {address} was not needed any more")
}

impl Drop for ClientEnd {
    /// Calls that are under way fail, and whoever waits for room looks for another connection.
    fn drop(&mut self) {
        let usefulness = self.usefulness();
        let _core_ends = local_clients::try_with(|local| {
            self.link.fail_all(local, &self.why, &mut self.woken);
            local.remove_link(self.link.key);
        });
        self.link.forget_if_unused();
        if self.link.host.lost(&self.link, usefulness, &self.why) {
            self.pool.unreachable(&self.link.host);
        }
        waiters::wake_all(self.woken.drain(..));
        self.pool.changed(Some(self.link.host.id()));
    }
}
