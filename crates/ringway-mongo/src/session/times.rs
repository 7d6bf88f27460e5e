//! What a session has seen of the time of its cluster, for reads that must see as much again.
//!
//! Specifications: Causal Consistency; Snapshot Reads.

use std::sync::Arc;

use bson::raw::cstr;
use bson::{RawDocument, RawDocumentBuf, Timestamp};

use super::clock::{ClusterTime, ReplyTimes};
use crate::error::{Error, Fate, Kind, Result};

/// What the reads of a session must see.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Consistency {
    /// What the session has read and written before.
    Causal { is_asked_for: bool },
    /// Each time the same.
    Snapshot,
    /// Both are asked for.
    Contradiction,
    /// Whatever the server has.
    #[default]
    Loose,
}

/// The times of one session.
#[derive(Clone, Default, Debug)]
pub(crate) struct SessionTimes {
    consistency: Consistency,
    operation: Option<Timestamp>,
    cluster: Option<Arc<ClusterTime>>,
    snapshot: Option<Timestamp>,
}

impl SessionTimes {
    /// Those of a session of the user.
    pub(crate) fn of_user() -> Self {
        let consistency = Consistency::Causal { is_asked_for: false };
        Self { consistency, ..Self::default() }
    }

    pub(crate) fn set_causal(&mut self, is_causal: bool) {
        self.consistency = match (self.consistency, is_causal) {
            (Consistency::Snapshot | Consistency::Contradiction, true) => {
                Consistency::Contradiction
            }
            (Consistency::Snapshot | Consistency::Contradiction, false) => Consistency::Snapshot,
            (_, true) => Consistency::Causal { is_asked_for: true },
            (_, false) => Consistency::Loose,
        };
    }

    pub(crate) fn set_snapshot(&mut self, is_snapshot: bool) {
        self.consistency = match (self.consistency, is_snapshot) {
            (Consistency::Causal { is_asked_for: true } | Consistency::Contradiction, true) => {
                Consistency::Contradiction
            }
            (_, true) => Consistency::Snapshot,
            (Consistency::Contradiction, false) => Consistency::Causal { is_asked_for: true },
            (Consistency::Snapshot, false) => Consistency::Causal { is_asked_for: false },
            (same, false) => same,
        };
    }

    /// The time of the snapshot that it reads of, once that is known.
    pub(crate) fn snapshot(&self) -> Option<Timestamp> {
        self.snapshot.filter(|_| self.is_snapshot())
    }

    /// Has it read of the snapshot of a time.
    pub(crate) fn set_snapshot_at(&mut self, at: Timestamp) {
        self.set_snapshot(true);
        self.snapshot = Some(at);
    }

    /// # Errors
    /// It is to be causally consistent, and to read of a snapshot.
    pub(crate) fn check(&self) -> Result {
        match self.consistency {
            Consistency::Contradiction => Err(wrong(
                "a session is either causally consistent or reads of a snapshot, not both",
            )),
            _ => Ok(()),
        }
    }

    /// # Errors
    /// The session reads of a snapshot.
    pub(crate) fn check_transaction(&self) -> Result {
        match self.consistency {
            Consistency::Snapshot => {
                Err(wrong("Transactions are not supported in snapshot sessions"))
            }
            _ => self.check(),
        }
    }

    pub(crate) fn is_snapshot(&self) -> bool {
        self.consistency == Consistency::Snapshot
    }

    pub(crate) fn operation(&self) -> Option<Timestamp> {
        self.operation
    }

    pub(crate) fn cluster(&self) -> Option<&Arc<ClusterTime>> {
        self.cluster.as_ref()
    }

    /// What reads must see at least.
    pub(crate) fn after(&self) -> Option<Timestamp> {
        self.operation.filter(|_| matches!(self.consistency, Consistency::Causal { .. }))
    }

    /// Whether its commands have other read concerns than those of their collections.
    pub(crate) fn has_concern(&self) -> bool {
        self.is_snapshot() || self.after().is_some()
    }

    /// The read concern of every command of a session that reads of a snapshot.
    pub(crate) fn snapshot_concern(&self) -> RawDocumentBuf {
        let mut concern = RawDocumentBuf::new();
        concern.append(cstr!("level"), "snapshot");
        if let Some(at) = self.snapshot {
            concern.append(cstr!("atClusterTime"), at);
        }
        concern
    }

    /// A read concern that has the server wait until it knows what the session has seen.
    pub(crate) fn causal_concern(&self, concern: Option<&RawDocument>) -> Option<RawDocumentBuf> {
        let after = self.after()?;
        let mut causal = concern.map_or_else(RawDocumentBuf::new, RawDocument::to_owned);
        causal.append(cstr!("afterClusterTime"), after);
        Some(causal)
    }

    pub(crate) fn advance_operation(&mut self, at: Timestamp) {
        self.operation = self.operation.max(Some(at));
    }

    pub(crate) fn advance_cluster(&mut self, later: &Arc<ClusterTime>) {
        if self.cluster.as_ref().is_none_or(|known| known.at < later.at) {
            self.cluster = Some(Arc::clone(later));
        }
    }

    /// Takes what a reply to one of its commands says.
    pub(crate) fn take(&mut self, body: &RawDocument) {
        let times = ReplyTimes::of(body);
        times.operation.into_iter().for_each(|at| self.advance_operation(at));
        if let Some(later) = times.cluster.and_then(ClusterTime::of) {
            self.advance_cluster(&Arc::new(later));
        }
        if self.is_snapshot() && self.snapshot.is_none() {
            self.snapshot = ReplyTimes::snapshot_of(body);
        }
    }

    /// Takes what another copy has learned.
    pub(crate) fn merge(&mut self, other: &Self) {
        other.operation.into_iter().for_each(|at| self.advance_operation(at));
        other.cluster.iter().for_each(|later| self.advance_cluster(later));
        self.snapshot = self.snapshot.or(other.snapshot);
    }

    /// The later one of the time of the client and that of the session.
    pub(crate) fn latest(&self, client: Option<Arc<ClusterTime>>) -> Option<Arc<ClusterTime>> {
        match (&self.cluster, client) {
            (Some(own), Some(client)) if client.at < own.at => Some(Arc::clone(own)),
            (Some(own), None) => Some(Arc::clone(own)),
            (_, client) => client,
        }
    }
}

fn wrong(what: &str) -> Error {
    Error::new(Kind::Options, Fate::NotSent, what)
}
