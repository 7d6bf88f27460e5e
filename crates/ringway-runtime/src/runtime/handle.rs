//! Reaching a core from another thread.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use crate::blocking::completion::{JobResult, completion};
use crate::core::{CoreShared, try_with_current, with_current};
use crate::counters::CoreCounters;
use crate::mailbox::{NeedSignal, PushError};
use crate::park;
use crate::task::JoinError;

/// A core as other threads see it; cheap to clone.
#[derive(Clone)]
pub struct CoreHandle {
    shared: Arc<CoreShared>,
    driver: Arc<str>,
}

impl CoreHandle {
    pub(crate) fn new(shared: Arc<CoreShared>, driver: String) -> Self {
        Self { shared, driver: driver.into() }
    }

    /// The core of the calling thread.
    ///
    /// # Panics
    /// Outside of a runtime's thread.
    #[track_caller]
    pub fn current() -> Self {
        with_current(|core| Self::new(core.shared.clone(), core.driver.borrow().describe()))
    }

    /// Whether the calling thread is a core right now: where [`current`](Self::current) and
    /// [`spawn`](crate::spawn) would not panic.
    ///
    /// ```
    /// use ringway_runtime::CoreHandle;
    ///
    /// assert!(!CoreHandle::is_here());
    /// assert!(ringway_runtime::block_on(async { CoreHandle::is_here() })?);
    /// assert!(!CoreHandle::is_here());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn is_here() -> bool {
        try_with_current(|_| ()).is_some()
    }

    /// Whether the calling thread is this core right now. A thread may have been another one before.
    pub fn is_current(&self) -> bool {
        try_with_current(|core| Arc::ptr_eq(&core.shared, &self.shared)).unwrap_or(false)
    }

    /// Runs `start` on the core and then the future that it made, as a task there. Only `start`
    /// crosses threads; the future need not be `Send`. This is the one way across.
    ///
    /// # Errors
    /// When the core has ended, or is behind by [its whole mailbox](SpawnError::Full).
    pub fn spawn<F, T>(&self, start: F) -> Result<RemoteHandle<T>, SpawnError>
    where
        F: AsyncFnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (completer, outcome) = completion();
        let run = move || {
            let task = async move { start().await };
            with_current(|core| core.tasks.spawn_for(completer, task, std::any::type_name::<F>()));
        };
        match self.shared.mailbox.push(Box::new(run)) {
            Ok(NeedSignal(signal)) => {
                if signal {
                    self.shared.signal();
                }
                Ok(RemoteHandle { outcome })
            }
            Err(PushError::Full(_)) => Err(SpawnError::Full),
            Err(PushError::Closed(_)) => Err(SpawnError::Ended),
        }
    }

    /// The core's counters so far.
    pub fn counters(&self) -> CoreCounters {
        self.shared.counters.snapshot()
    }

    /// The kernel interface in use and the flags it accepted.
    pub fn backend(&self) -> &str {
        &self.driver
    }

    /// Asks the core to end, as [`Runtime::shutdown`](super::Runtime::shutdown) does.
    pub(super) fn stop(&self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.wake_up();
    }

    pub(super) fn shared(&self) -> Arc<CoreShared> {
        self.shared.clone()
    }
}

impl fmt::Debug for CoreHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CoreHandle({}, {})", self.shared.id(), self.driver)
    }
}

/// Waits for a task on another core: as a future anywhere, or by blocking a plain thread.
#[must_use = "a task's panic goes unnoticed unless its handle is awaited"]
pub struct RemoteHandle<T> {
    outcome: JobResult<Result<T, JoinError>>,
}

impl<T> RemoteHandle<T> {
    /// Blocks the calling thread until the task has ended. Not for a core's own thread, which
    /// would stop turning.
    ///
    /// # Errors
    /// When the task panicked or its core ended.
    pub fn wait(self) -> Result<T, JoinError> {
        park::block_on(self)
    }
}

impl<T> Future for RemoteHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = Pin::new(&mut self.outcome).poll(cx);
        outcome.map(|outcome| outcome.unwrap_or_else(|| Err(JoinError::core_gone())))
    }
}

/// Why a core did not take a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SpawnError {
    /// It is behind by its whole mailbox: slow down, or shed the work.
    Full,
    /// It has ended.
    Ended,
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the core's mailbox is full: it is behind; slow down or shed the work",
            Self::Ended => "the core has ended",
        })
    }
}

impl std::error::Error for SpawnError {}
