//! Connections that are made before anybody needs them (`minPoolSize`).

use std::rc::Rc;

use super::Pool;

impl Pool {
    /// Has the keeper make connections from now on: the server is there.
    pub(crate) fn keep_filled(&self) {
        self.telling.ready();
        let has_work = self.greeting.options.pool_size_min > 0 || self.telling.is_heard();
        if !self.is_kept_filled.replace(true) && has_work {
            self.wake_keeper();
        }
    }

    /// Whether the keeper has to look after the number of connections.
    pub(super) fn has_minimum(&self) -> bool {
        self.greeting.options.pool_size_min > 0 && self.is_kept_filled.get()
    }

    /// Has a connection made if one is missing, and then the next one. If that fails, the keeper tries again later.
    pub(super) fn fill(self: &Rc<Self>) {
        let is_missing = self.has_minimum() && self.connection_count() < self.least();
        if is_missing && self.may_make() && !self.is_filling.replace(true) {
            let _begun = self.begin_making(true);
        }
    }

    /// There are never more than the most, whatever the least is.
    fn least(&self) -> u64 {
        let options = &self.greeting.options;
        u64::from(options.pool_size_min.min(options.pool_size_max))
    }
}
