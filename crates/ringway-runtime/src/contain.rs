//! Foreign code (destructors, wakers, callbacks, what listens to the log) may panic wherever it is
//! called; a panic must end there.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// Runs foreign code. A panic of it is logged as one of `what`, and answered by `None`; nothing of
/// it reaches the caller, not even by the destructor of its payload.
///
/// What `run` had borrowed is as the panic has left it: hand over what the code needs, not parts of
/// a state that has to stay whole.
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

/// Drops a value of somebody else. A panic of its destructor is logged as one of `what`.
#[inline]
pub fn drop_contained<T>(what: &str, value: T) {
    if std::mem::needs_drop::<T>() {
        contain(what, || drop(value));
    }
}

/// As [`drop_contained`], each value by itself: two destructors of one list that panic are one too
/// many for a list that is dropped as a whole.
#[inline]
pub fn drop_each<T>(what: &str, values: impl IntoIterator<Item = T>) {
    for value in values {
        drop_contained(what, value);
    }
}

/// Drops a waker that is not needed any more, perhaps one of another executor, whose destructor is foreign
/// code. It may be that the thread unwinds already.
#[inline]
pub(crate) fn drop_waker(waker: Option<Waker>) {
    if waker.is_some() {
        drop_contained("the destructor of a waker", waker);
    }
}

/// Wakes a task, perhaps one of another executor, whose waker is foreign code.
#[inline]
pub(crate) fn wake(waker: Waker) {
    contain("a waker", || waker.wake());
}

/// The message of a panic. Its payload is dropped, and may panic at that.
pub fn panic_message(payload: Box<dyn Any + Send>) -> String {
    let message = if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "(the payload is not text)".to_owned()
    };
    let again = catch_unwind(AssertUnwindSafe(|| drop(payload)));
    std::mem::forget(again); // the payload of the second panic: dropping it could go on like this
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

    /// Panics when it is dropped, with a payload that does the same, so many times.
    struct Relentless(u32);

    impl Drop for Relentless {
        fn drop(&mut self) {
            if let Some(left) = self.0.checked_sub(1) {
                std::panic::panic_any(Relentless(left));
            }
        }
    }

    #[test]
    fn a_panic_ends_where_it_is_contained() {
        assert_eq!(contain("a test", || 7), Some(7));
        assert_eq!(contain("a test", || -> u8 { panic!("in here") }), None);
        for times in 0..4 {
            drop_contained("a test", Relentless(times));
        }
        drop_each("a test", [Relentless(1), Relentless(3), Relentless(2)]);
    }

    #[test]
    fn a_panic_tells_its_text() {
        let payload = |run: fn()| catch_unwind(run).expect_err("it panics");
        assert_eq!(panic_message(payload(|| panic!("plain"))), "plain");
        assert_eq!(panic_message(payload(|| panic!("of {}", 2))), "of 2");
        let relentless = payload(|| std::panic::panic_any(Relentless(3)));
        assert_eq!(panic_message(relentless), "(the payload is not text)");
    }
}
