//! Helpers for tests: a waker that counts, and a seeded generator.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// A waker that counts how often it was woken.
#[derive(Default)]
pub(crate) struct Count(AtomicUsize);

impl Count {
    pub(crate) fn woken(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Polls futures by hand and counts how often they were woken.
pub(super) struct Probe {
    count: Arc<Count>,
    waker: Waker,
}

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Probe {
    pub(super) fn new() -> Probe {
        let count = Arc::<Count>::default();
        let waker = Waker::from(count.clone());
        Probe { count, waker }
    }

    pub(super) fn poll<F: Future + Unpin>(&self, future: &mut F) -> Poll<F::Output> {
        Pin::new(future).poll(&mut Context::from_waker(&self.waker))
    }

    pub(super) fn wakes(&self) -> usize {
        self.count.woken()
    }
}

/// SplitMix64, which makes the same choices in every run of a seed.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }
}
