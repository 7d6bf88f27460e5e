//! The clients of one core: their pools and pending calls.
//!
//! A call holds keys and finds its objects here, by one access to a thread-local variable.

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};

use ringway_runtime::{self as runtime, CoreHandle, drop_contained, drop_each, sim};

use super::connection::{ClientConnection, PendingTable};
use super::interception::Interception;
use super::pending_calls::{EndedCall, PendingCall, PendingCalls};
use super::pool::Pool;
use super::registry::{self, ClientId};
use super::scratch::Scratch;
use crate::call::status::{Code, Status};
use crate::connection::driver::Clock;
use crate::limits;
use crate::remote::mailbox::{self, Mailbox};
use crate::slab::{Slab, SlabKey};
use crate::waiters;

/// The pool of a client, if it has made calls on this core.
type PoolEntry = Option<(ClientId, Rc<Pool>)>;

pub(super) struct LocalClients {
    /// The core's number among all that ever had a client; `None` if this thread is not such a core.
    core: Cell<Option<u32>>,
    /// The core's mailbox, which stays open as long as this exists.
    mailbox: RefCell<Option<Arc<Mailbox>>>,
    /// The clock of the core's connections.
    clock: Cell<Option<Clock>>,
    /// The pools, by the client's index.
    pools: RefCell<Vec<PoolEntry>>,
    /// Calls that were sent and wait for their reply.
    pending: PendingTable,
    /// Interceptors at work. An entry is empty while it is being polled.
    pub(super) interceptions: RefCell<Slab<Option<Interception>>>,
    /// A reusable buffer for encoding requests and metadata.
    pub(super) scratch: Scratch,
    /// Where the next pool of a simulation begins with its servers.
    phase: Cell<Option<u64>>,
}

thread_local! {
    static LOCAL: LocalClients = LocalClients::new();
}

/// The name of interceptors in reports of panics in their destructors.
pub(super) const INTERCEPTOR: &str = "an interceptor of a client";

/// Calls `f` with the clients of this core.
///
/// # Panics
/// Panics on a thread that is ending.
#[inline]
pub(super) fn with<R>(f: impl FnOnce(&LocalClients) -> R) -> R {
    LOCAL.with(f)
}

/// Calls `f` with the thread's clients, whether it is a core or not; `None` while the thread ends, when
/// destructors may still make calls.
#[inline]
pub(super) fn try_with<R>(f: impl FnOnce(&LocalClients) -> R) -> Option<R> {
    LOCAL.try_with(f).ok()
}

/// Whether this thread is a core.
pub(super) fn is_here() -> bool {
    try_with(LocalClients::core).flatten().is_some()
}

/// Runs `what` on a core: at once if this thread is the core, otherwise through its mailbox. Does nothing
/// if the core has ended.
pub(super) fn on_core(core: u32, what: impl FnOnce(&LocalClients) + Send + 'static) {
    match try_with(|local| local.is(core)) {
        Some(true) => with(what),
        // This also covers destructors of a thread that is ending.
        Some(false) | None => mailbox::post(core, Box::new(move || with(what))),
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
            phase: Cell::new(None),
        }
    }

    /// The number of this core; `None` if the thread is not a core.
    #[inline]
    pub(super) fn core(&self) -> Option<u32> {
        self.core.get().or_else(|| self.open())
    }

    /// Whether this is the core with this number.
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

    /// Closes everything when the core ends.
    fn close(&self) {
        let core = self.core.take();
        self.phase.take();
        drop(self.mailbox.take());
        let pools = self.pools.take();
        if let Some(core) = core {
            registry::leave(pools.iter().flatten().map(|(client, _)| *client), core);
        }
        drop_each("a client", pools);
        // Connections that still exist notify their streams; unary calls are notified here.
        let mut pending = self.pending.borrow_mut().take_all();
        waiters::wake_all(pending.iter_mut().filter_map(PendingCall::take_waker));
        drop_each("a caller", pending);
        let interceptions = self.interceptions.borrow_mut().take_all();
        drop_each(INTERCEPTOR, interceptions);
    }

    /// This core's pool of a client, which is made at first use.
    ///
    /// # Errors
    /// Fails when the client's last handle was dropped.
    #[inline]
    pub(super) fn pool(&self, client: ClientId) -> Result<Rc<Pool>, Status> {
        match self.known_pool(client) {
            Some(pool) => Ok(pool),
            None => self.make_pool(client),
        }
    }

    /// This core's pool of a client, if it was made and is not closed.
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
        let pool = Pool::start(config, &hosts, clock, Rc::clone(&self.pending), self.next_phase());
        let mut pools = self.pools.borrow_mut();
        if pools.len() <= client.index() {
            pools.resize_with(client.index() + 1, || None);
        }
        let former = pools[client.index()].replace((client, Rc::clone(&pool)));
        drop(pools);
        // It belongs to a dropped client, whose job to close it has not arrived yet.
        if let Some((_, former)) = former {
            former.close();
        }
        Ok(pool)
    }

    /// Where the next pool begins with its servers, in parts of 2⁶⁴: many clients that make one call each spread
    /// these evenly.
    fn next_phase(&self) -> u64 {
        static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(fastrand::u64(..)));
        let Some(seed) = sim::seed() else {
            return NEXT.fetch_add(limits::GOLDEN_STEP, Ordering::Relaxed);
        };
        let phase = self.phase.get().unwrap_or_else(|| fastrand::Rng::with_seed(seed).u64(..));
        self.phase.set(Some(phase.wrapping_add(limits::GOLDEN_STEP)));
        phase
    }

    /// Applies the client's current list of hosts.
    pub(super) fn look_at_hosts(&self, client: ClientId) {
        if let (Some(pool), Some(hosts)) = (self.known_pool(client), registry::hosts(client)) {
            pool.set_hosts(&hosts);
        }
    }

    /// Closes the pool of a client whose last handle was dropped.
    pub(super) fn close_pool(&self, client: ClientId) {
        let entry = self
            .pools
            .borrow_mut()
            .get_mut(client.index())
            .and_then(|entry| entry.take_if(|(id, _)| *id == client));
        if let Some((_, pool)) = entry {
            pool.close();
        }
    }

    /// The number of calls that wait for their reply.
    #[cfg(test)]
    pub(super) fn pending_calls(&self) -> usize {
        self.pending.borrow().len()
    }

    /// Polls for the outcome of a call that was sent.
    #[inline]
    pub(super) fn poll_pending(
        &self,
        key: SlabKey,
        cx: &Context<'_>,
    ) -> Poll<EndedCall<Rc<ClientConnection>>> {
        let ended = self.pending.borrow_mut().take_ended(key);
        ended.map_or_else(|| self.poll_unended(key, cx), Poll::Ready)
    }

    /// Polls for the outcome of a call whose caller is polled before its end, which few are.
    #[cold]
    fn poll_unended(
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

    /// Cancels a call and tells its server. Returns whether it had no outcome yet.
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

/// Closes the core's clients when its task is dropped at the core's end.
struct OpenClients;

impl Drop for OpenClients {
    fn drop(&mut self) {
        let _ended_before = try_with(LocalClients::close);
    }
}
