//! What one core of a server knows: its connections, their limits, whether it drains.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use ringway_runtime::io::StreamLimits;
use ringway_runtime::sync::{CancellationToken, Notify};

use super::shared::{Permit, ServerShared};
use crate::connection::{Connection, Link, WeakLink};
use crate::limits;
use crate::session::ConnectionId;
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
    pub(crate) emptied: Notify,
    table: RefCell<Table>,
    /// Hands a new connection to the program.
    serve: Box<dyn Fn(Connection)>,
    /// Accepted connections that have no place in the table yet.
    pub(crate) arriving: Cell<usize>,
}

/// A connection's place with a server.
pub(crate) struct Place {
    context: Rc<CoreContext>,
    _permit: Permit,
}

/// The connections of a core, found by the slot in their ids.
#[derive(Default)]
struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

struct Slot {
    reuse: u32,
    link: WeakLink,
}

impl CoreContext {
    pub(crate) fn new(
        number: usize,
        shared: Arc<ServerShared>,
        serve: Box<dyn Fn(Connection)>,
    ) -> Rc<Self> {
        Rc::new(Self {
            number,
            limits: shared.settings.stream_limits(),
            shared,
            stopping: CancellationToken::new(),
            draining: CancellationToken::new(),
            aborting: CancellationToken::new(),
            emptied: Notify::new(),
            table: RefCell::default(),
            serve,
            arriving: Cell::new(0),
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
    pub(crate) fn uninstall() -> Option<Rc<Self>> {
        CONTEXT.take()
    }

    /// Registers a connection and hands it to the program.
    pub(crate) fn open(self: &Rc<Self>, transport: Transport, permit: Permit) {
        let Some(id) = self.table.borrow_mut().reserve(self.number) else {
            return tracing::warn!(
                "a core has {} connections: one more is closed",
                limits::SLOTS_MAX
            );
        };
        // Whoever answers reads no further while its answers are not taken.
        transport.stream().set_paced(true);
        let place = Place { context: Rc::clone(self), _permit: permit };
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

    /// The connections that are open now.
    pub(crate) fn links(&self) -> Vec<Rc<Link>> {
        self.table.borrow().slots.iter().filter_map(|slot| slot.link.upgrade()).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        let table = self.table.borrow();
        table.slots.len() == table.free.len() && self.arriving.get() == 0
    }

    /// A connection is closed.
    pub(crate) fn forget(&self, id: ConnectionId) {
        let freed = self.table.borrow_mut().free(id);
        drop(freed);
        self.tell_if_empty();
    }

    pub(crate) fn tell_if_empty(&self) {
        if self.draining.is_cancelled() && self.is_empty() {
            self.emptied.notify_waiters();
        }
    }
}

impl Place {
    pub(crate) fn context(&self) -> &Rc<CoreContext> {
        &self.context
    }
}

impl Table {
    fn reserve(&mut self, core: usize) -> Option<ConnectionId> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.slots.len() >= limits::SLOTS_MAX => return None,
            None => {
                self.slots.push(Slot { reuse: 0, link: Weak::new() });
                self.slots.len() as u32 - 1
            }
        };
        Some(ConnectionId::new(core as u16, slot, self.slots[slot as usize].reuse))
    }

    /// The link's memory, to be freed outside of the borrow.
    fn free(&mut self, id: ConnectionId) -> WeakLink {
        let slot = &mut self.slots[id.slot()];
        slot.reuse = slot.reuse.wrapping_add(1);
        self.free.push(id.slot() as u32);
        std::mem::take(&mut slot.link)
    }
}
