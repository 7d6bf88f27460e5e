//! What a log has to be told of.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::history::Live;
use super::leases::LeaseId;
use super::op::Op;
use super::values::Revision;

/// Changes since the log was last told of them, as [operations](Op).
#[derive(Default)]
pub(super) struct Journal {
    ops: Vec<u8>,
    /// The revision that the last operations are about.
    revision: Option<Revision>,
    /// Renewals are told once for a lease, and nobody waits for them.
    renewed: BTreeSet<LeaseId>,
}

impl Journal {
    pub(super) fn tell(&mut self, op: &Op<'_>) {
        op.encode(&mut self.ops);
    }

    pub(super) fn tell_renewed(&mut self, id: LeaseId) {
        self.renewed.insert(id);
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

    pub(super) fn has_renewals(&self) -> bool {
        !self.renewed.is_empty()
    }

    /// Takes everything.
    pub(super) fn take(&mut self) -> Vec<u8> {
        let Self { mut ops, renewed, .. } = std::mem::take(self);
        renewed.into_iter().for_each(|id| Op::Renew { id }.encode(&mut ops));
        ops
    }
}
