//! Spawning tasks on this core, and jobs on the blocking pool.

use std::sync::OnceLock;

use crate::affinity::CoreSet;
use crate::blocking::{BlockingPool, BlockingTask, SubmitError};
use crate::core::with_current;
use crate::limits;
use crate::task::JoinHandle;

/// Runs a future as a task of this core. It need not be `Send`; a panic ends only the task.
///
/// ```
/// let sum = ringway_runtime::block_on(async {
///     let half = ringway_runtime::spawn(async { 21 });
///     half.await.map(|half| half * 2)
/// })?;
/// assert_eq!(sum?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
/// Panics outside a runtime's thread.
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    with_current(|core| core.spawn(future))
}

/// Spawns a task like [`spawn`], with a name for the stall watchdog.
///
/// # Panics
/// Panics outside a runtime's thread.
#[track_caller]
pub fn spawn_named<F>(name: &'static str, future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    with_current(|core| core.tasks.spawn(future, name))
}

/// Spawns a task like [`spawn_named`], for whose outcome nobody waits. It takes less memory, which
/// matters for tasks that are many and live long.
///
/// # Panics
/// Panics outside a runtime's thread.
#[track_caller]
pub fn spawn_detached(name: &'static str, future: impl Future<Output = ()> + 'static) {
    with_current(|core| core.tasks.spawn_detached(future, name));
}

/// Lets the core run other tasks and handle its sockets and timers before this one continues.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return std::task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

/// Runs blocking or long work on a thread of the process's pool.
///
/// # Errors
/// Fails when the pool is full: jobs are not queued without limit.
pub fn spawn_blocking<F, T>(work: F) -> Result<BlockingTask<T>, SubmitError>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    pool().spawn(work)
}

static POOL: OnceLock<BlockingPool> = OnceLock::new();

/// Creates the process's pool, without threads. Its threads will run on the cores of the thread
/// that calls first, so call it before a thread becomes a core and is pinned.
pub(crate) fn prepare_pool() {
    pool();
}

/// The cores for threads that a core starts and that are not cores themselves: those of the
/// process's pool. `None` if the kernel did not tell.
pub fn unpinned_cores() -> Option<CoreSet> {
    pool().cores().cloned()
}

fn pool() -> &'static BlockingPool {
    let make = || BlockingPool::new(limits::BLOCKING_THREADS_MAX, limits::BLOCKING_QUEUE_MAX);
    POOL.get_or_init(make)
}
