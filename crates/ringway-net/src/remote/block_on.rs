//! Running a future on a thread that may block.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

/// Blocks the thread until `future` is ready.
pub fn block_on<F: Future>(future: F) -> F::Output {
    block_on_until(pin!(future), |_| None)
}

/// Blocks the thread until `future` is ready; also polls it at the time that `wakes_at` returns.
pub fn block_on_until<F: Future + Unpin>(
    mut future: F,
    wakes_at: impl Fn(&F) -> Option<Instant>,
) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = Context::from_waker(&waker);
    loop {
        match Pin::new(&mut future).poll(&mut cx) {
            Poll::Ready(output) => return output,
            Poll::Pending => match wakes_at(&future) {
                Some(at) => thread::park_timeout(at.saturating_duration_since(Instant::now())),
                None => thread::park(),
            },
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
