//! Cursors that were dropped before their end, and that the server still keeps.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

use ringway_runtime::sync::Notify;

use crate::limits::{ORPHAN_SERVERS_MAX, ORPHANS_MAX};
use crate::pool::ServerId;

/// The list of a client. A task of the client ends them at the server.
#[derive(Default)]
pub(crate) struct Orphans {
    list: RefCell<VecDeque<Orphan>>,
    /// Servers that are ending some of them.
    busy: RefCell<Vec<ServerId>>,
    changed: Notify,
    is_watched: Cell<bool>,
}

pub(crate) struct Orphan {
    pub(crate) id: i64,
    pub(crate) place: OrphanPlace,
}

/// Where cursors are that one command ends.
#[derive(Clone, PartialEq)]
pub(crate) struct OrphanPlace {
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

    /// The cursor that was dropped first at a server that is ending no others, and those of the same collection there. The
    /// server is ending them until [`end`](Self::end) is called.
    pub(crate) fn begin(&self) -> Option<(OrphanPlace, Vec<i64>)> {
        let (mut list, mut busy) = (self.list.borrow_mut(), self.busy.borrow_mut());
        if busy.len() == ORPHAN_SERVERS_MAX {
            return None;
        }
        let first = list.iter().find(|orphan| !busy.contains(&orphan.place.server))?;
        let place = first.place.clone();
        let mut ids = Vec::new();
        list.retain(|orphan| {
            let is_there = orphan.place == place;
            ids.extend(is_there.then_some(orphan.id));
            !is_there
        });
        busy.push(place.server);
        Some((place, ids))
    }

    /// Notes that a server has ended those that it was told, or has not.
    pub(crate) fn end(&self, server: ServerId) {
        self.busy.borrow_mut().retain(|busy| *busy != server);
        self.changed.notify_one();
    }

    /// Waits until a cursor is added or the client has gone.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}
