//! What a log is told of a store, and what of the store it has.

use std::collections::{BTreeSet, HashSet};

use bytes::Bytes;

use super::journal::Journal;
use super::leases::{LeaseId, LeaseTimes};
use super::{Revision, Store};

impl Store {
    /// Keeps from now on what a log has to be told of.
    pub(crate) fn keep_journal(&mut self) {
        self.journal = Some(Journal::default());
        self.held = Some(self.revision);
    }

    /// The bytes of changes that a log has not been told of; renewals of leases do not count.
    pub(crate) fn journal_bytes(&self) -> usize {
        self.journal.as_ref().map_or(0, Journal::bytes)
    }

    /// Takes everything that a log has not been told of.
    pub(crate) fn take_journal(&mut self) -> Vec<u8> {
        self.journal.as_mut().map_or_else(Vec::new, Journal::take)
    }

    /// The log has what was taken last, and with it everything up to a revision, so that what was before it may be
    /// forgotten.
    pub(crate) fn logged(&mut self, upto: Revision) {
        self.held = Some(upto);
        if let Some(journal) = &mut self.journal {
            journal.logged();
        }
        self.bound_history();
    }

    /// The times of a lease, if the log has it.
    pub(crate) fn logged_lease(&self, id: LeaseId) -> Option<LeaseTimes> {
        let unlogged = self.journal.as_ref().and_then(|journal| journal.logged_lease(id));
        unlogged.unwrap_or_else(|| self.leases.times_of(id))
    }

    /// The leases that the log has, the first to expire first, and at the end those that have ended otherwise.
    pub(crate) fn logged_leases(&self) -> impl Iterator<Item = LeaseId> {
        let journal = self.journal.as_ref();
        let held = self.leases.ids().filter(|id| self.logged_lease(*id).is_some());
        let ended = journal.into_iter().flat_map(Journal::logged_leases);
        held.chain(ended.filter(|id| !self.leases.contains(*id)))
    }

    /// The keys that a lease had at a revision not long ago, in their order.
    pub(crate) fn lease_keys_at(&self, id: LeaseId, at: Revision) -> BTreeSet<&Bytes> {
        let changed = self.log.iter().rev().take_while(|logged| logged.revision > at);
        let changed: HashSet<&Bytes> = changed.map(|logged| &logged.key).collect();
        let was_its = |key: &&Bytes| {
            let version = self.keys.get(&**key).and_then(|history| history.version_at(at));
            version.and_then(|it| it.live.as_ref()).is_some_and(|live| live.lease == id)
        };
        // The others, of which a lease may have very many, are as they were.
        let unchanged = self.lease_keys(id).filter(|key| !changed.contains(key));
        unchanged.chain(changed.iter().copied().filter(was_its)).collect()
    }
}
