//! Whether a thread may block.

use std::task::{Context, Poll, Waker};

use ringway_runtime::CoreHandle;
use tokio::runtime::Handle;
use tokio::task::coop;

use crate::limits;

/// Tells why the calling thread must not block, if it must not: it runs a core of Ringway, or it polls a
/// task of tokio. A thread of tokio's `spawn_blocking` or `block_in_place` may block.
///
/// What blocks there anyway stops all tasks of its thread, and waits for ever if one of them has to run
/// first.
pub fn blocking_refused() -> Option<&'static str> {
    if CoreHandle::is_here() {
        return Some("a core must not block: await this, or wait for it on another thread");
    }
    is_polled_by_tokio().then_some(
        "a task of tokio must not block: await this, or wait for it in `tokio::task::spawn_blocking`",
    )
}

/// Tokio gives a budget to what it polls, and none to threads that may block. It does not tell whether there
/// is one, so this uses it up. A future in `coop::unconstrained` has none and is not noticed.
fn is_polled_by_tokio() -> bool {
    if Handle::try_current().is_err() {
        return false;
    }
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..limits::TOKIO_BUDGET_MAX {
        match coop::poll_proceed(&mut cx) {
            Poll::Ready(step) => step.made_progress(),
            Poll::Pending => return true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused_in_tokio() -> bool {
        blocking_refused().is_some_and(|why| why.contains("a task of tokio"))
    }

    fn tokio() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a thread")
    }

    #[test]
    fn a_plain_thread_may_block_and_a_core_may_not() {
        assert_eq!(blocking_refused(), None);
        let on_core = ringway_runtime::block_on(async { blocking_refused() }).expect("a core");
        assert!(on_core.is_some_and(|why| why.contains("a core")), "{on_core:?}");
    }

    #[test]
    fn what_tokio_polls_may_not_block() {
        let tokio = tokio();
        assert!(tokio.block_on(async { refused_in_tokio() }), "the future of `main`");
        let task = tokio.spawn(async {
            let first = refused_in_tokio();
            (first, refused_in_tokio())
        });
        assert_eq!(tokio.block_on(task).expect("no panic"), (true, true), "a task, asked twice");
    }

    #[test]
    fn threads_of_tokio_that_may_block_do() {
        let tokio = tokio();
        let handle = tokio.handle().clone();
        let _entered = handle.enter();
        assert_eq!(blocking_refused(), None, "the context alone polls nothing");
        let blocking = tokio.spawn_blocking(blocking_refused);
        let in_place = tokio.spawn(async { tokio::task::block_in_place(blocking_refused) });
        assert_eq!(tokio.block_on(blocking).expect("no panic"), None);
        assert_eq!(tokio.block_on(in_place).expect("no panic"), None);
    }
}
