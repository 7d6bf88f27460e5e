//! hyper's executor and timer on the runtime.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use hyper::rt::{Executor, Timer};
use ringway_runtime as runtime;

/// Runs hyper's tasks on the calling core. They need not be `Send`.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalExec;

impl<F> Executor<F> for LocalExec
where
    F: Future + 'static,
    F::Output: 'static,
{
    fn execute(&self, future: F) {
        runtime::spawn(future);
    }
}

/// Runs hyper's timeouts on the timer wheel of the calling core.
///
/// hyper requires sleeps that are `Send` and `Sync`, although a connection of Ringway never leaves
/// its core. A sleep of this timer is a key into that core's wheel, so it may be held and dropped
/// on any thread.
///
/// # Panics
/// A sleep panics if it is polled on another thread than it was first polled on.
#[derive(Clone, Copy, Debug, Default)]
pub struct HyperTimer;

impl Timer for HyperTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(HomeSleep::new(runtime::sleep(duration)))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(HomeSleep::new(runtime::sleep_until(deadline)))
    }

    fn now(&self) -> Instant {
        runtime::now()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn hyper::rt::Sleep>>, deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<HomeSleep>() {
            Some(own) if own.is_at_home() => own.get_mut().sleep_mut().reset(deadline),
            _ => *sleep = self.sleep_until(deadline),
        }
    }
}

/// A sleep that knows its thread: its key is valid only in that thread's wheel.
struct HomeSleep {
    /// `None` only during drop.
    sleep: Option<runtime::Sleep>,
    /// The thread that polled it first; `None` until then, while it has no key.
    home: Option<ThreadId>,
}

impl HomeSleep {
    fn new(sleep: runtime::Sleep) -> Self {
        Self { sleep: Some(sleep), home: None }
    }

    fn sleep_mut(&mut self) -> &mut runtime::Sleep {
        self.sleep.as_mut().expect("taken only by drop")
    }

    fn is_at_home(&self) -> bool {
        self.home.is_none_or(|home| home == thread::current().id())
    }
}

impl hyper::rt::Sleep for HomeSleep {}

impl Future for HomeSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        assert!(self.is_at_home(), "a sleep was polled on another thread than before");
        self.home.get_or_insert_with(|| thread::current().id());
        Pin::new(self.sleep_mut()).poll(cx)
    }
}

impl Drop for HomeSleep {
    /// Forgets the key on another thread, where it could cancel a stranger's timer; the own timer
    /// then fires once without effect.
    fn drop(&mut self) {
        if !self.is_at_home() {
            std::mem::forget(self.sleep.take());
        }
    }
}
