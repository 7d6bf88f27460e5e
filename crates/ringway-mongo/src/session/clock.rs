//! The time of a cluster, which its servers sign and clients tell on.
//!
//! Specification: Driver Sessions, "Gossipping the Cluster Time".

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bson::{RawBsonRef, RawDocument, RawDocumentBuf, Timestamp};

use crate::limits::CLUSTER_TIME_LEN_MAX;

/// A time of the cluster as a server has signed it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClusterTime {
    pub(super) at: Timestamp,
    document: RawDocumentBuf,
}

impl ClusterTime {
    /// Reads a field `$clusterTime`; `None` if it is none.
    pub(crate) fn of(document: &RawDocument) -> Option<Self> {
        if document.as_bytes().len() > CLUSTER_TIME_LEN_MAX {
            return None;
        }
        let at = document.get("clusterTime").ok()?.and_then(RawBsonRef::as_timestamp)?;
        Some(Self { at, document: document.to_owned() })
    }

    pub(crate) fn document(&self) -> &RawDocument {
        &self.document
    }
}

/// The latest time of the cluster that a server has told any core of a client.
#[derive(Default)]
pub(crate) struct ClusterClock {
    /// The same as a number, so that replies with nothing new take no lock; 0 for none.
    newest: AtomicU64,
    time: Mutex<Option<Arc<ClusterTime>>>,
}

impl ClusterClock {
    pub(crate) fn now(&self) -> Option<Arc<ClusterTime>> {
        if self.newest.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.time().clone()
    }

    /// Takes what a reply says.
    pub(crate) fn take(&self, body: &RawDocument) {
        ReplyTimes::of(body).cluster.iter().for_each(|document| self.advance(document));
    }

    /// Takes a time that a server has told.
    pub(crate) fn advance(&self, document: &RawDocument) {
        let at = document.get("clusterTime").ok().flatten().and_then(RawBsonRef::as_timestamp);
        let Some(at) = at.map(number).filter(|at| *at > self.newest.load(Ordering::Relaxed)) else {
            return;
        };
        let Some(later) = ClusterTime::of(document) else { return };
        let mut time = self.time();
        if time.as_ref().is_none_or(|known| known.at < later.at) {
            *time = Some(Arc::new(later));
            self.newest.store(at, Ordering::Relaxed);
        }
    }

    /// No foreign code runs under the lock, so the content of a poisoned one is sound.
    fn time(&self) -> MutexGuard<'_, Option<Arc<ClusterTime>>> {
        self.time.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn number(at: Timestamp) -> u64 {
    u64::from(at.time) << 32 | u64::from(at.increment)
}

/// What a reply says of the time.
#[derive(Clone, Copy, Default)]
pub(crate) struct ReplyTimes<'a> {
    /// When the command was executed.
    pub(crate) operation: Option<Timestamp>,
    /// Of when the snapshot is that it has read.
    pub(crate) snapshot: Option<Timestamp>,
    pub(crate) cluster: Option<&'a RawDocument>,
}

impl<'a> ReplyTimes<'a> {
    pub(crate) fn of(body: &'a RawDocument) -> Self {
        let mut times = Self::default();
        for element in body.iter_elements().map_while(Result::ok) {
            let value = || element.value().ok();
            match element.key().as_str() {
                "operationTime" => times.operation = value().and_then(RawBsonRef::as_timestamp),
                "$clusterTime" => times.cluster = value().and_then(RawBsonRef::as_document),
                "atClusterTime" => times.snapshot = value().and_then(RawBsonRef::as_timestamp),
                _ => {}
            }
        }
        times
    }

    /// The time of the snapshot that a reply was read of, which is in the cursor if there is one.
    pub(super) fn snapshot_of(body: &'a RawDocument) -> Option<Timestamp> {
        let in_cursor = body.get_document("cursor").ok().and_then(|cursor| {
            cursor.get("atClusterTime").ok().flatten().and_then(RawBsonRef::as_timestamp)
        });
        in_cursor.or_else(|| Self::of(body).snapshot)
    }
}
