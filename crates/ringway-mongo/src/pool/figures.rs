//! What a pool has done and has, for any thread to look at.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What pools have done since they were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolCounts {
    /// Connections that were made.
    pub made: u64,
    /// Connections that could not be made.
    pub failed: u64,
    /// Operations that were given up while they waited for a reply.
    pub abandoned: u64,
    /// Connections that were used again after such a reply had come late.
    pub recovered: u64,
}

/// The same of one pool, and its idle connections. The pool's core alone writes, so nothing is locked.
#[derive(Default)]
pub(crate) struct PoolFigures {
    made: AtomicU64,
    failed: AtomicU64,
    abandoned: AtomicU64,
    recovered: AtomicU64,
    idle: AtomicUsize,
}

impl PoolFigures {
    pub(super) fn count_made(&self) {
        add_one(&self.made);
    }

    pub(super) fn count_failed(&self) {
        add_one(&self.failed);
    }

    pub(super) fn count_abandoned(&self) {
        add_one(&self.abandoned);
    }

    pub(super) fn count_recovered(&self) {
        add_one(&self.recovered);
    }

    pub(super) fn set_idle(&self, count: usize) {
        self.idle.store(count, Ordering::Relaxed);
    }

    /// Connections that wait for an operation.
    pub(crate) fn idle(&self) -> usize {
        self.idle.load(Ordering::Relaxed)
    }
}

fn add_one(count: &AtomicU64) {
    count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

impl PoolCounts {
    pub(crate) fn add(&mut self, pool: &PoolFigures) {
        self.made += pool.made.load(Ordering::Relaxed);
        self.failed += pool.failed.load(Ordering::Relaxed);
        self.abandoned += pool.abandoned.load(Ordering::Relaxed);
        self.recovered += pool.recovered.load(Ordering::Relaxed);
    }
}
