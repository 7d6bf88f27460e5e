//! Who waits for changes of which keys.

use std::collections::BTreeMap;
use std::task::Waker;

use ringway_runtime::contain;

use super::watched::WatchedRanges;
use crate::limits;
use crate::store::{KeyRange, Revision, Store};

/// The streams that watch. Each has a waker while it waits.
#[derive(Default)]
pub(super) struct Listeners {
    streams: Vec<Option<Listener>>,
    free: Vec<usize>,
    /// The watches of all streams.
    watches: usize,
    /// Bytes of the keys that they name.
    bytes: usize,
    /// The watches of each range. Many clients watch the same services, and a change looks at each range that it touches
    /// once, however many there are.
    by_range: WatchedRanges<WatchId>,
}

/// A watch of a stream.
type WatchId = (ListenerId, i64);

/// One stream with its watches.
#[derive(Default)]
struct Listener {
    ranges: BTreeMap<i64, KeyRange>,
    /// The watches that something has changed for, and the first revision that they may not have seen.
    changed: Unseen,
    waker: Option<Waker>,
}

/// Watches of a stream, and the first revision that each may not have seen. Other watches have seen all.
pub(super) type Unseen = BTreeMap<i64, Revision>;

/// Identifies a stream among the listeners.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
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
        for (watch, range) in &listener.ranges {
            self.forget((id, *watch), range);
        }
        listener.waker
    }

    /// Whether nobody watches.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.streams.len() == self.free.len()
    }

    /// Whether there may be one more watch, which names keys of so many bytes.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.watches < limits::WATCHES_MAX && self.bytes + bytes <= limits::WATCHED_BYTES_MAX
    }

    /// Adds a watch, whose number no other of its stream has.
    pub(super) fn watch(&mut self, id: ListenerId, watch: i64, range: KeyRange) {
        let Some(listener) = self.get(id) else {
            return;
        };
        let former = listener.ranges.insert(watch, range.clone());
        debug_assert!(former.is_none(), "the number is free");
        self.watches += 1;
        self.bytes += range.named_bytes();
        self.by_range.insert(range, (id, watch));
    }

    pub(super) fn unwatch(&mut self, id: ListenerId, watch: i64) {
        let Some(listener) = self.get(id) else {
            return;
        };
        listener.changed.remove(&watch);
        if let Some(range) = listener.ranges.remove(&watch) {
            self.forget((id, watch), &range);
        }
    }

    /// Forgets a watch that its stream has not any more.
    fn forget(&mut self, watch: WatchId, range: &KeyRange) {
        self.watches -= 1;
        self.bytes -= range.named_bytes();
        self.by_range.remove(range, &watch);
    }

    /// The watches for which something has changed since the last call.
    pub(super) fn take_changed(&mut self, id: ListenerId) -> Unseen {
        self.get(id).map(|listener| std::mem::take(&mut listener.changed)).unwrap_or_default()
    }

    /// Has `waker` woken when something changes next. The waker that it replaces is returned.
    pub(super) fn wait(&mut self, id: ListenerId, waker: Waker) -> Option<Waker> {
        match self.get(id) {
            Some(listener) => listener.waker.replace(waker),
            None => Some(waker),
        }
    }

    /// Notes the changes from a revision on. Returns the wakers of the streams that watch them.
    pub(super) fn changed(&mut self, store: &Store, from: Revision) -> Vec<Waker> {
        let mut woken = Vec::new();
        if self.streams.len() == self.free.len() {
            return woken;
        }
        let mut keys: Vec<&[u8]> = store.changed_keys(from).collect();
        if keys.is_empty() {
            return woken;
        }
        keys.sort_unstable();
        keys.dedup();
        let Self { streams, by_range, .. } = self;
        by_range.visit(&keys, |(stream, watch)| {
            if let Some(Some(listener)) = streams.get_mut(stream.0) {
                listener.changed.entry(*watch).or_insert(from);
                woken.extend(listener.waker.take());
            }
        });
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::store::{LeaseId, Transaction};

    fn put(store: &mut Store, key: impl Into<Bytes>) -> Revision {
        let (key, from) = (key.into(), store.revision().next());
        let put = |change: &mut Transaction<'_>| change.put(key, Bytes::new(), LeaseId::NONE);
        store.change(put).0.expect("without a lease");
        from
    }

    #[test]
    fn of_ten_thousand_watches_only_those_of_a_changed_key_are_visited() {
        let (mut store, mut listeners) = (Store::new(), Listeners::default());
        let stream = listeners.join();
        let mut visited = 0;
        for watch in 0..limits::WATCHES_PER_STREAM_MAX as i64 {
            listeners.watch(stream, watch, KeyRange::Key(watch.to_string().into()));
            visited += listeners.take_changed(stream).len();
        }
        assert_eq!(visited, 0, "a watch that is made has nothing to do with the others");
        let first = put(&mut store, "7");
        listeners.changed(&store, first);
        let second = put(&mut store, "7");
        listeners.changed(&store, second);
        let third = put(&mut store, "9");
        listeners.changed(&store, third);
        assert_eq!(listeners.take_changed(stream), Unseen::from([(7, first), (9, third)]));
        assert_eq!(listeners.take_changed(stream), Unseen::new());
        let fourth = put(&mut store, "9");
        listeners.changed(&store, fourth);
        listeners.unwatch(stream, 9);
        assert_eq!(listeners.take_changed(stream), Unseen::new(), "it was cancelled");
    }

    #[test]
    fn a_range_that_many_watch_is_kept_once_and_goes_with_its_last_watch() {
        let (mut store, mut listeners) = (Store::new(), Listeners::default());
        let streams: Vec<_> = (0..1_000).map(|_| listeners.join()).collect();
        for stream in &streams {
            for service in 0..5 {
                listeners.watch(*stream, service, KeyRange::prefix(format!("service/{service}/")));
            }
        }
        assert_eq!(listeners.by_range.len(), 5, "a change looks at five ranges, not at 5,000");
        let from = put(&mut store, "service/3/a");
        listeners.changed(&store, from);
        for stream in &streams {
            assert_eq!(listeners.take_changed(*stream), Unseen::from([(3, from)]));
        }
        for stream in &streams {
            listeners.unwatch(*stream, 3);
        }
        assert_eq!(listeners.by_range.len(), 4);
        streams.into_iter().for_each(|stream| drop(listeners.leave(stream)));
        assert_eq!((listeners.by_range.len(), listeners.watches, listeners.bytes), (0, 0, 0));
    }
}
