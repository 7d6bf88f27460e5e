//! The failures and the end of a runtime's cores, for those who wait for them.

use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::contain::{contain, drop_waker, wake};
use crate::park;

/// The reason why a core has ended without being asked to.
///
/// A panic of a task, handler, destructor or waker does not end a core. A fault of the kernel
/// interface, or of Ringway itself, does: the core's tasks are dropped, their handles told, and its
/// listeners and sockets closed. The other cores continue.
#[derive(Clone, Debug)]
pub struct CoreFailure {
    core: usize,
    cause: EndCause,
}

/// The reason why a core stopped.
#[derive(Clone, Debug)]
pub(super) enum EndCause {
    Panicked(Arc<str>),
    Failed(Arc<io::Error>),
}

impl CoreFailure {
    /// The core, as its index in [`Runtime::cores`](super::Runtime::cores).
    pub fn core(&self) -> usize {
        self.core
    }

    /// Whether the core panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self.cause, EndCause::Panicked(_))
    }
}

impl fmt::Display for CoreFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "core {} {}", self.core, self.cause)
    }
}

impl Error for CoreFailure {}

impl fmt::Display for EndCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked(message) => write!(f, "panicked: {message}"),
            Self::Failed(error) => write!(f, "failed: {error}"),
        }
    }
}

impl From<EndCause> for io::Error {
    fn from(cause: EndCause) -> Self {
        match cause {
            EndCause::Panicked(message) => {
                io::Error::other(format!("the core panicked: {message}"))
            }
            EndCause::Failed(error) => match error.raw_os_error() {
                Some(errno) => io::Error::from_raw_os_error(errno),
                None => io::Error::new(error.kind(), error),
            },
        }
    }
}

/// The state that a runtime and its cores' threads share.
#[derive(Default)]
pub(super) struct Fate {
    state: Mutex<FateState>,
}

#[derive(Default)]
struct FateState {
    running: usize,
    /// The first failure.
    failure: Option<CoreFailure>,
    /// Wakers of the [`Failed`] futures that were polled and not dropped yet.
    waiters: Vec<(u64, Waker)>,
    next_waiter: u64,
}

thread_local! {
    /// The runtime to which this thread's core belongs, as the address of its `Fate`; 0 on other
    /// threads. It has no destructor, so it can be read at any time in a thread's life.
    static MINE: Cell<usize> = const { Cell::new(0) };
}

impl Fate {
    /// Counts a core's thread that was started.
    pub(super) fn begin(&self) {
        self.lock().running += 1;
    }

    /// Marks the calling thread as one of the cores' threads.
    pub(super) fn adopt_thread(self: &Arc<Self>) {
        MINE.set(Arc::as_ptr(self) as usize);
    }

    /// Whether the calling thread is one of the cores' threads.
    pub(super) fn is_mine(self: &Arc<Self>) -> bool {
        MINE.get() == Arc::as_ptr(self) as usize
    }

    /// Records that a core has stopped and is about to be ended.
    pub(super) fn failed(&self, core: usize, cause: EndCause) {
        let failure = CoreFailure { core, cause };
        contain("a log subscriber", || tracing::error!("{failure}; the core ends"));
        let mut state = self.lock();
        state.failure.get_or_insert(failure);
        tell(state);
    }

    /// Records that a core's thread has ended.
    pub(super) fn ended(&self) {
        let mut state = self.lock();
        state.running -= 1;
        if state.running == 0 {
            tell(state);
        }
    }

    pub(super) fn failure(&self) -> Option<CoreFailure> {
        self.lock().failure.clone()
    }

    fn lock(&self) -> MutexGuard<'_, FateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes everybody who waits, outside the lock.
fn tell(mut state: MutexGuard<'_, FateState>) {
    let waiters = std::mem::take(&mut state.waiters);
    drop(state);
    for (_, waker) in waiters {
        wake(waker);
    }
}

/// A future of a core's failure, made by [`Runtime::failed`](super::Runtime::failed). `None` when
/// the runtime has ended without one.
#[must_use = "a future does nothing until it is awaited"]
pub struct Failed {
    fate: Arc<Fate>,
    waiter: Option<u64>,
}

impl Failed {
    pub(super) fn of(fate: &Arc<Fate>) -> Self {
        Self { fate: Arc::clone(fate), waiter: None }
    }

    /// Blocks the calling thread until then.
    ///
    /// # Panics
    /// Panics on a core of this runtime, which would wait for ever: await this there.
    #[track_caller]
    pub fn wait(self) -> Option<CoreFailure> {
        assert!(
            !self.fate.is_mine(),
            "a core must not block until its own runtime fails: await this"
        );
        park::block_on(self)
    }
}

impl Future for Failed {
    type Output = Option<CoreFailure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let waker = cx.waker().clone(); // foreign code, so not under the lock
        let fate = Arc::clone(&self.fate);
        let mut state = fate.lock();
        if state.failure.is_some() || state.running == 0 {
            return Poll::Ready(state.failure.clone());
        }
        let id = *self.waiter.get_or_insert(state.next_waiter);
        let stale = match state.waiters.iter_mut().find(|(other, _)| *other == id) {
            Some((_, known)) => Some(std::mem::replace(known, waker)),
            None => {
                state.next_waiter = state.next_waiter.max(id + 1);
                state.waiters.push((id, waker));
                None
            }
        };
        drop(state);
        drop_waker(stale);
        Poll::Pending
    }
}

impl Drop for Failed {
    fn drop(&mut self) {
        let Some(id) = self.waiter else { return };
        let mut state = self.fate.lock();
        let index = state.waiters.iter().position(|(other, _)| *other == id);
        let stale = index.map(|index| state.waiters.swap_remove(index).1);
        drop(state);
        drop_waker(stale);
    }
}

impl fmt::Debug for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failed").field("failure", &self.fate.failure()).finish_non_exhaustive()
    }
}
