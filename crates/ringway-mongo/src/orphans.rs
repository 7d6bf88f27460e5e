//! Cursors that were dropped before their end, and that the server still keeps.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

use ringway_runtime::sync::Notify;

use crate::limits::ORPHANS_MAX;
use crate::pool::ServerId;

/// The list of a client. A task of the client ends them at the server.
#[derive(Default)]
pub(crate) struct Orphans {
    list: RefCell<VecDeque<Orphan>>,
    changed: Notify,
    is_watched: Cell<bool>,
}

pub(crate) struct Orphan {
    pub(crate) id: i64,
    pub(crate) server: ServerId,
    pub(crate) database: Arc<str>,
    pub(crate) collection: Arc<str>,
}

impl Orphans {
    /// Adds a cursor, unless there are too many. This may be called anywhere, also while a core ends.
    pub(crate) fn add(&self, orphan: Orphan) -> bool {
        let mut list = self.list.borrow_mut();
        let has_place = list.len() < ORPHANS_MAX;
        if has_place {
            list.push_back(orphan);
        }
        drop(list);
        self.changed.notify_one();
        has_place
    }

    /// Wakes the task, because the client has gone.
    pub(crate) fn wake(&self) {
        self.changed.notify_one();
    }

    /// Whether the task has to be started: true once.
    pub(crate) fn begins_to_be_watched(&self) -> bool {
        !self.is_watched.replace(true)
    }

    /// The cursor that was dropped first.
    pub(crate) fn next(&self) -> Option<Orphan> {
        self.list.borrow_mut().pop_front()
    }

    /// Waits until a cursor is added or the client has gone.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}
