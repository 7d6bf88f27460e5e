//! Who waits for changes of which keys.

use std::task::Waker;

use ringway_runtime::contain;

use crate::store::{KeyRange, Revision, Store};

/// The streams that watch. Each has a waker while it waits.
#[derive(Default)]
pub(super) struct Listeners {
    streams: Vec<Option<Listener>>,
    free: Vec<usize>,
}

/// One stream with its watches.
#[derive(Default)]
struct Listener {
    ranges: Vec<(i64, KeyRange)>,
    has_changed: bool,
    waker: Option<Waker>,
}

/// Identifies a stream among the listeners.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ListenerId(usize);

impl Listeners {
    pub(super) fn join(&mut self) -> ListenerId {
        let listener = Some(Listener::default());
        match self.free.pop() {
            Some(at) => {
                self.streams[at] = listener;
                ListenerId(at)
            }
            None => {
                self.streams.push(listener);
                ListenerId(self.streams.len() - 1)
            }
        }
    }

    /// Removes a stream. Its waker is returned, to be dropped outside of the lock.
    pub(super) fn leave(&mut self, id: ListenerId) -> Option<Waker> {
        let listener = self.streams.get_mut(id.0).and_then(Option::take)?;
        self.free.push(id.0);
        listener.waker
    }

    pub(super) fn watch(&mut self, id: ListenerId, watch: i64, range: KeyRange) {
        if let Some(listener) = self.get(id) {
            listener.ranges.push((watch, range));
            listener.has_changed = true;
        }
    }

    pub(super) fn unwatch(&mut self, id: ListenerId, watch: i64) {
        if let Some(listener) = self.get(id) {
            listener.ranges.retain(|(other, _)| *other != watch);
        }
    }

    /// Whether something has changed since the last call. If nothing has, `waker` is woken when it does; the waker
    /// that it replaces is returned.
    pub(super) fn poll(&mut self, id: ListenerId, waker: Waker) -> (bool, Option<Waker>) {
        let Some(listener) = self.get(id) else {
            return (false, Some(waker));
        };
        if std::mem::take(&mut listener.has_changed) {
            return (true, Some(waker));
        }
        (false, listener.waker.replace(waker))
    }

    /// Notes the changes from a revision on. Returns the wakers of the streams that watch them.
    pub(super) fn changed(&mut self, store: &Store, from: Revision) -> Vec<Waker> {
        let mut woken = Vec::new();
        if self.streams.len() == self.free.len() {
            return woken;
        }
        for listener in self.streams.iter_mut().flatten() {
            let watches = |key: &[u8]| listener.ranges.iter().any(|(_, range)| range.contains(key));
            if !listener.has_changed && store.changed_keys(from).any(watches) {
                listener.has_changed = true;
                woken.extend(listener.waker.take());
            }
        }
        woken
    }

    fn get(&mut self, id: ListenerId) -> Option<&mut Listener> {
        self.streams.get_mut(id.0)?.as_mut()
    }
}

/// Wakes a task, whose executor may be anybody's.
pub(super) fn wake(waker: Waker) {
    contain("a waker", || waker.wake());
}
