//! Handles with which other threads reach a core.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use crate::blocking::completion::{JobResult, completion};
use crate::core::{CoreShared, try_with_current, with_current};
use crate::counters::{CoreCounters, CurrentPoll, Stall};
use crate::mailbox::{NeedSignal, PushError};
use crate::park;
use crate::task::JoinError;

/// A handle of a core for any thread; cheap to clone.
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
    /// Panics outside a runtime's thread.
    #[track_caller]
    pub fn current() -> Self {
        with_current(|core| Self::new(core.shared.clone(), core.driver.borrow().describe()))
    }

    /// Whether the calling thread is a core now, so that [`current`](Self::current) and
    /// [`spawn`](crate::spawn) do not panic.
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

    /// Whether the calling thread is this core now. A thread may have been another one before.
    pub fn is_current(&self) -> bool {
        try_with_current(|core| Arc::ptr_eq(&core.shared, &self.shared)).unwrap_or(false)
    }

    /// Calls `start` on the core and runs the future that it returns there, as a task. Only `start`
    /// crosses threads; the future need not be `Send`. This is the only way across.
    ///
    /// # Errors
    /// Fails when the core has ended, or its mailbox is [full](SpawnError::Full).
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
                Ok(RemoteHandle { core: Arc::clone(&self.shared), outcome })
            }
            Err(PushError::Full(_)) => Err(SpawnError::Full),
            Err(PushError::Closed(_)) => Err(SpawnError::Ended),
        }
    }

    /// The current values of the core's counters.
    pub fn counters(&self) -> CoreCounters {
        self.shared.counters.snapshot()
    }

    /// The number of the core, which is unique among those that run.
    pub fn id(&self) -> usize {
        self.shared.id().into()
    }

    /// The stall that the watchdog has seen last, if there was one.
    pub fn latest_stall(&self) -> Option<Stall> {
        self.shared.counters.latest_stall()
    }

    /// Calls `tell` on the watchdog's thread: with `true` when one poll has held the core up for 50 times the
    /// [stall threshold](crate::Builder::stall_threshold), which is 5 seconds by default, and with `false` when
    /// the core goes on. It is not called for a core that hung before and still does.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    ///
    /// let runtime = ringway_runtime::Runtime::builder().threads(1).start()?;
    /// let hangs = Arc::new(AtomicBool::new(false));
    /// let told = Arc::clone(&hangs);
    /// runtime.cores()[0].on_hang(move |it_hangs| told.store(it_hangs, Ordering::Relaxed));
    /// assert!(!hangs.load(Ordering::Relaxed));
    /// # runtime.shutdown()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_hang(&self, tell: impl Fn(bool) + Send + Sync + 'static) {
        self.shared.hangs.watch(tell);
    }

    /// The name of the task that the core polls at this moment; `None` between polls, and if it has no name.
    pub fn current_task(&self) -> Option<&'static str> {
        self.shared.counters.current_poll().and_then(CurrentPoll::name)
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

/// The handle of a task on another core: a future for anywhere, or a blocking wait for a plain
/// thread.
#[must_use = "a task's panic goes unnoticed unless its handle is awaited"]
pub struct RemoteHandle<T> {
    core: Arc<CoreShared>,
    outcome: JobResult<Result<T, JoinError>>,
}

impl<T> RemoteHandle<T> {
    /// Blocks the calling thread until the task has ended. On a core, await it instead: a core that
    /// blocks runs no other task.
    ///
    /// # Errors
    /// Fails when the task panicked or its core ended. Fails at once on the task's own core, which would
    /// wait for ever.
    pub fn wait(self) -> Result<T, JoinError> {
        let is_here = try_with_current(|core| Arc::ptr_eq(&core.shared, &self.core));
        if is_here.unwrap_or(false) && !self.outcome.is_finished() {
            return Err(JoinError::own_core());
        }
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

/// The reason why a core did not accept a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SpawnError {
    /// The core's mailbox is full: slow down, or shed the work.
    Full,
    /// The core has ended.
    Ended,
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => {
                "the core's mailbox is full because it is overloaded: slow down or shed the work"
            }
            Self::Ended => "the core has ended",
        })
    }
}

impl std::error::Error for SpawnError {}
