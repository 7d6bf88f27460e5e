//! What a thread has of the clients, if it is a core: their pools, and the operations that run on it.
//!
//! Handles of users hold numbers and find their objects here. So one kind of handle serves cores, tasks of
//! tokio and plain threads.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use ringway_net::remote::mailbox::{self, Mailbox};
use ringway_runtime::{CoreHandle, contain, drop_contained, drop_each, spawn_named};

use crate::client_core::ClientCore;
use crate::client_shared::ClientShared;
pub(crate) use crate::core_number::CoreNumber;

/// An operation under way, wherever its handle is.
#[derive(Clone, Copy)]
pub(crate) struct RunKey {
    core: CoreNumber,
    index: usize,
    serial: u64,
}

/// A future whose output goes into an `Option` of its type.
pub(crate) trait LocalRun {
    fn poll_into(self: Pin<&mut Self>, cx: &mut Context<'_>, output: &mut dyn Any) -> Poll<()>;
}

impl<F: Future> LocalRun for F
where
    F::Output: 'static,
{
    fn poll_into(self: Pin<&mut Self>, cx: &mut Context<'_>, output: &mut dyn Any) -> Poll<()> {
        let place = output.downcast_mut().expect("the place of who began the operation");
        Future::poll(self, cx).map(|value| *place = Some(value))
    }
}

type LocalFuture = Pin<Box<dyn LocalRun>>;

#[derive(Default)]
struct LocalClients {
    /// `None` if this thread is not a core with clients.
    core: Cell<Option<CoreNumber>>,
    mailbox: RefCell<Option<Arc<Mailbox>>>,
    /// A program has few clients, so they are searched in order.
    clients: RefCell<Vec<(u64, Rc<ClientCore>)>>,
    running: RefCell<Slots>,
    /// The core of this thread that was closed last. What its end has called must not begin anew there.
    ended: RefCell<Option<CoreHandle>>,
}

#[derive(Default)]
struct Slots {
    slots: Vec<RunSlot>,
    free: Vec<usize>,
    serial: u64,
}

struct RunSlot {
    serial: u64,
    /// `None` while it is polled.
    future: Option<LocalFuture>,
}

thread_local! {
    static LOCAL: LocalClients = LocalClients::default();
}

/// The number of a client.
pub(crate) fn next_client_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// What `client` has on this core, made at first use; `None` if this is not a core, or not the core `home`.
pub(crate) fn core_of(
    client: &Arc<ClientShared>,
    home: Option<CoreNumber>,
) -> Option<Rc<ClientCore>> {
    let core = LOCAL.try_with(|local| {
        let number = local.number()?;
        if home.is_some_and(|home| home != number) {
            return None;
        }
        Some(local.client(client.id).unwrap_or_else(|| local.start(client, number)))
    });
    core.ok().flatten()
}

/// The number of this core, if it is one that has clients.
pub(crate) fn number() -> Option<CoreNumber> {
    LOCAL.try_with(|local| local.core.get()).ok().flatten()
}

/// Has a core give up what a client has there.
pub(crate) fn forget(core: CoreNumber, client: u64) {
    on_core(core, move |local| {
        let mut clients = local.clients.borrow_mut();
        let at = clients.iter().position(|(id, _)| *id == client);
        let gone = at.map(|at| clients.swap_remove(at));
        drop(clients);
        if let Some((_, core)) = gone {
            contain("a client", || core.leave());
        }
    });
}

/// Gives a core what a client has there, if it is still there.
pub(crate) fn with_core(
    core: CoreNumber,
    client: u64,
    what: impl FnOnce(&Rc<ClientCore>) + Send + 'static,
) {
    on_core(core, move |local| {
        if let Some(core) = local.client(client) {
            what(&core);
        }
    });
}

/// Begins to run a future on this core, which is one with clients.
pub(crate) fn begin(future: LocalFuture) -> RunKey {
    LOCAL.with(|local| {
        let core = local.core.get().expect("the operation has found its client here");
        let mut running = local.running.borrow_mut();
        running.serial += 1;
        let serial = running.serial;
        let slot = RunSlot { serial, future: Some(future) };
        let index = match running.free.pop() {
            Some(index) => {
                running.slots[index] = slot;
                index
            }
            None => {
                running.slots.push(slot);
                running.slots.len() - 1
            }
        };
        RunKey { core, index, serial }
    })
}

/// Polls what was begun. `None` if it is not here: on another thread, or after the end of its core.
pub(crate) fn poll(key: RunKey, cx: &mut Context<'_>, output: &mut dyn Any) -> Option<Poll<()>> {
    let take = |local: &LocalClients| local.slot(key, |slot| slot.future.take())?;
    let mut future = LOCAL.try_with(take).ok()??;
    // Code of the user may run inside, so nothing is borrowed.
    let polled = future.as_mut().poll_into(cx, output);
    if polled.is_pending() {
        LOCAL.with(|local| local.slot(key, |slot| slot.future = Some(future)));
    }
    Some(polled)
}

/// Frees the place of what was begun, and drops it.
pub(crate) fn end(key: RunKey) {
    on_core(key.core, move |local| {
        let future = local.slot(key, |slot| slot.future.take());
        if future.is_some() {
            let mut running = local.running.borrow_mut();
            running.slots[key.index].serial = 0;
            running.free.push(key.index);
        }
        drop_contained("an operation", future);
    });
}

/// Runs `what` on a core: at once if this thread is the core, otherwise through its mailbox. Does nothing
/// if the core has ended.
fn on_core(core: CoreNumber, what: impl FnOnce(&LocalClients) + Send + 'static) {
    match LOCAL.try_with(|local| local.core.get() == Some(core)) {
        Ok(true) => LOCAL.with(what),
        _ => mailbox::post(core, Box::new(move || LOCAL.with(what))),
    }
}

impl LocalClients {
    fn number(&self) -> Option<CoreNumber> {
        self.core.get().or_else(|| self.open())
    }

    #[cold]
    fn open(&self) -> Option<CoreNumber> {
        let is_ending = || self.ended.borrow().as_ref().is_some_and(CoreHandle::is_current);
        if !CoreHandle::is_here() || is_ending() {
            return None;
        }
        self.ended.replace(None);
        let mailbox = Mailbox::open();
        self.core.set(Some(mailbox.core()));
        self.mailbox.replace(Some(mailbox));
        let open = OpenClients;
        spawn_named("mongo clients of this core", async move {
            let _until_the_core_ends = open;
            std::future::pending::<()>().await;
        });
        self.core.get()
    }

    fn client(&self, id: u64) -> Option<Rc<ClientCore>> {
        let clients = self.clients.borrow();
        clients.iter().find(|(known, _)| *known == id).map(|(_, core)| Rc::clone(core))
    }

    #[cold]
    fn start(&self, client: &Arc<ClientShared>, number: CoreNumber) -> Rc<ClientCore> {
        let core = ClientCore::start(client);
        self.clients.borrow_mut().push((client.id, Rc::clone(&core)));
        client.is_on(number, core.deployment().view());
        core
    }

    fn slot<R>(&self, key: RunKey, what: impl FnOnce(&mut RunSlot) -> R) -> Option<R> {
        if self.core.get() != Some(key.core) {
            return None;
        }
        let mut running = self.running.borrow_mut();
        let slot = running.slots.get_mut(key.index).filter(|slot| slot.serial == key.serial);
        slot.map(what)
    }

    /// Drops everything when the core ends.
    fn close(&self) {
        self.core.set(None);
        self.ended.replace(CoreHandle::is_here().then(CoreHandle::current));
        drop(self.mailbox.take());
        let running = std::mem::take(&mut self.running.borrow_mut().slots);
        self.running.borrow_mut().free.clear();
        drop_each("an operation", running.into_iter().map(|slot| slot.future));
        let clients = self.clients.take();
        drop_each("a client", clients);
    }
}

/// Closes the clients of a core when its task is dropped.
struct OpenClients;

impl Drop for OpenClients {
    fn drop(&mut self) {
        let _thread_may_be_ending = LOCAL.try_with(LocalClients::close);
    }
}
