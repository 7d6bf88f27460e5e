//! The mailbox of a core: messages from other cores, and wakes for its tasks.
//!
//! Only a sleeping core costs its senders a system call. The owner sets `parked`, checks again, and
//! sleeps only if nothing is there; a sender stores its message first and takes the flag
//! afterwards, and whoever takes it signals. Every change of `parked` is a read-modify-write, so a
//! sender before the owner's swap is seen by the second check, and a sender after it finds the flag
//! set.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering};
#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering};
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

/// A queue with many senders and one owner. Any thread may send; `prepare_park`, `unpark`, `drain`
/// and `close` belong to the owner.
pub(crate) struct Mailbox<T> {
    /// Set under the lock of `content` when something is added, cleared when it is drained.
    occupied: AtomicBool,
    /// Whether the owner sleeps or is about to; whoever sets it to `false` signals the owner.
    parked: AtomicBool,
    content: Mutex<Content<T>>,
    capacity: usize,
}

struct Content<T> {
    messages: Vec<T>,
    wakes: Vec<u64>,
    /// The tokens in `wakes`, which holds each only once and so is bounded by the owner's tasks.
    tokens: HashSet<u64, BuildHasherDefault<TokenHasher>>,
    closed: bool,
}

/// Whether the sender must signal the owner, which is asleep.
#[must_use = "a core that is not signalled sleeps on"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NeedSignal(pub(crate) bool);

/// The reason why a message was refused, with the message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PushError<T> {
    /// The mailbox holds as many messages as it may.
    Full(T),
    /// The owner has ended.
    Closed(T),
}

impl<T> Mailbox<T> {
    /// Creates a mailbox that holds at most `capacity` messages between two drains.
    pub(crate) fn new(capacity: usize) -> Mailbox<T> {
        let content = Content {
            messages: Vec::new(),
            wakes: Vec::new(),
            tokens: HashSet::default(),
            closed: false,
        };
        Mailbox {
            occupied: AtomicBool::new(false),
            parked: AtomicBool::new(false),
            content: Mutex::new(content),
            capacity,
        }
    }

    /// Adds a message.
    ///
    /// # Errors
    ///
    /// Returns [`PushError::Full`] or [`PushError::Closed`], with the message.
    pub(crate) fn push(&self, message: T) -> Result<NeedSignal, PushError<T>> {
        let mut content = self.lock();
        if content.closed {
            return Err(PushError::Closed(message));
        }
        if content.messages.len() >= self.capacity {
            return Err(PushError::Full(message));
        }
        content.messages.push(message);
        Ok(self.announce(content))
    }

    /// Adds a wake for the task of `token`; the same token counts once between two drains. A closed
    /// mailbox drops it, since its tasks are gone.
    pub(crate) fn wake(&self, token: u64) -> NeedSignal {
        let mut content = self.lock();
        if content.closed || !content.tokens.insert(token) {
            return NeedSignal(false); // whoever added the token before has signalled
        }
        content.wakes.push(token);
        self.announce(content)
    }

    /// Whether there is nothing to drain: one atomic load, for the spin loop.
    pub(crate) fn is_empty(&self) -> bool {
        !self.occupied.load(Ordering::Acquire)
    }

    /// Announces that the owner will sleep. `true` means to sleep, and a sender will signal.
    /// `false` means that something has arrived: drain instead (a signal may follow anyway). Call
    /// [`unpark`](Mailbox::unpark) after the sleep, however it ended.
    pub(crate) fn prepare_park(&self) -> bool {
        self.parked.swap(true, Ordering::AcqRel);
        if self.is_empty() {
            return true;
        }
        self.unpark();
        false
    }

    /// Announces that the owner is awake: senders need not signal.
    pub(crate) fn unpark(&self) {
        // A swap, not a store: a plain store would hide a sender's swap from the next park's.
        self.parked.swap(false, Ordering::AcqRel);
    }

    /// Moves the content to the ends of `messages` and `wakes`, in arrival order. Empty vectors are
    /// swapped with the buffers, so the steady state allocates nothing.
    pub(crate) fn drain(&self, messages: &mut Vec<T>, wakes: &mut Vec<u64>) {
        if self.is_empty() {
            return;
        }
        let mut content = self.lock();
        take_all(&mut content.messages, messages);
        content.take_wakes(wakes);
        self.occupied.store(false, Ordering::Release);
    }

    /// As [`drain`](Mailbox::drain), but leaves the messages, which keep counting towards the
    /// capacity.
    pub(crate) fn drain_wakes(&self, wakes: &mut Vec<u64>) {
        if self.is_empty() {
            return;
        }
        let mut content = self.lock();
        content.take_wakes(wakes);
        self.occupied.store(!content.messages.is_empty(), Ordering::Release);
    }

    /// Refuses further messages. Earlier ones can still be drained, and must be, so that senders
    /// who wait for an answer see their messages dropped.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
    }

    /// Completes a send: marks the mailbox, unlocks, and takes the parked flag.
    fn announce(&self, content: MutexGuard<'_, Content<T>>) -> NeedSignal {
        self.occupied.store(true, Ordering::Release);
        drop(content);
        NeedSignal(self.parked.swap(false, Ordering::AcqRel))
    }

    /// Locks the content. No foreign code runs under the lock, so the content is sound even if it
    /// is poisoned.
    fn lock(&self) -> MutexGuard<'_, Content<T>> {
        self.content.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<T> Content<T> {
    fn take_wakes(&mut self, wakes: &mut Vec<u64>) {
        for token in &self.wakes {
            self.tokens.remove(token); // one by one: `clear` would touch the whole table
        }
        take_all(&mut self.wakes, wakes);
    }
}

fn take_all<T>(from: &mut Vec<T>, to: &mut Vec<T>) {
    if to.is_empty() {
        std::mem::swap(from, to);
    } else {
        to.append(from);
    }
}

/// A hasher for tokens, which one multiplication spreads well enough: they are ours, not chosen by
/// a peer.
#[derive(Default)]
struct TokenHasher(u64);

impl Hasher for TokenHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, token: u64) {
        let product = (self.0 ^ token).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = product ^ (product >> 32); // the table uses the low bits
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
