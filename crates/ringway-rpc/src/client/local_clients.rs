//! The clients of one core: their pools, and the calls under way.
//!
//! A call holds numbers and finds everything here, by one access to a variable of its thread.

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use ringway_runtime::{self as runtime, CoreHandle, drop_contained, drop_each};

use super::connection::{ClientConnection, PendingTable};
use super::interception::Interception;
use super::pending_calls::{EndedCall, PendingCall, PendingCalls};
use super::pool::Pool;
use super::registry::{self, ClientId};
use super::scratch::Scratch;
use crate::call::status::{Code, Status};
use crate::connection::driver::Clock;
use crate::remote::mailbox::{self, Mailbox};
use crate::slab::{Slab, SlabKey};
use crate::waiters;

/// The pool of a client, if it has made calls on this core.
type PoolEntry = Option<(ClientId, Rc<Pool>)>;

pub(super) struct LocalClients {
    /// Its number among all cores that ever had a client, while this thread is such a core.
    core: Cell<Option<u32>>,
    /// Keeps the core's mailbox open.
    mailbox: RefCell<Option<Arc<Mailbox>>>,
    /// The clock of its connections.
    clock: Cell<Option<Clock>>,
    /// By the client's index.
    pools: RefCell<Vec<PoolEntry>>,
    /// Calls that were sent and wait for their reply.
    pending: PendingTable,
    /// Calls that are with interceptors. An entry is empty while it is being polled.
    pub(super) interceptions: RefCell<Slab<Option<Interception>>>,
    /// Memory to encode requests and metadata in.
    pub(super) scratch: Scratch,
}

thread_local! {
    static LOCAL: LocalClients = LocalClients::new();
}

/// What is logged when the destructor of an interceptor panics.
pub(super) const INTERCEPTOR: &str = "an interceptor of a client";

/// Calls `f` with the clients of this core.
///
/// # Panics
/// On a thread that ends, which is no core any more.
#[inline]
pub(super) fn with<R>(f: impl FnOnce(&LocalClients) -> R) -> R {
    LOCAL.with(f)
}

/// Calls `f` with the thread's clients, be it a core or not; `None` while the thread ends, when
/// destructors still make calls.
#[inline]
pub(super) fn try_with<R>(f: impl FnOnce(&LocalClients) -> R) -> Option<R> {
    LOCAL.try_with(f).ok()
}

/// Whether this thread is a core.
pub(super) fn is_here() -> bool {
    try_with(LocalClients::core).flatten().is_some()
}

/// Runs `what` on a core: at once if this is it, else when it comes to it. Nothing happens if it
/// has ended.
pub(super) fn on_core(core: u32, what: impl FnOnce(&LocalClients) + Send + 'static) {
    match try_with(|local| local.is(core)) {
        Some(true) => with(what),
        // Also from the destructors of a thread that ends.
        Some(false) | None => mailbox::place(core, Box::new(move || with(what))),
    }
}

impl LocalClients {
    fn new() -> Self {
        Self {
            core: Cell::new(None),
            mailbox: RefCell::new(None),
            clock: Cell::new(None),
            pools: RefCell::default(),
            pending: Rc::new(RefCell::new(PendingCalls::new())),
            interceptions: RefCell::default(),
            scratch: Scratch::default(),
        }
    }

    /// The number of this core; `None` if the thread is no core.
    #[inline]
    pub(super) fn core(&self) -> Option<u32> {
        self.core.get().or_else(|| self.open())
    }

    /// Whether this is the core with the number.
    pub(super) fn is(&self, core: u32) -> bool {
        self.core.get() == Some(core)
    }

    #[cold]
    fn open(&self) -> Option<u32> {
        if !CoreHandle::is_here() {
            return None;
        }
        let mailbox = Mailbox::open();
        self.core.set(Some(mailbox.core()));
        self.mailbox.replace(Some(mailbox));
        self.clock.set(Some(Clock::of_core()));
        let open = OpenClients;
        runtime::spawn_named("rpc clients of this core", async move {
            let _until_the_core_ends = open;
            pending::<()>().await;
        });
        self.core.get()
    }

    /// The core has ended: what is left of its clients belongs to nobody.
    fn close(&self) {
        let core = self.core.take();
        drop(self.mailbox.take());
        let pools = self.pools.take();
        if let Some(core) = core {
            registry::leave(pools.iter().flatten().map(|(client, _)| *client), core);
        }
        drop_each("a client", pools);
        // Connections that still live tell their streams; calls are told here.
        let mut pending = self.pending.borrow_mut().take_all();
        waiters::wake_all(pending.iter_mut().filter_map(PendingCall::take_waker));
        drop_each("a caller", pending);
        let interceptions = self.interceptions.borrow_mut().take_all();
        drop_each(INTERCEPTOR, interceptions);
    }

    /// This core's pool of a client, made at first use.
    ///
    /// # Errors
    /// When the client's last handle is gone.
    #[inline]
    pub(super) fn pool(&self, client: ClientId) -> Result<Rc<Pool>, Status> {
        match self.known_pool(client) {
            Some(pool) => Ok(pool),
            None => self.make_pool(client),
        }
    }

    /// This core's pool of a client, if it has been made and is not closed.
    #[inline]
    pub(super) fn known_pool(&self, client: ClientId) -> Option<Rc<Pool>> {
        let pools = self.pools.borrow();
        let (id, pool) = pools.get(client.index())?.as_ref()?;
        (*id == client).then(|| Rc::clone(pool))
    }

    #[cold]
    fn make_pool(&self, client: ClientId) -> Result<Rc<Pool>, Status> {
        let core = self.core.get().expect("pools are made on cores");
        let Some((config, hosts)) = registry::join(client, core) else {
            let why = "the client was dropped before its call began";
            return Err(Status::cancelled(why).not_executed());
        };
        let clock = self.clock.get().expect("a core has a clock");
        let pool = Pool::start(config, &hosts, clock, Rc::clone(&self.pending));
        let mut pools = self.pools.borrow_mut();
        if pools.len() <= client.index() {
            pools.resize_with(client.index() + 1, || None);
        }
        let former = pools[client.index()].replace((client, Rc::clone(&pool)));
        drop(pools);
        // It is another client's, gone already, whose order to close it has not come yet.
        if let Some((_, former)) = former {
            former.close();
        }
        Ok(pool)
    }

    /// The client may have another list of hosts.
    pub(super) fn look_at_hosts(&self, client: ClientId) {
        if let (Some(pool), Some(hosts)) = (self.known_pool(client), registry::hosts(client)) {
            pool.set_hosts(&hosts);
        }
    }

    /// The client's last handle is gone.
    pub(super) fn close_pool(&self, client: ClientId) {
        let place = self
            .pools
            .borrow_mut()
            .get_mut(client.index())
            .and_then(|place| place.take_if(|(id, _)| *id == client));
        if let Some((_, pool)) = place {
            pool.close();
        }
    }

    /// Calls that were sent and wait for their reply.
    #[cfg(test)]
    pub(super) fn pending_calls(&self) -> usize {
        self.pending.borrow().len()
    }

    /// The outcome of a call that was sent.
    #[inline]
    pub(super) fn poll_pending(
        &self,
        key: SlabKey,
        cx: &Context<'_>,
    ) -> Poll<EndedCall<Rc<ClientConnection>>> {
        waiters::poll_with(cx.waker(), |waker| {
            let mut former = None;
            let polled = self.pending.borrow_mut().poll(key, waker, &mut former);
            waiters::discard(former);
            polled
        })
    }

    /// Gives a call up, and tells its server. Whether it had no outcome yet.
    pub(super) fn abandon(&self, key: SlabKey, code: Code, reason: &str) -> bool {
        let left = self.pending.borrow_mut().remove(key);
        let under_way = left.as_ref().and_then(PendingCall::under_way);
        if let Some((connection, stream)) = under_way {
            connection.end_call(stream, code, reason);
        }
        let is_unanswered = under_way.is_some();
        drop_contained("a caller", left);
        is_unanswered
    }
}

/// Closes them when its task is dropped, at the core's end.
struct OpenClients;

impl Drop for OpenClients {
    fn drop(&mut self) {
        let _ended_before = try_with(LocalClients::close);
    }
}
