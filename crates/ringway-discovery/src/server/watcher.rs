//! One watch of a stream: a range, and the revision that it sees next.

use bytes::Bytes;

use crate::etcd::api::etcdserverpb::WatchCreateRequest;
use crate::etcd::api::etcdserverpb::watch_create_request::FilterType;
use crate::etcd::api::mvccpb::{self, Event, event::EventType};
use crate::store::{Compacted, FoundChange, FoundKey, KeyRange, Revision, Store};

pub(super) struct Watcher {
    pub(super) id: i64,
    pub(super) range: KeyRange,
    /// Bytes of the keys that it names.
    pub(super) bytes: usize,
    next: Revision,
    wants_before: bool,
    ignores_puts: bool,
    ignores_deletions: bool,
    pub(super) wants_progress: bool,
    pub(super) takes_fragments: bool,
}

/// What a watch sees.
pub(super) struct Seen {
    pub(super) events: Vec<Event>,
    /// Whether there is more.
    pub(super) more: bool,
}

impl Watcher {
    /// A watch from the revision that it asks for, or from the next one.
    pub(super) fn new(id: i64, request: &WatchCreateRequest, present: Revision) -> Self {
        let next = match request.start_revision {
            1.. => Revision(request.start_revision),
            _ => present.next(),
        };
        let filters: Vec<_> = request.filters().collect();
        // A watch of no key is a watch of the first that there can be, as in etcd.
        let key: &[u8] = if request.key.is_empty() { &[0] } else { &request.key };
        // Copies, because what is decoded may share the memory of a larger request.
        let (key, range_end) =
            (Bytes::copy_from_slice(key), Bytes::copy_from_slice(&request.range_end));
        Self {
            id,
            bytes: request.key.len() + request.range_end.len(),
            range: KeyRange::from_wire(key, range_end),
            next,
            wants_before: request.prev_kv,
            ignores_puts: filters.contains(&FilterType::Noput),
            ignores_deletions: filters.contains(&FilterType::Nodelete),
            wants_progress: request.progress_notify,
            takes_fragments: request.fragment,
        }
    }

    /// Whether the watch has seen all that there is.
    pub(super) fn is_synced(&self, present: Revision) -> bool {
        self.next > present
    }

    /// Notes that nothing before this revision is left to be seen.
    pub(super) fn has_seen_before(&mut self, from: Revision) {
        self.next = self.next.max(from);
    }

    /// The last revision of which the watch has seen everything.
    pub(super) fn seen(&self) -> Revision {
        Revision(self.next.0 - 1)
    }

    /// The next changes up to the present revision.
    pub(super) fn see(&mut self, store: &Store, present: Revision) -> Result<Seen, Compacted> {
        let mut events = Vec::new();
        let visit = |change: FoundChange<'_>| events.extend(self.event(change));
        self.next = store.visit_changes(&self.range, self.next, present, visit)?;
        Ok(Seen { events, more: self.next <= present })
    }

    /// The store is locked meanwhile: what is not told is not copied.
    fn event(&self, change: FoundChange<'_>) -> Option<Event> {
        // A key that was deleted and put at one revision is a new one, as in etcd.
        let is_new = change.now.is_some_and(|now| now.create_revision() == now.mod_revision());
        let message = |found: FoundKey<'_>| mvccpb::KeyValue::from(found.to_owned());
        let before = change.before.filter(|_| self.wants_before && !is_new);
        let prev_kv = || before.map(message);
        match change.now {
            Some(now) if !self.ignores_puts => {
                let kv = Some(message(now));
                Some(Event { r#type: EventType::Put.into(), kv, prev_kv: prev_kv() })
            }
            None if !self.ignores_deletions => {
                let (key, mod_revision) = (change.key.clone(), change.revision.0);
                let kv = mvccpb::KeyValue { key, mod_revision, ..mvccpb::KeyValue::default() };
                Some(Event { r#type: EventType::Delete.into(), kv: Some(kv), prev_kv: prev_kv() })
            }
            _ => None,
        }
    }
}
