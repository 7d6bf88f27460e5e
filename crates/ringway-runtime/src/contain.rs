//! Containment of panics in foreign code: destructors, wakers, callbacks and log subscribers.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// Runs foreign code. A panic is logged with `what` and returned as `None`; it does not reach the
/// caller, not even through the destructor of its payload.
///
/// A panic leaves data that `run` had borrowed in any state: pass in only what the code needs, no
/// part of a state that must stay consistent.
#[inline]
pub fn contain<T>(what: &str, run: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(value) => Some(value),
        Err(payload) => {
            report(what, payload);
            None
        }
    }
}

/// Drops a value of foreign type. A panic of its destructor is logged with `what`.
#[inline]
pub fn drop_contained<T>(what: &str, value: T) {
    if std::mem::needs_drop::<T>() {
        contain(what, || drop(value));
    }
}

/// Drops each value as [`drop_contained`] does, one by one: in a list that is dropped as a whole, a
/// second panic would abort the process.
#[inline]
pub fn drop_each<T>(what: &str, values: impl IntoIterator<Item = T>) {
    for value in values {
        drop_contained(what, value);
    }
}

/// Drops a waker that is no longer needed. A waker of another executor has a foreign destructor,
/// and the thread may already be unwinding.
#[inline]
pub(crate) fn drop_waker(waker: Option<Waker>) {
    if waker.is_some() {
        drop_contained("the destructor of a waker", waker);
    }
}

/// Wakes a task, whose waker may be foreign code of another executor.
#[inline]
pub(crate) fn wake(waker: Waker) {
    contain("a waker", || waker.wake());
}

/// The message of a panic. Its payload is dropped, and a panic of that is contained.
pub fn panic_message(payload: Box<dyn Any + Send>) -> String {
    let message = if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "(the payload is not text)".to_owned()
    };
    let again = catch_unwind(AssertUnwindSafe(|| drop(payload)));
    std::mem::forget(again); // the payload of the second panic, whose drop could panic again
    message
}

#[cold]
fn report(what: &str, payload: Box<dyn Any + Send>) {
    let message = panic_message(payload);
    let told = catch_unwind(AssertUnwindSafe(|| {
        tracing::error!(panic = message, "a panic of {what} was contained");
    }));
    std::mem::forget(told);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value whose drop panics with a payload that does the same, a given number of times.
    struct Relentless(u32);

    impl Drop for Relentless {
        fn drop(&mut self) {
            if let Some(left) = self.0.checked_sub(1) {
                std::panic::panic_any(Relentless(left));
            }
        }
    }

    #[test]
    fn a_panic_does_not_leave_contain() {
        assert_eq!(contain("a test", || 7), Some(7));
        assert_eq!(contain("a test", || -> u8 { panic!("in here") }), None);
        for times in 0..4 {
            drop_contained("a test", Relentless(times));
        }
        drop_each("a test", [Relentless(1), Relentless(3), Relentless(2)]);
    }

    #[test]
    fn a_panic_message_is_the_text_of_the_panic() {
        let payload = |run: fn()| catch_unwind(run).expect_err("it panics");
        assert_eq!(panic_message(payload(|| panic!("plain"))), "plain");
        assert_eq!(panic_message(payload(|| panic!("of {}", 2))), "of 2");
        let relentless = payload(|| std::panic::panic_any(Relentless(3)));
        assert_eq!(panic_message(relentless), "(the payload is not text)");
    }
}
