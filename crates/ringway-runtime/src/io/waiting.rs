//! How a handle of a socket is polled: asked, and waited by.

use std::task::{Context, Poll};

use super::waiters::Waiters;
use crate::contain::drop_waker;
use crate::sys::is_own;

/// A handle whose state lists who waits for it.
pub(super) trait Waitable {
    type State;

    /// Looks at the state; nothing foreign may run meanwhile.
    fn with<T>(&self, f: impl FnOnce(&mut Self::State) -> T) -> T;
}

/// Asks `poll`, and puts the task on a list while the answer is not there. The waker is cloned, and
/// those of a full list are woken, while nothing is borrowed. Cloning one of another executor may have
/// brought the answer about, so it is asked for once more.
#[inline]
pub(super) fn poll_or_wait<H: Waitable, T>(
    handle: &H,
    cx: &mut Context<'_>,
    list: impl Fn(&mut H::State) -> &mut Waiters,
    mut poll: impl FnMut(&mut H::State) -> Poll<T>,
) -> Poll<T> {
    let polled = handle.with(|state| match poll(state) {
        Poll::Pending if !list(state).contains(cx.waker()) => None,
        polled => Some(polled),
    });
    if let Some(polled) = polled {
        return polled;
    }
    let mut waker = Some(cx.waker().clone());
    let (polled, asked) = handle.with(|state| {
        let polled = if is_own(cx.waker()) { Poll::Pending } else { poll(state) };
        let waits = waker.take_if(|_| polled.is_pending());
        (polled, waits.map(|waker| list(state).add(waker)).unwrap_or_default())
    });
    drop_waker(waker);
    if !asked.is_empty() {
        asked.wake_contained();
    }
    polled
}
