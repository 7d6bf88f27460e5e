//! Wakers that are numbers: no allocation, no reference count, valid on every thread.

use std::task::{RawWaker, RawWakerVTable, Waker};

use crate::core::wake_task;
use crate::task::TaskToken;

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake, forget);

/// A waker of the task that `token` names. The token of a task that has ended wakes nothing.
pub(crate) fn waker_of(token: TaskToken) -> Waker {
    // SAFETY: the data pointer is a plain number that no function of the table dereferences, so
    // cloning, waking and dropping are sound on any thread, any number of times.
    unsafe { Waker::from_raw(raw(token.bits() as *const ())) }
}

/// Whether cloning and dropping this waker runs no foreign code.
pub fn is_own(waker: &Waker) -> bool {
    std::ptr::eq(waker.vtable(), &VTABLE)
}

fn raw(data: *const ()) -> RawWaker {
    RawWaker::new(data, &VTABLE)
}

fn clone(data: *const ()) -> RawWaker {
    raw(data)
}

fn wake(data: *const ()) {
    wake_task(TaskToken::from_bits(data as u64));
}

fn forget(_data: *const ()) {}
