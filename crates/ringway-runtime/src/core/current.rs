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
/// Outside of a runtime's thread: tasks, timers and sockets belong to a core.
#[track_caller]
pub(crate) fn with_current<T>(f: impl FnOnce(&Rc<Core>) -> T) -> T {
    try_with_current(f).expect(NO_CORE)
}

/// As `with_current`, but `None` where there is no core (any more), also while a thread's values are
/// dropped at its end.
pub(crate) fn try_with_current<T>(f: impl FnOnce(&Rc<Core>) -> T) -> Option<T> {
    let core = CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()?;
    Some(f(&core))
}

/// Reads something off the core of this thread. It is not kept alive meanwhile as `with_current` does,
/// so `f` runs nothing foreign.
///
/// # Panics
/// As `with_current`.
#[inline]
pub(crate) fn look_at_current<T>(f: impl FnOnce(&Core) -> T) -> T {
    let looked = CURRENT.try_with(|current| current.borrow().as_deref().map(f));
    looked.ok().flatten().expect(NO_CORE)
}

/// Why there is nothing to be had of the thread's core.
const NO_CORE: &str =
    "this needs a Ringway core: call it inside `runtime::block_on` or a runtime's task";

/// Whether the calling thread can become a core.
///
/// # Errors
/// It is one, or it is ending.
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
/// As [`ensure_vacant`].
pub(crate) fn enter(core: &Rc<Core>) -> io::Result<Entered> {
    ensure_vacant()?;
    let running = (!core.driver.borrow().is_simulated()).then(Running::begin);
    // An ending thread was refused above.
    let _entered = CURRENT.try_with(|current| current.replace(Some(Rc::clone(core))));
    Ok(Entered { _running: running })
}

/// The thread has a core; dropping this takes it away.
pub(crate) struct Entered {
    /// `None` in a simulation, which never holds a CPU to wait.
    _running: Option<Running>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let core = CURRENT.try_with(|current| current.take());
        drop(core); // not within: what the core owns may ask for the thread's core
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
