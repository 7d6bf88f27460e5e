//! The receive pools of the calling thread.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use crate::sys::Pool;

thread_local! {
    /// The pools of this thread's core, to which buffers released here return directly.
    static HERE: RefCell<Vec<Weak<Pool>>> = const { RefCell::new(Vec::new()) };
}

/// Registers `pool` as one of this thread's.
pub(crate) fn settle(pool: &Rc<Pool>) {
    HERE.with_borrow_mut(|here| {
        here.retain(|pool| pool.strong_count() > 0);
        here.push(Rc::downgrade(pool));
    });
}

/// The pool of this thread for which `is_it` holds.
pub(crate) fn pool_here(is_it: impl Fn(&Pool) -> bool) -> Option<Rc<Pool>> {
    let find = |here: &RefCell<Vec<Weak<Pool>>>| {
        here.borrow().iter().filter_map(Weak::upgrade).find(|pool| is_it(pool))
    };
    HERE.try_with(find).ok().flatten()
}
