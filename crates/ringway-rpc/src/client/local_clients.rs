//! The clients of one core: their pools, and the calls under way.
//!
//! A call holds numbers and finds everything here, by one access to a variable of its thread.

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ringway_runtime::{self as runtime, CoreHandle, drop_contained, drop_each};

use super::interception::Interception;
use super::link::Link;
use super::outcome::CallOutcome;
use super::pending_calls::{CellKey, Cells};
use super::pool::Pool;
use super::registry::{self, ClientId};
use super::scratch::Scratch;
use crate::call::status::{Code, Status};
use crate::connection::driver::Clock;
use crate::remote::mailbox::{self, Desk};
use crate::slab::Slab;
use crate::waiters;

/// Names a connection of this core; of one that is gone it names nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LinkKey {
    index: u32,
    generation: u32,
}

/// The pool of a client, if it has made calls on this core.
type PoolPlace = Option<(ClientId, Rc<Pool>)>;

pub(super) struct LocalClients {
    /// Its number among all cores that ever had a client, while this thread is such a core.
    core: Cell<Option<u32>>,
    /// Keeps the core's desk open.
    desk: RefCell<Option<Arc<Desk>>>,
    /// The clocks of the connections count from here.
    origin: Cell<Option<Instant>>,
    /// By the client's index.
    pools: RefCell<Vec<PoolPlace>>,
    links: RefCell<Vec<LinkPlace>>,
    pub(super) cells: RefCell<Cells>,
    /// An entry is empty while it is being polled.
    pub(super) interceptions: RefCell<Slab<Option<Interception>>>,
    /// Memory to encode requests and metadata in.
    pub(super) scratch: Scratch,
}

#[derive(Default)]
struct LinkPlace {
    generation: u32,
    link: Option<Rc<Link>>,
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
            desk: RefCell::new(None),
            origin: Cell::new(None),
            pools: RefCell::default(),
            links: RefCell::default(),
            cells: RefCell::new(Cells::new()),
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
        let desk = Desk::open();
        self.core.set(Some(desk.core()));
        self.desk.replace(Some(desk));
        self.origin.set(Some(runtime::now()));
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
        drop(self.desk.take());
        let pools = self.pools.take();
        if let Some(core) = core {
            registry::leave(pools.iter().flatten().map(|(client, _)| *client), core);
        }
        drop_each("a client", pools);
        let mut woken = Vec::new();
        for link in self.links.take().into_iter().filter_map(|place| place.link) {
            let why = format!("the core of the connection to {} has ended", link.host.address());
            link.fail_all(self, &why, &mut woken);
        }
        drop_contained("a caller", self.cells.replace(Cells::new()));
        let interceptions = self.interceptions.borrow_mut().take_all();
        drop_each(INTERCEPTOR, interceptions);
        waiters::wake_all(woken);
    }

    /// A moment as the machines of this core count it.
    #[inline]
    pub(super) fn since_origin(&self, at: Instant) -> Duration {
        self.origin.get().map_or(Duration::ZERO, |origin| at.saturating_duration_since(origin))
    }

    /// The task of a connection has looked at the clock.
    #[inline]
    pub(super) fn set_look(&self, now: Instant) {
        self.cells.borrow_mut().looked_at = Some(now);
    }

    /// The clock of the connections of this core.
    ///
    /// # Panics
    /// On a thread that is no core.
    pub(super) fn clock(&self) -> Clock {
        Clock::since(self.origin.get().expect("connections are made on cores"))
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
        let pool = Pool::start(config, &hosts);
        let mut pools = self.pools.borrow_mut();
        if pools.len() <= client.index() {
            pools.resize_with(client.index() + 1, || None);
        }
        let former = pools[client.index()].replace((client, Rc::clone(&pool)));
        drop(pools);
        drop(former);
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

    /// Takes in a connection.
    pub(super) fn insert_link(&self, make: impl FnOnce(LinkKey) -> Link) -> Rc<Link> {
        let mut links = self.links.borrow_mut();
        let free = links.iter().position(|place| place.link.is_none());
        let index = free.unwrap_or_else(|| {
            links.push(LinkPlace::default());
            links.len() - 1
        });
        let place = &mut links[index];
        let link = Rc::new(make(LinkKey { index: index as u32, generation: place.generation }));
        place.link = Some(Rc::clone(&link));
        link
    }

    /// Forgets a connection.
    pub(super) fn remove_link(&self, key: LinkKey) {
        let link = self.links.borrow_mut().get_mut(key.index as usize).and_then(|place| {
            let current = place.generation == key.generation;
            let link = place.link.take_if(|_| current);
            place.generation = place.generation.wrapping_add(u32::from(link.is_some()));
            link
        });
        drop(link);
    }

    pub(super) fn link(&self, key: LinkKey) -> Option<Rc<Link>> {
        let links = self.links.borrow();
        let place = links.get(key.index as usize)?;
        place.link.clone().filter(|_| place.generation == key.generation)
    }

    /// Connections.
    #[cfg(test)]
    pub(super) fn links(&self) -> usize {
        self.links.borrow().iter().filter(|place| place.link.is_some()).count()
    }

    /// Whether the connection was lost, or takes no new calls any more.
    pub(super) fn is_leaving(&self, key: LinkKey) -> bool {
        self.link(key).is_none_or(|link| !link.is_open())
    }

    /// Whether the server has lowered its lease on the connection since that was `lease_cuts`.
    pub(super) fn has_cut_lease(&self, key: LinkKey, lease_cuts: u32) -> bool {
        self.link(key).is_some_and(|link| link.lease_cuts() != lease_cuts)
    }

    /// The outcome of a call that was sent. `at` becomes the moment at which it came, where that is
    /// later.
    #[inline]
    pub(super) fn poll_cell(
        &self,
        key: CellKey,
        cx: &Context<'_>,
        at: &mut Instant,
    ) -> Poll<CallOutcome> {
        let mut former = None;
        let polled = self.cells.borrow_mut().poll(key, cx, at, &mut former);
        waiters::discard(former);
        polled
    }

    /// Gives a call up, and tells its server. Whether it had no outcome yet.
    pub(super) fn abandon(&self, key: CellKey, code: Code, reason: &str) -> bool {
        let cell = self.cells.borrow_mut().abandon(key);
        let flight = cell.as_ref().and_then(|cell| cell.flight);
        if let Some(flight) = flight
            && let Some(link) = self.link(flight.link)
        {
            link.end_call(flight.stream, code, reason);
        }
        drop_contained("a caller", cell);
        flight.is_some()
    }
}

/// Closes them when its task is dropped, at the core's end.
struct OpenClients;

impl Drop for OpenClients {
    fn drop(&mut self) {
        let _ended_before = try_with(LocalClients::close);
    }
}
