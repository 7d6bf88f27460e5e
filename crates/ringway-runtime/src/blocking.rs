//! A small pool of threads for work that would block a core: name look-ups, files, foreign
//! libraries.
//!
//! Threads start when there is work and no idle thread, and exit after an idle time. They run on
//! the cores available to the thread that made the pool, so make it before pinning.

pub(crate) mod completion;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::affinity::CoreSet;
use crate::contain::{contain, drop_each};
use crate::limits::BLOCKING_IDLE;
use completion::{JobResult, completion};

/// Threads for blocking work. Share it in an [`Arc`]; submitting needs `&self` from any thread.
///
/// Dropping the pool drops the jobs that have not started and lets its threads end after their
/// current jobs; [`shutdown`](BlockingPool::shutdown) also waits for that.
pub struct BlockingPool {
    shared: Arc<Shared>,
}

/// The result of a job: a future of [`std::thread::Result`], which can be awaited anywhere.
///
/// The error is the panic of the job, or [`Abandoned`] if the job was dropped before it started.
/// Dropping the future does not stop the job.
#[must_use = "without the answer, a panic of the job goes unnoticed"]
pub struct BlockingTask<T> {
    completion: JobResult<thread::Result<T>>,
}

/// The error payload of a [`BlockingTask`] whose job was dropped before it started, because the
/// pool ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abandoned;

type Job = Box<dyn FnOnce() + Send>;

struct Shared {
    state: Mutex<PoolState>,
    /// Signalled when a job is queued or the pool stops.
    changed: Condvar,
    /// Signalled when the last thread ends.
    ended: Condvar,
    limits: Limits,
    /// The cores of the threads; `None` if the kernel did not tell.
    cores: Option<CoreSet>,
}

struct Limits {
    threads_max: usize,
    queue_max: usize,
    idle_max: Duration,
}

struct PoolState {
    queue: VecDeque<Job>,
    threads: usize,
    /// Number of threads that wait for a job or are starting; each takes one job off the queue.
    idle: usize,
    stopping: bool,
    /// Handles of live threads, and of those that end because the pool stops, for `shutdown` to
    /// join.
    handles: Vec<JoinHandle<()>>,
}

impl BlockingPool {
    /// Creates a pool without threads. At most `threads_max` run at the same time, and at most
    /// `queue_max` jobs wait for one.
    ///
    /// # Panics
    ///
    /// Panics if `threads_max` is 0.
    pub fn new(threads_max: usize, queue_max: usize) -> BlockingPool {
        BlockingPool::with_idle(threads_max, queue_max, BLOCKING_IDLE)
    }

    fn with_idle(threads_max: usize, queue_max: usize, idle_max: Duration) -> BlockingPool {
        assert!(threads_max > 0, "a pool needs at least one thread");
        let state = PoolState {
            queue: VecDeque::new(),
            threads: 0,
            idle: 0,
            stopping: false,
            handles: Vec::new(),
        };
        let shared = Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
            ended: Condvar::new(),
            limits: Limits { threads_max, queue_max, idle_max },
            cores: CoreSet::available().ok(),
        };
        BlockingPool { shared: Arc::new(shared) }
    }

    /// Runs `f` on a thread of the pool; the task returns its result or its panic.
    ///
    /// ```
    /// use ringway_runtime::blocking::BlockingPool;
    ///
    /// let pool = BlockingPool::new(1, 8);
    /// let task = pool.spawn(|| 6 * 7)?; // `task.await` is `Ok(42)`
    /// # drop(task);
    /// # Ok::<(), ringway_runtime::blocking::SubmitError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`submit`](BlockingPool::submit) does.
    pub fn spawn<F, T>(&self, f: F) -> Result<BlockingTask<T>, SubmitError>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (completer, completion) = completion();
        self.submit(Box::new(move || completer.complete(catch_unwind(AssertUnwindSafe(f)))))?;
        Ok(BlockingTask { completion })
    }

    /// Queues a job for the next free thread, starting one if none is idle. If a job panics, its
    /// thread continues.
    ///
    /// # Errors
    ///
    /// Returns [`SubmitError`]; the job is dropped without having run.
    pub fn submit(&self, job: Box<dyn FnOnce() + Send>) -> Result<(), SubmitError> {
        let Limits { threads_max, queue_max, .. } = self.shared.limits;
        let mut state = self.shared.lock();
        if state.stopping {
            return Err(SubmitError::Stopped);
        }
        if state.queue.len() >= state.idle && state.threads < threads_max {
            self.start_thread(&mut state)?;
        }
        if state.queue.len() >= queue_max.saturating_add(state.idle) {
            return Err(SubmitError::Full { threads_max, queue_max });
        }
        state.queue.push_back(job);
        drop(state);
        self.shared.changed.notify_one();
        Ok(())
    }

    /// Ends the pool: drops the jobs that have not started, waits at most `wait_max` for those that
    /// have, and joins the threads. A later call waits again.
    ///
    /// # Errors
    ///
    /// Returns [`StillRunning`] if jobs have not returned by then; their threads end after them, or
    /// with the process.
    pub fn shutdown(&self, wait_max: Duration) -> Result<(), StillRunning> {
        self.shared.stop();
        let running = self.shared.wait_for_threads(wait_max);
        if running > 0 {
            return Err(StillRunning { jobs: running });
        }
        let handles = std::mem::take(&mut self.shared.lock().handles);
        for handle in handles {
            // The thread has left the pool, so this is short; panics of jobs were already
            // caught.
            let _ = handle.join();
        }
        Ok(())
    }

    /// The cores that the threads run on; `None` if the kernel did not tell.
    pub(crate) fn cores(&self) -> Option<&CoreSet> {
        self.shared.cores.as_ref()
    }

    fn start_thread(&self, state: &mut PoolState) -> Result<(), SubmitError> {
        let shared = self.shared.clone();
        let builder = thread::Builder::new().name("ringway-blocking".to_owned());
        match builder.spawn(move || shared.run_thread()) {
            Ok(handle) => state.handles.push(handle),
            // The existing threads will take the job.
            Err(_) if state.threads > 0 => return Ok(()),
            Err(error) => return Err(SubmitError::NoThread(error)),
        }
        state.threads += 1;
        state.idle += 1;
        Ok(())
    }
}

impl Drop for BlockingPool {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

impl Shared {
    fn run_thread(&self) {
        if let Some(cores) = &self.cores {
            let _ = cores.confine_current_thread(); // a failure only means worse placement
        }
        while let Some(job) = self.next_job() {
            contain("a blocking job", job);
            self.lock().idle += 1;
        }
    }

    /// Waits for a job, after which the caller no longer counts as idle. `None` after the idle time
    /// or when the pool stops; then the caller no longer counts at all, and a new job needs another
    /// thread.
    fn next_job(&self) -> Option<Job> {
        let unemployed = |state: &mut PoolState| state.queue.is_empty() && !state.stopping;
        let waited = self.changed.wait_timeout_while(self.lock(), self.limits.idle_max, unemployed);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.idle -= 1;
        let job = state.queue.pop_front();
        if job.is_none() {
            self.leave(&mut state);
        }
        job
    }

    /// Removes the calling thread from the count, and detaches it by dropping its handle, since the
    /// system keeps its stack until then. When the pool is stopping, the handles are left for
    /// `shutdown` to join.
    fn leave(&self, state: &mut PoolState) {
        state.threads -= 1;
        if !state.stopping {
            let own = thread::current().id();
            state.handles.retain(|handle| handle.thread().id() != own);
        }
        if state.threads == 0 {
            self.ended.notify_all();
        }
    }

    fn stop(&self) {
        let mut state = self.lock();
        state.stopping = true;
        let not_begun = std::mem::take(&mut state.queue);
        drop(state);
        self.changed.notify_all();
        drop_each("the destructor of a job that had not begun", not_begun);
    }

    /// Waits at most `wait_max` for the threads to end, and returns how many remain.
    fn wait_for_threads(&self, wait_max: Duration) -> usize {
        let alive = |state: &mut PoolState| state.threads > 0;
        let waited = self.ended.wait_timeout_while(self.lock(), wait_max, alive);
        waited.unwrap_or_else(PoisonError::into_inner).0.threads
    }

    /// Locks the state. No job runs under the lock, so the state is sound even if the lock is
    /// poisoned.
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> BlockingTask<T> {
    /// Whether the result is available.
    pub fn is_finished(&self) -> bool {
        self.completion.is_finished()
    }
}

impl<T> Future for BlockingTask<T> {
    type Output = thread::Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(Pin::new(&mut self.completion).poll(cx));
        Poll::Ready(answer.unwrap_or_else(|| Err(Box::new(Abandoned))))
    }
}

impl fmt::Debug for BlockingPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        f.debug_struct("BlockingPool")
            .field("threads", &state.threads)
            .field("queued", &state.queue.len())
            .finish()
    }
}

impl<T> fmt::Debug for BlockingTask<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockingTask").field("finished", &self.is_finished()).finish()
    }
}

impl fmt::Display for Abandoned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the blocking pool ended before the job began")
    }
}

impl Error for Abandoned {}

/// The reason why a job was not accepted.
#[derive(Debug)]
#[non_exhaustive]
pub enum SubmitError {
    /// Every thread is busy and the queue is full.
    Full {
        /// The largest number of threads.
        threads_max: usize,
        /// The largest number of queued jobs.
        queue_max: usize,
    },
    /// The pool was shut down.
    Stopped,
    /// The pool has no thread and the system could not start one.
    NoThread(io::Error),
}

impl fmt::Display for SubmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SubmitError::Full { threads_max, queue_max } => write!(
                f,
                "the blocking pool is full: {threads_max} threads are busy and \
                 {queue_max} jobs wait"
            ),
            SubmitError::Stopped => f.write_str("the blocking pool was shut down"),
            SubmitError::NoThread(_) => f.write_str("the blocking pool could not start a thread"),
        }
    }
}

impl Error for SubmitError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            SubmitError::NoThread(error) => Some(error),
            SubmitError::Full { .. } | SubmitError::Stopped => None,
        }
    }
}

/// The error of a shutdown that jobs outlasted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StillRunning {
    /// The number of jobs that are still running.
    pub jobs: usize,
}

impl fmt::Display for StillRunning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} blocking jobs are still running", self.jobs)
    }
}

impl Error for StillRunning {}
