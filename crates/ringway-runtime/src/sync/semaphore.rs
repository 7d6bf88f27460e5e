//! A limit on concurrency.

use std::cell::RefCell;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::waiters::{Offer, Turn, WaiterKey, WaiterList, poll_by};
use crate::contain::{drop_waker, wake};

/// A fixed number of permits, granted in arrival order.
///
/// It is a handle: clones share the permits. Small requests do not overtake a large one at the
/// front of the wait queue.
///
/// ```
/// use ringway_runtime::sync::{Semaphore, TryAcquireError};
///
/// let semaphore = Semaphore::new(3);
/// let permit = semaphore.try_acquire(2).expect("three are free");
/// assert_eq!(semaphore.try_acquire(2).unwrap_err(), TryAcquireError::Busy);
/// drop(permit);
/// assert_eq!(semaphore.available(), 3);
/// ```
#[derive(Clone)]
pub struct Semaphore {
    state: Rc<RefCell<SemaphoreState>>,
}

/// Permits in use; dropping it returns them. It may move to another task of the core.
#[must_use = "dropping a permit returns it at once"]
pub struct Permit {
    semaphore: Semaphore,
    units: u32,
}

/// A future of permits, made by [`Semaphore::acquire`].
#[must_use = "a future does nothing until it is awaited"]
pub struct Acquiring<'a> {
    semaphore: &'a Semaphore,
    units: u32,
    key: Option<WaiterKey>,
}

struct SemaphoreState {
    total: u32,
    /// Permits that are neither granted nor promised to a served waiter.
    available: u32,
    closed: bool,
    line: WaiterList,
}

impl Semaphore {
    /// Creates a semaphore with `total` permits.
    pub fn new(total: u32) -> Semaphore {
        let line = WaiterList::new();
        let state = SemaphoreState { total, available: total, closed: false, line };
        Semaphore { state: Rc::new(RefCell::new(state)) }
    }

    /// Waits for `units` permits. Dropping the future gives up the place in the wait queue.
    ///
    /// # Errors
    ///
    /// The future returns [`AcquireError::Closed`] when the semaphore is closed before its turn,
    /// and [`AcquireError::TooMany`] at once when `units` exceeds the total and could never be
    /// granted.
    pub fn acquire(&self, units: u32) -> Acquiring<'_> {
        Acquiring { semaphore: self, units, key: None }
    }

    /// Takes `units` permits if they are free and nobody waits for permits.
    ///
    /// # Errors
    ///
    /// Returns [`TryAcquireError::Busy`] when it would have to wait, and
    /// [`TryAcquireError::Refused`] when waiting would not help.
    pub fn try_acquire(&self, units: u32) -> Result<Permit, TryAcquireError> {
        match self.state.borrow_mut().take(units) {
            Poll::Ready(Ok(())) => Ok(self.permit(units)),
            Poll::Ready(Err(refusal)) => Err(TryAcquireError::Refused(refusal)),
            Poll::Pending => Err(TryAcquireError::Busy),
        }
    }

    /// Number of permits that are neither granted nor promised.
    pub fn available(&self) -> u32 {
        self.state.borrow().available
    }

    /// Refuses all waiting and future requests; permits granted already stay valid.
    pub fn close(&self) {
        self.state.borrow_mut().closed = true;
        self.settle();
    }

    /// Whether [`close`](Semaphore::close) was called.
    pub fn is_closed(&self) -> bool {
        self.state.borrow().closed
    }

    fn permit(&self, units: u32) -> Permit {
        Permit { semaphore: self.clone(), units }
    }

    fn give_back(&self, units: u32) {
        self.state.borrow_mut().available += units;
        self.settle();
    }

    /// Wakes all waiters whose turn has come.
    fn settle(&self) {
        while let Some(waker) = self.serve_next() {
            wake(waker);
        }
    }

    /// Separate from the loop above, so that the borrow ends before the wake.
    fn serve_next(&self) -> Option<Waker> {
        self.state.borrow_mut().serve_next()
    }
}

impl Permit {
    /// Number of permits that this holds.
    pub fn units(&self) -> u32 {
        self.units
    }
}

impl SemaphoreState {
    fn take(&mut self, units: u32) -> Poll<Result<(), AcquireError>> {
        if self.closed {
            return Poll::Ready(Err(AcquireError::Closed));
        }
        if units > self.total {
            return Poll::Ready(Err(AcquireError::TooMany { units, total: self.total }));
        }
        if units > self.available || self.line.front_units().is_some() {
            return Poll::Pending;
        }
        self.available -= units;
        Poll::Ready(Ok(()))
    }

    fn poll(
        &mut self,
        key: &mut Option<WaiterKey>,
        units: u32,
        offer: &mut Offer<'_>,
    ) -> Poll<Result<(), AcquireError>> {
        match self.line.turn(key, offer) {
            Turn::Waiting => return Poll::Pending,
            Turn::Granted => return Poll::Ready(Ok(())),
            Turn::New | Turn::Released => {}
        }
        let answer = self.take(units);
        if answer.is_pending() {
            *key = self.line.join(units, offer);
        }
        answer
    }

    fn serve_next(&mut self) -> Option<Waker> {
        if self.closed {
            return self.line.release_front(u64::MAX);
        }
        let units = self.line.front_units()?;
        self.available = self.available.checked_sub(units)?;
        self.line.grant_front()
    }
}

impl Future for Acquiring<'_> {
    type Output = Result<Permit, AcquireError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let answer = poll_by(cx, |offer| {
            this.semaphore.state.borrow_mut().poll(&mut this.key, this.units, offer)
        });
        answer.map_ok(|()| this.semaphore.permit(this.units))
    }
}

impl Drop for Acquiring<'_> {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else { return };
        let (granted, stale) = self.semaphore.state.borrow_mut().line.leave(key);
        // Even an unserved waiter unblocks others by leaving: a smaller request behind it may
        // fit.
        self.semaphore.give_back(if granted { self.units } else { 0 });
        drop_waker(stale);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.semaphore.give_back(self.units);
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.borrow();
        f.debug_struct("Semaphore")
            .field("available", &state.available)
            .field("total", &state.total)
            .field("closed", &state.closed)
            .finish()
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("units", &self.units).finish()
    }
}

impl fmt::Debug for Acquiring<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquiring").field("units", &self.units).finish()
    }
}

/// The reason why permits will never be granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcquireError {
    /// The semaphore was closed.
    Closed,
    /// More permits were asked for than the semaphore has.
    TooMany {
        /// Number of permits that were asked for.
        units: u32,
        /// Number of permits that exist.
        total: u32,
    },
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AcquireError::Closed => f.write_str("the semaphore is closed"),
            AcquireError::TooMany { units, total } => {
                write!(f, "{units} permits were requested, but the semaphore has only {total}")
            }
        }
    }
}

impl Error for AcquireError {}

/// The reason why [`Semaphore::try_acquire`] took nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TryAcquireError {
    /// The request would have to wait.
    Busy,
    /// The request can never be granted.
    Refused(AcquireError),
}

impl fmt::Display for TryAcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TryAcquireError::Busy => f.write_str("not enough permits are free now"),
            TryAcquireError::Refused(refusal) => refusal.fmt(f),
        }
    }
}

impl Error for TryAcquireError {}

#[cfg(test)]
mod tests {
    use super::super::testing::{Probe, Random};
    use super::*;

    #[test]
    fn a_large_request_is_not_overtaken() {
        let semaphore = Semaphore::new(3);
        let (large, small) = (Probe::new(), Probe::new());
        let held = semaphore.try_acquire(2).expect("free");
        let (mut a, mut b) = (semaphore.acquire(3), semaphore.acquire(1));
        assert!(large.poll(&mut a).is_pending());
        assert!(small.poll(&mut b).is_pending(), "one is free, but the large one came first");
        assert_eq!(semaphore.try_acquire(1).unwrap_err(), TryAcquireError::Busy);
        drop(held);
        assert_eq!((large.wakes(), small.wakes()), (1, 0));
        let Poll::Ready(Ok(permit)) = large.poll(&mut a) else { panic!("served") };
        assert_eq!(permit.units(), 3);
        drop(permit);
        assert_eq!(small.wakes(), 1);
    }

    #[test]
    fn leaving_unblocks_the_smaller_requests_behind() {
        let semaphore = Semaphore::new(2);
        let probe = Probe::new();
        let _held = semaphore.try_acquire(1).expect("free");
        let (mut large, mut small) = (semaphore.acquire(2), semaphore.acquire(1));
        assert!(Probe::new().poll(&mut large).is_pending());
        assert!(probe.poll(&mut small).is_pending());
        drop(large);
        assert_eq!(probe.wakes(), 1);
        assert!(matches!(probe.poll(&mut small), Poll::Ready(Ok(_))));
    }

    #[test]
    fn a_dropped_grant_returns_its_permits() {
        let semaphore = Semaphore::new(2);
        let held = semaphore.try_acquire(2).expect("free");
        let mut waiting = semaphore.acquire(2);
        assert!(Probe::new().poll(&mut waiting).is_pending());
        drop(held);
        assert_eq!(semaphore.available(), 0, "promised");
        drop(waiting);
        assert_eq!(semaphore.available(), 2);
    }

    #[test]
    fn close_refuses_waiters_and_keeps_permits() {
        let (semaphore, probe) = (Semaphore::new(1), Probe::new());
        let held = semaphore.try_acquire(1).expect("free");
        let mut waiting = semaphore.acquire(1);
        assert!(probe.poll(&mut waiting).is_pending());
        semaphore.close();
        assert_eq!(probe.wakes(), 1);
        assert!(matches!(probe.poll(&mut waiting), Poll::Ready(Err(AcquireError::Closed))));
        drop(held);
        assert_eq!(semaphore.available(), 1);
        let refusal = TryAcquireError::Refused(AcquireError::Closed);
        assert_eq!(semaphore.try_acquire(1).unwrap_err(), refusal);
    }

    #[test]
    fn a_request_beyond_the_total_is_refused_at_once() {
        let refusal = Semaphore::new(3).try_acquire(4).unwrap_err();
        assert_eq!(refusal.to_string(), "4 permits were requested, but the semaphore has only 3");
    }

    #[test]
    fn permits_are_conserved_whichever_future_is_dropped() {
        for seed in 0..200 {
            let (semaphore, probe, mut random) = (Semaphore::new(5), Probe::new(), Random(seed));
            let mut waiting: Vec<Acquiring<'_>> = Vec::new();
            let mut held: Vec<Permit> = Vec::new();
            for _ in 0..200 {
                match random.below(4) {
                    0 => waiting.push(semaphore.acquire(random.below(6) as u32)),
                    1 if !held.is_empty() => drop(held.swap_remove(random.below(held.len()))),
                    2 if !waiting.is_empty() => drop(waiting.remove(random.below(waiting.len()))),
                    _ if !waiting.is_empty() => {
                        let index = random.below(waiting.len());
                        if let Poll::Ready(permit) = probe.poll(&mut waiting[index]) {
                            drop(waiting.remove(index));
                            held.push(permit.expect("open, and within the total"));
                        }
                    }
                    _ => {}
                }
                let lent: u32 = held.iter().map(Permit::units).sum();
                assert!(lent + semaphore.available() <= 5, "seed {seed}");
            }
            waiting.clear();
            held.clear();
            assert_eq!(semaphore.available(), 5, "seed {seed}");
        }
    }
}
