//! Wakers of another executor than ours, which make and give up calls of the same client while they wake and
//! while they are dropped.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use super::{LIMIT, MS, begin, options};
use crate::client::Client;

type Call = Pin<Box<dyn Future<Output = bool>>>;

/// Calls that wakers keep at most, and how deep they come back into each other.
const KEPT_MAX: usize = 4;
const DEPTH_MAX: u32 = 3;

thread_local! {
    static CLIENT: RefCell<Option<Client>> = const { RefCell::new(None) };
    static KEPT: RefCell<Vec<Call>> = const { RefCell::new(Vec::new()) };
    static MADE: Cell<u64> = const { Cell::new(0) };
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// From now on wakers meddle with calls of this client.
pub(super) fn begin_with(client: &Client) {
    CLIENT.set(Some(client.clone()));
}

pub(super) fn end() {
    drop(CLIENT.take());
    while let Some(call) = KEPT.with_borrow_mut(Vec::pop) {
        drop(call);
    }
}

/// The calls that wakers of this thread have made.
pub(super) fn made() -> u64 {
    MADE.get()
}

/// Polls a call with wakers that meddle.
pub(super) async fn meddled(mut call: Call) -> bool {
    std::future::poll_fn(|cx| {
        let waker = meddler(cx.waker().clone());
        call.as_mut().poll(&mut Context::from_waker(&waker))
    })
    .await
}

fn meddle() {
    let Some(client) = CLIENT.with_borrow(Option::clone) else { return };
    if DEPTH.get() >= DEPTH_MAX || fastrand::bool() {
        return;
    }
    DEPTH.set(DEPTH.get() + 1);
    match fastrand::u8(..4) {
        0 | 1 => {
            MADE.set(MADE.get() + 1);
            let limit = [MS * 50, MS * 3_000, LIMIT][fastrand::usize(..3)];
            poll(begin(client.with(options(limit))));
        }
        2 => {
            let taken = KEPT.with_borrow_mut(Vec::pop);
            drop(taken);
        }
        _ => {
            let taken = KEPT.with_borrow_mut(|kept| match kept.len() {
                0 => None,
                len => Some(kept.swap_remove(fastrand::usize(..len))),
            });
            if let Some(call) = taken {
                poll(call);
            }
        }
    }
    DEPTH.set(DEPTH.get() - 1);
}

/// Polls a call once, and keeps it if it waits.
fn poll(mut call: Call) {
    let waker = meddler(Waker::noop().clone());
    if call.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Pending {
        let oldest = KEPT.with_borrow_mut(|kept| {
            kept.push(call);
            (kept.len() > KEPT_MAX).then(|| kept.swap_remove(0))
        });
        drop(oldest);
    }
}

fn meddler(inner: Waker) -> Waker {
    Waker::from(Arc::new(Meddler(inner)))
}

struct Meddler(Waker);

impl Wake for Meddler {
    fn wake(self: Arc<Self>) {
        meddle();
        self.0.wake_by_ref();
    }
}

impl Drop for Meddler {
    fn drop(&mut self) {
        meddle();
    }
}
