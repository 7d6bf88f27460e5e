//! Leases: times for which their holders promise to renew them.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::time::Duration;

use bytes::Bytes;

/// Identifies a lease. Zero stands for none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct LeaseId(pub i64);

impl LeaseId {
    /// The lease of keys that stay until they are deleted.
    pub const NONE: Self = Self(0);
}

impl fmt::Display for LeaseId {
    /// Hexadecimal, as `etcdctl` writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The reason why an operation on a lease failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaseError {
    /// There is no such lease: it has expired, was revoked, or never existed.
    NotFound,
    /// A lease with this id exists already.
    Exists,
}

impl fmt::Display for LeaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "requested lease not found",
            Self::Exists => "lease already exists",
        })
    }
}

impl std::error::Error for LeaseError {}

/// A lease as its holder sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lease {
    /// The lease's id.
    pub id: LeaseId,
    /// The time for which each renewal holds.
    pub ttl: Duration,
    /// The time at which the lease expires, on the clock of the store's owner.
    pub expires: Duration,
    /// The keys that are deleted when the lease ends, in their order.
    pub keys: Vec<Bytes>,
}

/// The time of a lease, and when it expires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LeaseTimes {
    pub(crate) ttl: Duration,
    pub(crate) expires: Duration,
}

struct Held {
    ttl: Duration,
    expires: Duration,
    keys: BTreeSet<Bytes>,
}

/// All leases of a store. Times are those of the owner's clock.
#[derive(Default)]
pub(super) struct Leases {
    held: HashMap<LeaseId, Held>,
    by_expiry: BTreeSet<(Duration, LeaseId)>,
}

impl Leases {
    pub(super) fn grant(
        &mut self,
        id: LeaseId,
        ttl: Duration,
        now: Duration,
    ) -> Result<(), LeaseError> {
        debug_assert!(id != LeaseId::NONE, "the owner chooses an id");
        if self.held.contains_key(&id) {
            return Err(LeaseError::Exists);
        }
        let expires = now.saturating_add(ttl);
        self.held.insert(id, Held { ttl, expires, keys: BTreeSet::new() });
        self.by_expiry.insert((expires, id));
        Ok(())
    }

    pub(super) fn renew(&mut self, id: LeaseId, now: Duration) -> Result<Duration, LeaseError> {
        let held = self.held.get_mut(&id).ok_or(LeaseError::NotFound)?;
        self.by_expiry.remove(&(held.expires, id));
        held.expires = now.saturating_add(held.ttl);
        self.by_expiry.insert((held.expires, id));
        Ok(held.ttl)
    }

    /// A lease as a log or snapshot has it.
    pub(super) fn restore(&mut self, id: LeaseId, ttl: Duration, expires: Duration) {
        self.held.insert(id, Held { ttl, expires, keys: BTreeSet::new() });
        self.by_expiry.insert((expires, id));
    }

    /// Prolongs each lease to this time from now on, or to its own if that is shorter.
    pub(super) fn prolong(&mut self, least: Duration, now: Duration) {
        for (id, held) in &mut self.held {
            let expires = now.saturating_add(held.ttl.min(least));
            if expires > held.expires {
                self.by_expiry.remove(&(held.expires, *id));
                held.expires = expires;
                self.by_expiry.insert((expires, *id));
            }
        }
    }

    /// Each lease's id, time, and expiry.
    pub(super) fn times(&self) -> impl Iterator<Item = (LeaseId, Duration, Duration)> + '_ {
        self.held.iter().map(|(id, held)| (*id, held.ttl, held.expires))
    }

    /// Removes a lease, and returns its keys.
    pub(super) fn remove(&mut self, id: LeaseId) -> Result<BTreeSet<Bytes>, LeaseError> {
        let held = self.held.remove(&id).ok_or(LeaseError::NotFound)?;
        self.by_expiry.remove(&(held.expires, id));
        Ok(held.keys)
    }

    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    pub(super) fn contains(&self, id: LeaseId) -> bool {
        self.held.contains_key(&id)
    }

    pub(super) fn attach(&mut self, id: LeaseId, key: &Bytes) {
        if let Some(held) = self.held.get_mut(&id) {
            held.keys.insert(key.clone());
        }
    }

    pub(super) fn detach(&mut self, id: LeaseId, key: &Bytes) {
        if let Some(held) = self.held.get_mut(&id) {
            held.keys.remove(key);
        }
    }

    pub(super) fn times_of(&self, id: LeaseId) -> Option<LeaseTimes> {
        self.held.get(&id).map(|held| LeaseTimes { ttl: held.ttl, expires: held.expires })
    }

    /// The number of keys of a lease; 0 if it is not there.
    pub(super) fn key_count(&self, id: LeaseId) -> usize {
        self.held.get(&id).map_or(0, |held| held.keys.len())
    }

    /// The keys of a lease in their order; none if it is not there.
    pub(super) fn keys(&self, id: LeaseId) -> impl Iterator<Item = &Bytes> {
        self.held.get(&id).into_iter().flat_map(|held| &held.keys)
    }

    /// The ids in the order of their expiry.
    pub(super) fn ids(&self) -> impl Iterator<Item = LeaseId> + '_ {
        self.by_expiry.iter().map(|(_, id)| *id)
    }

    /// The first lease to expire, and when.
    pub(super) fn next(&self) -> Option<(Duration, LeaseId)> {
        self.by_expiry.first().copied()
    }
}
