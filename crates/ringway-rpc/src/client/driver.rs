//! The task of one connection: brings what arrives to the machine and carries its output away, once
//! a turn of the core.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use ringway_net::{Address, Connection, TlsStream};
use ringway_runtime::{self as runtime, Sleep};
use ringway_wire::native::{Outgoing, PREFACE, Violation};

use super::hub::{self, Hub};
use super::link::Link;
use super::pool::Pool;
use super::pool_host::Usefulness;
use crate::limits;
use crate::waiters;

pub(super) struct Driver {
    connection: Connection,
    link: Rc<Link>,
    pool: Rc<Pool>,
    timer: Sleep,
    /// When the timer fires.
    armed: Option<Instant>,
    /// Since when nothing is under way.
    idle_since: Option<Instant>,
    began: Instant,
    /// The peer has said something, so it is there.
    heard: bool,
    woken: Vec<Waker>,
    /// Why it ends, for the calls that are under way then.
    why: String,
}

impl Driver {
    pub(super) fn new(connection: Connection, link: Rc<Link>, pool: Rc<Pool>) -> Self {
        let why = format!("the core of the connection to {} has ended", link.host.address());
        Self {
            connection,
            link,
            pool,
            timer: runtime::sleep(Duration::ZERO),
            armed: None,
            idle_since: None,
            began: runtime::now(),
            heard: false,
            woken: Vec::new(),
            why,
        }
    }

    /// Whether the peer has said anything.
    pub(super) fn has_heard(&self) -> bool {
        self.heard
    }

    /// What the connection was good for. A server that sends its clients away as soon as they come
    /// would be connected to in a loop, if to have heard of it was enough.
    fn usefulness(&self) -> Usefulness {
        let lasted = || runtime::now().saturating_duration_since(self.began);
        let worked = self.link.has_answered()
            || self.link.is_closed_here()
            || self.heard && lasted() >= limits::RECONNECT_DELAY_MAX;
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

    fn turn(&mut self, hub: &Hub, cx: &mut Context<'_>) -> Poll<()> {
        let now = runtime::now();
        hub.set_look(now);
        let since_origin = hub.since_origin(now);
        let mut ended = self.receive(hub, since_origin, cx);
        if let Err(violation) = self.link.on_time(hub, since_origin, &mut self.woken) {
            ended = self.ends(|address| format!("{address} was given up: {violation}"));
        }
        self.flush(cx);
        if self.link.has_events() {
            // Streams that have room again; a failure is told by receiving.
            let _failed = self.link.take_in(hub, None, since_origin, &mut self.woken);
        }
        waiters::wake_all(self.woken.drain(..));
        if self.pool.has_waiting() {
            if !self.link.is_open() {
                self.pool.stir(); // they need another connection
            }
            self.pool.offer();
        }
        if ended.is_pending() {
            ended = self.rest(hub, now, cx);
        }
        ended
    }

    /// Takes in what has arrived. Ready when nothing more can come.
    fn receive(&mut self, hub: &Hub, now: Duration, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..limits::VIEWS_PER_TURN {
            let view = match self.connection.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(Some(view))) => view,
                Poll::Ready(Ok(None)) if !self.heard => return self.ends(closed_in_silence),
                Poll::Ready(Ok(None)) => {
                    let why = self.link.farewell();
                    return self
                        .ends(|address| format!("{address} has closed the connection{why}"));
                }
                Poll::Ready(Err(error)) if !self.heard => {
                    return self.ends(|address| format!("{}: {error}", closed_in_silence(address)));
                }
                Poll::Ready(Err(error)) => {
                    return self
                        .ends(|address| format!("the connection to {address} was lost: {error}"));
                }
            };
            if !self.heard && !self.speaks_our_protocol(&view) {
                return Poll::Ready(());
            }
            self.heard = true;
            let taken = self.link.take_in(hub, Some(&view), now, &mut self.woken);
            match taken {
                Ok(()) => {}
                Err(violation @ Violation::PeerLeft { .. }) => {
                    return self.ends(|address| format!("no connection to {address}: {violation}"));
                }
                Err(violation) => {
                    return self
                        .ends(|address| format!("{address} broke the protocol: {violation}"));
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Whether the first bytes may be those of a server of ours.
    fn speaks_our_protocol(&mut self, first: &[u8]) -> bool {
        let common = first.len().min(PREFACE_MARK);
        let is_ours = first[..common] == PREFACE[..common];
        if !is_ours {
            let _ended = match TlsStream::is_alert(first) {
                true => self.ends(|address| {
                    format!("{address} expects TLS: connect to it by a tls:// address")
                }),
                false => self.ends(|address| {
                    format!("{address} speaks another protocol than a server of this one")
                }),
            };
        }
        is_ours
    }

    /// Queues the machine's output, a bounded number of bytes ahead of the kernel, so that a small
    /// message does not wait behind megabytes. The marks of the connection are set so that it has
    /// drained only when there is room again.
    fn flush(&mut self, cx: &mut Context<'_>) {
        let connection = &self.connection;
        while self.link.has_output() {
            let queued = connection.queued_bytes();
            let room = limits::OUTPUT_QUEUED_MAX.saturating_sub(queued);
            if room == 0 {
                if let Poll::Ready(Ok(())) = connection.poll_drained(cx) {
                    cx.waker().wake_by_ref();
                }
                return; // a failure is told by receiving
            }
            self.link.give_out(room, &mut |out| match out {
                Outgoing::Copy(bytes) => drop(connection.write(bytes)),
                Outgoing::Shared(bytes) => drop(connection.send(bytes)),
            });
            if connection.queued_bytes() == queued {
                return; // closed, or nothing to be had at the moment
            }
        }
    }

    /// Nothing more to do now: arms the timer. Ready when the connection is not needed any more.
    fn rest(&mut self, hub: &Hub, now: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let spare_at = if self.link.in_flight() > 0 {
            self.idle_since = None;
            None
        } else if !self.link.is_open() && !self.link.has_output() {
            return self.ends(not_needed);
        } else {
            let since = *self.idle_since.get_or_insert(now);
            Some(since + limits::SPARE_CONNECTION_KEPT).filter(|_| self.link.host.has_spare())
        };
        if spare_at.is_some_and(|at| at <= now) {
            self.link.close();
            return self.ends(not_needed);
        }
        let next = self.link.next_time().and_then(|next| hub.instant(next));
        let wanted = match (next, spare_at) {
            (Some(next), Some(spare)) => Some(next.min(spare)),
            (next, spare) => next.or(spare),
        };
        self.arm(wanted, now, cx);
        Poll::Pending
    }

    /// Lets the timer fire at `wanted` or before. It is moved only to fire earlier or anew: one that
    /// fires too early is cheaper than one that is moved with each call.
    fn arm(&mut self, wanted: Option<Instant>, now: Instant, cx: &mut Context<'_>) {
        let Some(wanted) = wanted else {
            return;
        };
        if self.armed.is_some_and(|armed| armed > now && armed <= wanted) {
            return;
        }
        self.timer.reset(wanted);
        self.armed = Some(wanted);
        if Pin::new(&mut self.timer).poll(cx).is_ready() {
            self.armed = None;
            cx.waker().wake_by_ref();
        }
    }

    fn ends(&mut self, why: impl FnOnce(&Address) -> String) -> Poll<()> {
        self.why = why(self.link.host.address());
        Poll::Ready(())
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

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.link.turn_begins(cx.waker());
        let turned = hub::with(|hub| self.turn(hub, cx));
        self.link.turn_ends();
        turned
    }
}

impl Drop for Driver {
    /// Calls that are under way fail, and whoever waits for room looks for another connection.
    fn drop(&mut self) {
        let usefulness = self.usefulness();
        if self.link.in_flight() == 0 && !self.link.has_output() {
            self.connection.shutdown(); // nothing is cut off
        }
        let _core_ends = hub::try_with(|hub| {
            self.link.fail_all(hub, &self.why, &mut self.woken);
            hub.remove_link(self.link.key);
        });
        self.link.forget_if_unused();
        if self.link.host.lost(&self.link, usefulness, &self.why) {
            self.pool.unreachable(&self.link.host);
        }
        waiters::wake_all(self.woken.drain(..));
        self.pool.changed(Some(self.link.host.id()));
    }
}
