//! What one core of a server knows: its connections, their limits, whether it drains.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ringway_runtime::io::StreamLimits;
use ringway_runtime::now;
use ringway_runtime::sync::{CancellationToken, Notify};

use super::core_number::CoreNumber;
use super::seldom::Seldom;
use super::shared::{CoreShare, ServerShared};
use crate::connection::{Connection, Link, WeakLink};
use crate::limits;
use crate::session::ConnectionId;
use crate::tls::Handshakes;
use crate::transport::Transport;

thread_local! {
    static CONTEXT: RefCell<Option<Rc<CoreContext>>> = const { RefCell::new(None) };
}

/// One of these a core.
pub(crate) struct CoreContext {
    pub(crate) number: usize,
    pub(crate) shared: Arc<ServerShared>,
    pub(crate) limits: Rc<StreamLimits>,
    /// No more connections are accepted.
    pub(crate) stopping: CancellationToken,
    /// The server was asked to stop.
    pub(crate) draining: CancellationToken,
    /// Whoever has not ended is cut off.
    pub(crate) aborting: CancellationToken,
    /// Tasks that bring in something new until the server stops: one a listener, one a datagram
    /// socket.
    pub(crate) listeners: Running,
    pub(crate) datagrams: Running,
    /// TLS connections that are not open yet.
    pub(crate) handshakes: Handshakes,
    /// When it was last said that a connection was lost on its way here.
    pub(crate) lost: Seldom,
    table: RefCell<Table>,
    /// Hands a new connection to the program.
    serve: Box<dyn Fn(Connection)>,
}

/// Counts tasks, so that others can wait for their end.
#[derive(Default)]
pub(crate) struct Running {
    count: Cell<usize>,
    ended: Notify,
}

/// One of them, until it is dropped.
pub(crate) struct Runs<'a>(&'a Running);

/// A connection's place with a server.
pub(crate) struct Place {
    context: Rc<CoreContext>,
    opened: Instant,
}

/// The connections of a core, found by the slot in their ids.
struct Table {
    core: CoreNumber,
    slots: Vec<Slot>,
    /// The one that has been free for longest comes first.
    free: VecDeque<u32>,
}

struct Slot {
    reuse: u32,
    link: WeakLink,
}

impl CoreContext {
    pub(crate) fn new(
        number: usize,
        called: CoreNumber,
        shared: Arc<ServerShared>,
        serve: Box<dyn Fn(Connection)>,
    ) -> Rc<Self> {
        Rc::new(Self {
            number,
            limits: shared.settings.stream_limits(),
            handshakes: Handshakes::new(shared.settings.handshakes_max),
            shared,
            stopping: CancellationToken::new(),
            draining: CancellationToken::new(),
            aborting: CancellationToken::new(),
            listeners: Running::default(),
            datagrams: Running::default(),
            lost: Seldom::default(),
            table: RefCell::new(Table::new(called)),
            serve,
        })
    }

    /// Makes this the context of the calling core.
    pub(crate) fn install(self: &Rc<Self>) {
        CONTEXT.set(Some(Rc::clone(self)));
    }

    /// The context of the calling core, while its server runs there.
    pub(crate) fn current() -> Option<Rc<Self>> {
        CONTEXT.with_borrow(Option::clone)
    }

    /// Takes the context away from the calling core.
    pub(crate) fn uninstall() {
        let former = CONTEXT.take();
        drop(former);
    }

    /// What this core counts.
    pub(crate) fn share(&self) -> &CoreShare {
        self.shared.core(self.number)
    }

    pub(crate) fn count(&self, which: impl FnOnce(&CoreShare) -> &AtomicU64) {
        which(self.share()).fetch_add(1, Ordering::Relaxed);
    }

    /// Registers a connection and hands it to the program.
    pub(crate) fn open(self: &Rc<Self>, transport: Transport) {
        let Some(id) = self.table.borrow_mut().reserve() else {
            self.count(|share| &share.refused);
            if let Some(before) = self.lost.says() {
                let max = limits::SLOTS_MAX;
                tracing::warn!(before, "a core has {max} connections: one more is closed");
            }
            return;
        };
        // Whoever answers reads no further while its answers are not taken.
        transport.stream().set_paced(true);
        let place = Place { context: Rc::clone(self), opened: now() };
        let policy = self.shared.settings.slow_reader;
        let link = Link::new(transport, id, Rc::clone(&self.limits), Some(place), policy);
        let link = Rc::new(link);
        self.table.borrow_mut().slots[id.slot()].link = Rc::downgrade(&link);
        if self.draining.is_cancelled() {
            link.begin_drain();
        }
        (self.serve)(Connection::of_link(link));
    }

    /// The connection, if it is still open.
    pub(crate) fn find(&self, id: ConnectionId) -> Option<Rc<Link>> {
        let table = self.table.borrow();
        let link = table.slots.get(id.slot())?.link.upgrade()?;
        (link.id() == id).then_some(link)
    }

    /// The connections that somebody owns now.
    pub(crate) fn links(&self) -> Vec<Rc<Link>> {
        self.table.borrow().slots.iter().filter_map(|slot| slot.link.upgrade()).collect()
    }

    /// Whether no connection has an owner.
    pub(crate) fn is_deserted(&self) -> bool {
        self.table.borrow().slots.iter().all(|slot| slot.link.strong_count() == 0)
    }

    /// A connection has lost its owner.
    pub(crate) fn forget(&self, id: ConnectionId) {
        let freed = self.table.borrow_mut().free(id);
        drop(freed);
    }
}

impl Running {
    pub(crate) fn begin(&self) -> Runs<'_> {
        self.count.set(self.count.get() + 1);
        Runs(self)
    }

    /// Waits until all of them have ended.
    pub(crate) async fn ended(&self) {
        while self.count.get() > 0 {
            self.ended.notified().await;
        }
    }
}

impl Drop for Runs<'_> {
    fn drop(&mut self) {
        self.0.count.set(self.0.count.get() - 1);
        self.0.ended.notify_waiters();
    }
}

impl Place {
    pub(crate) fn context(&self) -> &Rc<CoreContext> {
        &self.context
    }

    /// For how long the first bytes of the connection may still be on their way, although the server
    /// drains: its peer may have connected before it could know.
    pub(crate) fn grace_left(&self) -> Option<Duration> {
        let age = now().saturating_duration_since(self.opened);
        limits::FIRST_BYTES_WAIT.checked_sub(age).filter(|left| !left.is_zero())
    }
}

impl Table {
    fn new(core: CoreNumber) -> Self {
        Self { core, slots: Vec::new(), free: VecDeque::new() }
    }

    fn reserve(&mut self) -> Option<ConnectionId> {
        let slot = match self.free.pop_front() {
            Some(slot) => slot,
            None if self.slots.len() >= limits::SLOTS_MAX => return None,
            None => {
                self.slots.push(Slot { reuse: self.core.reuse(), link: Weak::new() });
                self.slots.len() as u32 - 1
            }
        };
        Some(ConnectionId::new(self.core.get(), slot, self.slots[slot as usize].reuse))
    }

    /// The link's memory, to be freed outside of the borrow. A slot whose ids are used up is not
    /// used again.
    fn free(&mut self, id: ConnectionId) -> WeakLink {
        let slot = &mut self.slots[id.slot()];
        if let Some(next) = slot.reuse.checked_add(1) {
            slot.reuse = next;
            self.free.push_back(id.slot() as u32);
        }
        std::mem::take(&mut slot.link)
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        let last = self.slots.iter().map(|slot| slot.reuse).max();
        last.into_iter().for_each(|reuse| self.core.note(reuse));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_one_core_take_turns_over_its_slots_and_never_come_again() {
        let called = CoreNumber::take(1).expect("a number").remove(0);
        let core = called.get();
        let mut table = Table::new(called);
        let first: Vec<_> = (0..3).map(|_| table.reserve().expect("room")).collect();
        first.iter().for_each(|&id| drop(table.free(id)));
        let again: Vec<_> = (0..3).map(|_| table.reserve().expect("room")).collect();
        assert!(first.iter().zip(&again).all(|(a, b)| a.slot() == b.slot() && a != b));
        assert!(again.iter().all(|id| !first.contains(id)));

        table.slots[again[0].slot()].reuse = u32::MAX;
        let last = ConnectionId::new(core, again[0].slot() as u32, u32::MAX);
        drop(table.free(last));
        let next = table.reserve().expect("another slot");
        assert_ne!(next.slot(), last.slot(), "its ids are used up");
    }
}
