//! Tasks of this core, and work for the blocking pool.

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
/// Outside of a runtime's thread.
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
/// Outside of a runtime's thread.
#[track_caller]
pub fn spawn_named<F>(name: &'static str, future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    with_current(|core| core.tasks.spawn(future, name))
}

/// Lets the other tasks of this core run, and the core look at its sockets and timers, before going on.
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
/// When the pool is full: the work does not queue without bound.
pub fn spawn_blocking<F, T>(work: F) -> Result<BlockingTask<T>, SubmitError>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    pool().spawn(work)
}

static POOL: OnceLock<BlockingPool> = OnceLock::new();

/// Makes the process's pool, without threads. Its threads will run wherever the thread of the first
/// call may, so this is called before a thread becomes a core and is pinned for it.
pub(crate) fn prepare_pool() {
    pool();
}

/// Where threads may run that are started by a core and are none: where the process's pool runs. `None`
/// if the kernel did not say.
pub fn unpinned_cores() -> Option<CoreSet> {
    pool().cores().cloned()
}

fn pool() -> &'static BlockingPool {
    let make = || BlockingPool::new(limits::BLOCKING_THREADS_MAX, limits::BLOCKING_QUEUE_MAX);
    POOL.get_or_init(make)
}
