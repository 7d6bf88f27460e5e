//! How buffers come home that were read elsewhere.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::sys::Pool;

/// Buffers whose last reader ended on another thread; their core looks when it next lends one.
#[derive(Default)]
pub(crate) struct Returns {
    ids: Mutex<Vec<u16>>,
    any: AtomicBool,
}

impl Returns {
    /// What has come since the last look.
    #[inline]
    pub(crate) fn take(&self) -> Vec<u16> {
        if !self.any.load(Ordering::Relaxed) {
            return Vec::new();
        }
        // Before the list is taken: what comes behind it will set the flag again.
        self.any.store(false, Ordering::Relaxed);
        std::mem::take(&mut *self.ids.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn push(&self, id: u16) {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        self.any.store(true, Ordering::Relaxed);
    }
}

thread_local! {
    /// The pools of this thread's core, so that what ends here goes straight back.
    static HERE: RefCell<Vec<Weak<Pool>>> = const { RefCell::new(Vec::new()) };
}

/// Makes `pool` known as one of this thread's.
pub(crate) fn settle(pool: &Rc<Pool>) {
    HERE.with_borrow_mut(|here| {
        here.retain(|pool| pool.strong_count() > 0);
        here.push(Rc::downgrade(pool));
    });
}

/// The pool of this thread that `is_it`.
pub(crate) fn pool_here(is_it: impl Fn(&Pool) -> bool) -> Option<Rc<Pool>> {
    let find = |here: &RefCell<Vec<Weak<Pool>>>| {
        here.borrow().iter().filter_map(Weak::upgrade).find(|pool| is_it(pool))
    };
    HERE.try_with(find).ok().flatten()
}
