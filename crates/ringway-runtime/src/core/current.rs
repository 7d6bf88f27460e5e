//! The core of the calling thread.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use super::Core;
use super::registry::{self, Running};
use crate::task::TaskToken;

thread_local! {
    static CURRENT: RefCell<Option<Rc<Core>>> = const { RefCell::new(None) };
}

/// Calls `f` with the core of this thread.
///
/// # Panics
/// Panics outside a runtime's thread: tasks, timers and sockets belong to a core.
#[track_caller]
pub(crate) fn with_current<T>(f: impl FnOnce(&Rc<Core>) -> T) -> T {
    try_with_current(f).expect(NO_CORE)
}

/// As [`with_current`], but returns `None` if the thread has no core, or its thread-local values
/// are being destroyed.
pub(crate) fn try_with_current<T>(f: impl FnOnce(&Rc<Core>) -> T) -> Option<T> {
    let core = CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()?;
    Some(f(&core))
}

/// Reads from the core of this thread. Unlike [`with_current`] it does not keep the core alive
/// meanwhile, so `f` must not run foreign code.
///
/// # Panics
/// Panics as [`with_current`] does.
#[inline]
pub(crate) fn look_at_current<T>(f: impl FnOnce(&Core) -> T) -> T {
    let looked = CURRENT.try_with(|current| current.borrow().as_deref().map(f));
    looked.ok().flatten().expect(NO_CORE)
}

/// The panic message when the thread has no core.
const NO_CORE: &str =
    "this needs a Ringway core: call it inside `runtime::block_on` or a runtime's task";

/// Checks that the calling thread can become a core.
///
/// # Errors
/// Fails if the thread is a core already, or is ending.
pub(crate) fn ensure_vacant() -> io::Result<()> {
    match CURRENT.try_with(|current| current.borrow().is_some()) {
        Ok(false) => Ok(()),
        Ok(true) => Err(io::Error::other(
            "this thread runs a Ringway core already: await the future, or start the second \
             runtime on a thread of its own",
        )),
        Err(_destroyed) => Err(io::Error::other(
            "this thread is ending and can run no Ringway core: its own values are being dropped",
        )),
    }
}

/// Makes `core` the thread's core until the guard is dropped.
///
/// # Errors
/// Fails as [`ensure_vacant`] does.
pub(crate) fn enter(core: &Rc<Core>) -> io::Result<Entered> {
    ensure_vacant()?;
    let running = (!core.driver.borrow().is_simulated()).then(Running::begin);
    // `ensure_vacant` has refused ending threads.
    let _entered = CURRENT.try_with(|current| current.replace(Some(Rc::clone(core))));
    Ok(Entered { _running: running })
}

/// The thread's claim to its core; dropping it removes the core from the thread.
pub(crate) struct Entered {
    /// Present except in a simulation, which never holds a CPU while it waits.
    _running: Option<Running>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let core = CURRENT.try_with(|current| current.take());
        drop(core); // outside the borrow: destructors may ask for the thread's core
    }
}

/// Wakes a task of any core, from any thread.
#[inline]
pub(crate) fn wake_task(token: TaskToken) {
    let woken_here = CURRENT.try_with(|current| match &*current.borrow() {
        Some(core) if core.shared.id() == token.core() => {
            core.tasks.wake(token);
            true
        }
        _ => false,
    });
    if woken_here != Ok(true) {
        registry::wake_elsewhere(token);
    }
}
