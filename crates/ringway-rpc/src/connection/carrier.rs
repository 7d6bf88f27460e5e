//! The connections that carry streams, and how a handle finds its connection by number.
//!
//! A handle is `Send`, but its connection is not. So a handle holds a [`CarrierId`], the key of an
//! entry in a table of the core's thread. On any other thread the key is not found, and the handle
//! uses a [pipe](crate::stream::remote) to the core instead.

#[cfg(test)]
pub(crate) mod fake_connection;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use ringway_wire::native::Body;

use crate::call::metadata::Metadata;
use crate::call::status::{Code, Status};
use crate::connection::batch::Batch;
use crate::connection::table::StreamKey;
use crate::remote::mailbox::Mailbox;

/// The operations of handles on their connection: a server's or a client's, of any protocol.
///
/// Each stream has a reader and a writer under one key. A carrier keeps both in its
/// [`StreamTable`](crate::connection::table::StreamTable) and stays registered until the table is
/// empty, so that messages received before a connection broke can still be read, and then the
/// cause.
pub(crate) trait Carrier {
    /// Exchanges the reader's empty batch for one with messages, or returns how the stream ended.
    fn poll_messages(
        &self,
        key: StreamKey,
        cx: &mut Context<'_>,
        batch: &mut Batch,
    ) -> Poll<Received>;

    /// Notes that the reader uses `messages` of its batch, so that the machine may grant credit.
    fn taken(&self, key: StreamKey, messages: usize);

    /// Polls for the peer's initial metadata; empty if the peer sends none.
    fn poll_initial(&self, key: StreamKey, cx: &mut Context<'_>) -> Poll<Metadata>;

    /// Polls until the writer is below its stream's mark. Fails when the stream is over.
    fn poll_ready(&self, key: StreamKey, cx: &mut Context<'_>) -> Poll<Result<(), Status>>;

    /// Queues a message, even above the mark. Returns whether the writer is still below it, so that
    /// it need not poll before the next message.
    ///
    /// # Errors
    /// Fails when the stream is over.
    fn send(&self, key: StreamKey, body: Body<'_>) -> Result<bool, Status>;

    /// Finishes the writer: half-closes the stream on a client, has no effect yet on a server.
    fn finish(&self, key: StreamKey);

    /// Cancels the call in both directions.
    fn cancel(&self, key: StreamKey, code: Code, reason: &str);

    /// Drops the reader: a client cancels a call that is not over, a server reads no more.
    fn drop_reader(&self, key: StreamKey);

    /// Drops the writer: a client cancels a call that it has not finished.
    fn drop_writer(&self, key: StreamKey);
}

/// The result of a reader's poll.
#[derive(Debug)]
pub(crate) enum Received {
    /// Messages are in the batch.
    Messages,
    /// The peer has finished; these are its trailers.
    End(Metadata),
    Failed(Status),
}

/// The key of a carrier, unique in the process. A stale key resolves to nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct CarrierId {
    core: u32,
    index: u32,
    generation: u32,
}

impl CarrierId {
    /// Returns the number of the mailbox that takes jobs for this carrier.
    pub(crate) fn core(self) -> u32 {
        self.core
    }
}

/// The carriers of one core.
struct Registry {
    mailbox: Arc<Mailbox>,
    slots: Vec<Slot>,
    free: Vec<u32>,
}

struct Slot {
    generation: u32,
    carrier: Option<Rc<dyn Carrier>>,
}

thread_local! {
    static REGISTRY: RefCell<Option<Registry>> = const { RefCell::new(None) };
}

/// Registers a carrier for the handles of its streams, until [`unregister`].
///
/// # Panics
/// Panics outside of a runtime's thread.
pub(crate) fn register(carrier: Rc<dyn Carrier>) -> CarrierId {
    let (id, replaced) = REGISTRY.with_borrow_mut(|registry| {
        // The thread may have run an earlier core, which left its registry.
        let ended = registry.take_if(|registry| registry.mailbox.is_closed());
        (registry.get_or_insert_with(Registry::open).insert(carrier), ended)
    });
    drop(replaced);
    id
}

/// Unregisters a carrier; it is dropped unless it is in use now.
pub(crate) fn unregister(id: CarrierId) {
    let removed = REGISTRY.try_with(|registry| {
        let mut registry = registry.borrow_mut();
        registry.as_mut().and_then(|registry| registry.remove(id))
    });
    drop(removed);
}

/// Calls `f` with the carrier, if it belongs to this thread and is registered.
#[inline]
pub(crate) fn with<R>(id: CarrierId, f: impl FnOnce(&dyn Carrier) -> R) -> Option<R> {
    let carrier = REGISTRY.try_with(|registry| registry.borrow().as_ref()?.find(id)).ok()??;
    Some(f(&*carrier)) // nothing is borrowed: `f` may register and unregister
}

/// Whether the carrier, registered or not, belongs to the core of this thread.
pub(crate) fn is_here(id: CarrierId) -> bool {
    let here = REGISTRY.try_with(|registry| {
        registry.borrow().as_ref().is_some_and(|registry| registry.mailbox.core() == id.core)
    });
    here.unwrap_or(false)
}

impl Registry {
    fn open() -> Self {
        Self { mailbox: Mailbox::open(), slots: Vec::new(), free: Vec::new() }
    }

    fn insert(&mut self, carrier: Rc<dyn Carrier>) -> CarrierId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, carrier: None });
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        slot.carrier = Some(carrier);
        CarrierId { core: self.mailbox.core(), index, generation: slot.generation }
    }

    fn remove(&mut self, id: CarrierId) -> Option<Rc<dyn Carrier>> {
        self.find(id)?;
        let slot = &mut self.slots[id.index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.index);
        slot.carrier.take()
    }

    #[inline]
    fn find(&self, id: CarrierId) -> Option<Rc<dyn Carrier>> {
        let slot = self.slots.get(id.index as usize)?;
        let current = slot.generation == id.generation && self.mailbox.core() == id.core;
        slot.carrier.clone().filter(|_| current)
    }
}
