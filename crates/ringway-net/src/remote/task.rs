//! A task of a core, which is awaited on another thread.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use ringway_runtime::{self as runtime, contain, drop_contained};

/// The awaiting side: a future for any thread. Dropping it drops the task.
#[must_use = "dropping it drops the task"]
pub struct RemoteTask<T> {
    shared: Arc<Mutex<SharedOutput<T>>>,
}

/// The task ended without an output: it panicked, its core has ended, or it was never started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskGone;

struct SharedOutput<T> {
    output: Option<Result<T, TaskGone>>,
    waiter: Option<Waker>,
    /// Whether the awaiting side was dropped.
    given_up: bool,
    runner: Option<Waker>,
}

impl<T: Send + 'static> RemoteTask<T> {
    /// Prepares a task. It begins when the returned closure runs on a core, which makes the future there, so the
    /// future need not be `Send`. If the closure is dropped, the task is [gone](TaskGone).
    pub fn new<F>(
        name: &'static str,
        make: impl FnOnce() -> F + Send + 'static,
    ) -> (Self, impl FnOnce() + Send + 'static)
    where
        F: Future<Output = T> + 'static,
    {
        let nothing = SharedOutput { output: None, waiter: None, given_up: false, runner: None };
        let shared = Arc::new(Mutex::new(nothing));
        let report = Report(Arc::clone(&shared));
        let start = move || {
            if !lock(&report.0).given_up {
                runtime::spawn_named(name, Runner { task: Box::pin(make()), report });
            }
        };
        (Self { shared }, start)
    }
}

impl<T> Future for RemoteTask<T> {
    type Output = Result<T, TaskGone>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // Cloned outside of the lock, because it may be any executor's.
        let waker = cx.waker().clone();
        let mut shared = lock(&self.shared);
        if let Some(output) = shared.output.take() {
            drop(shared);
            drop_contained("a waker", waker);
            return Poll::Ready(output);
        }
        let former = shared.waiter.replace(waker);
        drop(shared);
        drop_contained("a waker", former);
        Poll::Pending
    }
}

impl<T> Drop for RemoteTask<T> {
    fn drop(&mut self) {
        let mut shared = lock(&self.shared);
        shared.given_up = true;
        let (runner, waiter, output) =
            (shared.runner.take(), shared.waiter.take(), shared.output.take());
        drop(shared);
        drop_contained("a waker", waiter);
        drop_contained("the output of a task on another thread", output);
        wake(runner);
    }
}

impl<T> fmt::Debug for RemoteTask<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteTask").finish_non_exhaustive()
    }
}

impl fmt::Display for TaskGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a task on another thread has panicked, or its core has ended")
    }
}

impl std::error::Error for TaskGone {}

/// The task on its core.
struct Runner<F: Future> {
    task: Pin<Box<F>>,
    report: Report<F::Output>,
}

impl<F: Future> Future for Runner<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        {
            let mut shared = lock(&self.report.0);
            if shared.given_up {
                return Poll::Ready(());
            }
            shared.runner = Some(cx.waker().clone());
        }
        self.task.as_mut().poll(cx).map(|output| self.report.report(Ok(output)))
    }
}

impl<F: Future> Unpin for Runner<F> {}

/// Reports the output to the awaiting side, also when the core drops the task unfinished.
struct Report<T>(Arc<Mutex<SharedOutput<T>>>);

impl<T> Report<T> {
    fn report(&self, output: Result<T, TaskGone>) {
        let mut shared = lock(&self.0);
        let mut unwanted = Some(output);
        if shared.output.is_none() && !shared.given_up {
            shared.output = unwanted.take();
        }
        let waiter = shared.waiter.take();
        drop(shared);
        drop_contained("the output of a task on another thread", unwanted);
        wake(waiter);
    }
}

impl<T> Drop for Report<T> {
    fn drop(&mut self) {
        self.report(Err(TaskGone));
    }
}

/// Wakes a task. A panic of its executor is contained.
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        contain("a waker", || waker.wake());
    }
}

/// No foreign code runs under the lock, so the content of a poisoned one is sound.
fn lock<T>(shared: &Mutex<SharedOutput<T>>) -> MutexGuard<'_, SharedOutput<T>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::super::block_on;
    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    /// Tells when it is dropped.
    struct Tells(mpsc::Sender<()>);

    impl Drop for Tells {
        fn drop(&mut self) {
            let _the_test_may_have_ended = self.0.send(());
        }
    }

    #[test]
    fn the_output_arrives() {
        let core = super::super::background_core().expect("a core");
        let (task, start) = RemoteTask::new("test", || async {
            runtime::yield_now().await;
            runtime::CoreHandle::is_here()
        });
        drop(core.spawn(async move || start()));
        assert_eq!(block_on(task), Ok(true));
    }

    #[test]
    fn a_task_that_is_not_awaited_any_more_is_dropped() {
        let core = super::super::background_core().expect("a core");
        let ((begun, has_begun), (tell, is_dropped)) = (mpsc::channel(), mpsc::channel());
        let (task, start) = RemoteTask::new("test", move || async move {
            let _tells = Tells(tell);
            begun.send(()).expect("the test waits");
            std::future::pending::<()>().await;
        });
        drop(core.spawn(async move || start()));
        has_begun.recv_timeout(LONG).expect("it begins");
        drop(task);
        is_dropped.recv_timeout(LONG).expect("its future is dropped");
    }

    #[test]
    fn a_task_without_an_output_is_gone() {
        let core = super::super::background_core().expect("a core");
        let (task, start) = RemoteTask::new("test", || async { panic!("on purpose") });
        drop(core.spawn(async move || start()));
        assert_eq!(block_on::<RemoteTask<()>>(task), Err(TaskGone));
        let (task, start) = RemoteTask::new("test", || async {});
        drop(start);
        assert_eq!(block_on(task), Err(TaskGone));
    }
}
