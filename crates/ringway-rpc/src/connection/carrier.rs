//! The connections that carry streams, and how a handle finds its own: by number.
//!
//! A handle in a user's hands is `Send`, the connection behind it is not. So a handle holds a
//! [`CarrierId`], which names an entry of a table of the core's thread. On any other thread nothing
//! is found there, and the handle goes over a [bridge](crate::stream::remote) instead.

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

/// What a handle asks of its connection, which may be a server's or a client's, of any protocol.
///
/// Each stream has a reader and a writer, known by one key. A carrier keeps both in its
/// [`StreamTable`](crate::connection::table::StreamTable) and stays registered until that is empty, so
/// that what was received before a connection broke can still be read, and the cause thereafter.
pub(crate) trait Carrier {
    /// Exchanges the reader's empty batch for one with messages, or says how the stream ended.
    fn poll_messages(
        &self,
        key: StreamKey,
        cx: &mut Context<'_>,
        batch: &mut Batch,
    ) -> Poll<Received>;

    /// The reader has come to use `messages` of its batch: the machine may grant credit for more.
    fn taken(&self, key: StreamKey, messages: usize);

    /// What the peer said before its first message; empty if it began without.
    fn poll_initial(&self, key: StreamKey, cx: &mut Context<'_>) -> Poll<Metadata>;

    /// Whether the writer is below its stream's mark. An error says that the stream is over.
    fn poll_ready(&self, key: StreamKey, cx: &mut Context<'_>) -> Poll<Result<(), Status>>;

    /// Queues a message, above the mark as well. Whether the writer is still below it, so that it
    /// need not ask before the next message.
    ///
    /// # Errors
    /// When the stream is over.
    fn send(&self, key: StreamKey, body: Body<'_>) -> Result<bool, Status>;

    /// The writer is done: half-close at a client, nothing yet at a server.
    fn finish(&self, key: StreamKey);

    /// Ends the call from this side, in both directions.
    fn cancel(&self, key: StreamKey, code: Code, reason: &str);

    /// The reader is gone: a client cancels a call that is not over, a server reads no more.
    fn drop_reader(&self, key: StreamKey);

    /// The writer is gone: a client cancels a call that it has not finished.
    fn drop_writer(&self, key: StreamKey);
}

/// What a reader gets.
#[derive(Debug)]
pub(crate) enum Received {
    /// They are in the batch.
    Messages,
    /// The peer is done, and these are its trailers.
    End(Metadata),
    Failed(Status),
}

/// Names a carrier in the whole process; of one that is gone it names nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct CarrierId {
    core: u32,
    index: u32,
    generation: u32,
}

impl CarrierId {
    /// The mailbox that takes jobs for this carrier.
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

/// Makes a carrier known to the handles of its streams. It is kept until [`unregister`].
///
/// # Panics
/// Outside of a runtime's thread.
pub(crate) fn register(carrier: Rc<dyn Carrier>) -> CarrierId {
    let (id, replaced) = REGISTRY.with_borrow_mut(|registry| {
        // A thread may have been an earlier core, of which nothing is left but this.
        let ended = registry.take_if(|registry| registry.mailbox.is_closed());
        (registry.get_or_insert_with(Registry::open).insert(carrier), ended)
    });
    drop(replaced);
    id
}

/// Forgets a carrier; it is dropped unless it is in use right now.
pub(crate) fn unregister(id: CarrierId) {
    let removed = REGISTRY.try_with(|registry| {
        let mut registry = registry.borrow_mut();
        registry.as_mut().and_then(|registry| registry.remove(id))
    });
    drop(removed);
}

/// Calls `f` with the carrier, if it belongs to this thread and is still registered.
#[inline]
pub(crate) fn with<R>(id: CarrierId, f: impl FnOnce(&dyn Carrier) -> R) -> Option<R> {
    let carrier = REGISTRY.try_with(|registry| registry.borrow().as_ref()?.find(id)).ok()??;
    Some(f(&*carrier)) // the table is free again: `f` may register and unregister
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
