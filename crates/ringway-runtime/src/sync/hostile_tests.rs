//! Wakers that panic, and that call back into the primitive which wakes, clones or drops them:
//! other waiters must still be served.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use super::testing::Probe;
use super::*;
use crate::blocking::completion::completion;
use crate::contain::contain;

thread_local! {
    /// What the hostile waker calls when it is woken and when it is dropped.
    static CALL_BACK: RefCell<Option<Rc<dyn Fn()>>> = const { RefCell::new(None) };
}

struct Hostile;

impl Hostile {
    fn call_back() {
        let call = CALL_BACK.with_borrow(Clone::clone);
        if let Some(call) = call {
            call();
        }
    }
}

impl Wake for Hostile {
    fn wake(self: Arc<Self>) {
        Self::call_back();
        panic!("a hostile waker");
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        Self::call_back();
    }
}

/// Makes a hostile waiter wait before a fair one, or beside it; `release` releases both, and the
/// hostile one calls `again`.
fn check<F: Future + Unpin>(
    wait: impl Fn() -> F,
    release: impl FnOnce(),
    again: impl Fn() + 'static,
) {
    let (mut hostile, mut fair, probe) = (wait(), wait(), Probe::new());
    let mut poll_hostile = || {
        let waker = Waker::from(Arc::new(Hostile));
        Pin::new(&mut hostile).poll(&mut Context::from_waker(&waker)).is_pending()
    };
    assert!(poll_hostile());
    assert!(probe.poll(&mut fair).is_pending());
    CALL_BACK.set(Some(Rc::new(again)));
    assert!(poll_hostile(), "another waker replaces the first, which is dropped");
    release();
    CALL_BACK.set(None);
    assert_eq!(probe.wakes(), 1, "the one behind the hostile waiter");
    assert!(probe.poll(&mut fair).is_ready());
    drop(hostile);
}

#[test]
fn a_hostile_waker_keeps_a_cancellation_from_nobody() {
    let token = CancellationToken::new();
    let (tokens, own) = (token.clone(), token.clone());
    // A future with a token of its own, since those of `cancelled` borrow theirs.
    let wait = move || {
        let token = tokens.clone();
        Box::pin(async move { token.cancelled().await })
    };
    let again = move || drop(Box::pin(own.child()));
    check(wait, || token.cancel(), again);
}

#[test]
fn a_hostile_waker_keeps_a_notification_from_nobody() {
    let notify = Rc::new(Notify::new());
    let (waits, own) = (notify.clone(), notify.clone());
    let wait = move || {
        let notify = waits.clone();
        Box::pin(async move { notify.notified().await })
    };
    check(wait, || notify.notify_waiters(), move || drop(own.notified()));
}

#[test]
fn a_hostile_waker_keeps_permits_from_nobody() {
    let semaphore = Rc::new(Semaphore::new(2));
    let both = semaphore.try_acquire(2).expect("nobody has any");
    let (waits, own) = (semaphore.clone(), semaphore);
    let wait = move || {
        let semaphore = waits.clone();
        Box::pin(async move { semaphore.acquire(1).await.is_ok() })
    };
    check(wait, || drop(both), move || drop(own.try_acquire(1)));
}

/// A waiter that gives up at the front may be all that kept a smaller request waiting.
#[test]
fn a_waker_that_panics_when_it_is_dropped_keeps_permits_from_nobody() {
    let semaphore = Semaphore::new(2);
    let _held = semaphore.try_acquire(1).expect("nobody has any");
    let (mut hostile, mut fair, probe) = (semaphore.acquire(2), semaphore.acquire(1), Probe::new());
    let waker = Waker::from(Arc::new(PanicsWhenDropped));
    assert!(Pin::new(&mut hostile).poll(&mut Context::from_waker(&waker)).is_pending());
    assert!(probe.poll(&mut fair).is_pending());
    contain("the one of the caller", || drop(waker));
    contain("the one in the line", || drop(hostile));
    assert!(probe.poll(&mut fair).is_ready());
}

#[test]
fn a_hostile_waker_keeps_the_end_of_a_channel_from_nobody() {
    let (sender, receiver) = channel::bounded::<u8>(1);
    let (waits, own) = (receiver.clone(), receiver.clone());
    let wait = move || {
        let receiver = waits.clone();
        Box::pin(async move { receiver.recv().await })
    };
    check(wait, || drop(sender), move || assert!(own.is_empty()));
}

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("a destructor");
    }
}

impl Wake for PanicsWhenDropped {
    fn wake(self: Arc<Self>) {}
}

/// Makes `future` wait with a waker whose destructor panics, and drops it while unwinding: another
/// panic there would abort the process.
fn check_unwinding<F: Future + Unpin>(mut future: F) {
    let waker = Waker::from(Arc::new(PanicsWhenDropped));
    assert!(Pin::new(&mut future).poll(&mut Context::from_waker(&waker)).is_pending());
    contain("the one of the caller", || drop(waker));
    contain("a task", || {
        let _future = future;
        panic!("on purpose");
    });
}

#[test]
fn a_waker_that_panics_when_it_is_dropped_does_no_harm_to_an_unwinding() {
    check_unwinding(Notify::new().notified());
    check_unwinding(CancellationToken::new().cancelled());
    let semaphore = Semaphore::new(1);
    let _held = semaphore.try_acquire(1).expect("nobody has any");
    check_unwinding(semaphore.acquire(1));
    let mutex = Mutex::new(());
    let _held = mutex.try_lock().expect("nobody has it");
    check_unwinding(mutex.lock());
    let (sender, receiver) = channel::bounded(1);
    check_unwinding(receiver.recv());
    sender.try_send(1).expect("room");
    check_unwinding(sender.send(2));
    let (_sender, receiver) = oneshot::channel::<()>();
    check_unwinding(receiver);
    let (mut sender, _receiver) = oneshot::channel::<()>();
    check_unwinding(std::future::poll_fn(move |cx| sender.poll_closed(cx)));
    let (_completer, completion) = completion::<()>();
    check_unwinding(completion);
    // A value and a waker are dropped together.
    let (sender, mut receiver) = oneshot::channel();
    let waker = Waker::from(Arc::new(PanicsWhenDropped));
    assert!(Pin::new(&mut receiver).poll(&mut Context::from_waker(&waker)).is_pending());
    contain("the one of the caller", || drop(waker));
    drop(sender.send(PanicsWhenDropped));
    contain("both", || drop(receiver));
}
