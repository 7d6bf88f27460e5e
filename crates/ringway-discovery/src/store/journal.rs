//! What a log has to be told of.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;

use super::history::Live;
use super::leases::{LeaseId, LeaseTimes};
use super::op::Op;
use super::values::Revision;

/// Changes since the log was last told of them, as [operations](Op). Renewals of leases are none: after a start every lease
/// has its whole time.
#[derive(Default)]
pub(super) struct Journal {
    ops: Vec<u8>,
    /// The revision that the last operations are about.
    revision: Option<Revision>,
    leases: UnloggedLeases,
}

/// Leases that were granted or have ended, and nobody knows yet whether the log has that.
#[derive(Default)]
struct UnloggedLeases {
    /// The leases in the order of these changes; a lease may be there several times.
    changed: VecDeque<LeaseId>,
    /// How many of them the log was told of.
    told: usize,
    /// What each lease was before each of its changes, the first of which the log has not got.
    before: HashMap<LeaseId, VecDeque<Option<LeaseTimes>>>,
}

impl Journal {
    pub(super) fn tell(&mut self, op: &Op<'_>) {
        op.encode(&mut self.ops);
    }

    /// Tells of the beginning or the end of a lease, and what it was before: `None` if it was not there.
    pub(super) fn tell_lease(&mut self, op: &Op<'_>, id: LeaseId, before: Option<LeaseTimes>) {
        self.tell(op);
        self.leases.changed.push_back(id);
        self.leases.before.entry(id).or_default().push_back(before);
    }

    pub(super) fn tell_change(&mut self, revision: Revision, key: &Bytes, now: Option<&Live>) {
        if self.revision.replace(revision) != Some(revision) {
            self.tell(&Op::Revision(revision));
        }
        self.tell(&match now {
            Some(Live { lease, value, .. }) => Op::Put { key, value, lease: *lease },
            None => Op::Delete { key },
        });
    }

    pub(super) fn bytes(&self) -> usize {
        self.ops.len()
    }

    /// Takes everything.
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.revision = None;
        self.leases.told = self.leases.changed.len();
        std::mem::take(&mut self.ops)
    }

    /// The log has everything that was taken.
    pub(super) fn logged(&mut self) {
        let UnloggedLeases { changed, told, before } = &mut self.leases;
        for id in changed.drain(..std::mem::take(told)) {
            let Some(states) = before.get_mut(&id) else { continue };
            states.pop_front();
            if states.is_empty() {
                before.remove(&id);
            }
        }
    }

    /// What the log has of a lease, if that is not what the store has: `None` in it stands for a lease that is not there.
    pub(super) fn logged_lease(&self, id: LeaseId) -> Option<Option<LeaseTimes>> {
        self.leases.before.get(&id)?.front().copied()
    }

    /// The leases that the log still has, and the store perhaps not any more.
    pub(super) fn logged_leases(&self) -> impl Iterator<Item = LeaseId> {
        let states = self.leases.before.iter();
        states.filter(|(_, states)| states.front().is_some_and(Option::is_some)).map(|(id, _)| *id)
    }
}
