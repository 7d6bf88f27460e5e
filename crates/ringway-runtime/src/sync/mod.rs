//! Synchronization primitives for the tasks of one core.
//!
//! None of them is `Send`: they have no atomics and no locks, only `Cell`s, and wake through
//! [`std::task::Waker`], so they work on any executor that polls on one thread. Use the runtime's
//! messages to cross cores.
//!
//! | Type | For |
//! |---|---|
//! | [`oneshot`] | one value, from one task to another |
//! | [`channel`] | a bounded queue between tasks, with backpressure |
//! | [`Mutex`] | a value held across an `.await` |
//! | [`Notify`] | an event without a value |
//! | [`Semaphore`] | a limit on how much happens at once |
//! | [`CancellationToken`] | stopping a tree of tasks |
//!
//! Every future here is cancel-safe: dropping it loses no message, and a turn that it was already
//! given goes to the next waiter. Waiters are served in arrival order and live in slots that are
//! reused, so a primitive allocates only when more tasks wait on it than ever before.

pub mod channel;
pub mod oneshot;

mod cancel;
mod mutex;
mod notify;
mod semaphore;
mod waiters;

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
pub(crate) mod testing;

pub use cancel::{CancellationToken, Cancelled};
pub use mutex::{Locking, Mutex, MutexGuard};
pub use notify::{Notified, Notify};
pub use semaphore::{AcquireError, Acquiring, Permit, Semaphore, TryAcquireError};
