//! A lock that can be held across `.await`.

use std::cell::{RefCell, RefMut};
use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::waiters::{Offer, Turn, WaiterKey, WaiterList, poll_by};
use crate::contain::{drop_waker, wake};

/// A mutual exclusion between tasks of one core, fair in arrival order.
///
/// A `RefCell` suffices if nothing is awaited while the value is borrowed; this is for the other
/// case. A panic while the guard is held releases the lock and does not poison it.
///
/// ```
/// use ringway_runtime::sync::Mutex;
///
/// let mutex = Mutex::new(1);
/// let mut guard = mutex.try_lock().expect("nobody holds it");
/// *guard += 1;
/// assert!(mutex.try_lock().is_none());
/// drop(guard);
/// assert_eq!(mutex.into_inner(), 2);
/// ```
pub struct Mutex<T: ?Sized> {
    lock: RefCell<Lock>,
    /// Borrowed only by the one guard that `lock` admits.
    value: RefCell<T>,
}

/// Access to the value of a [`Mutex`]; dropping it passes the lock to the task that has waited
/// longest.
pub struct MutexGuard<'a, T: ?Sized> {
    // Declared first, so that the borrow ends before the next owner is woken.
    value: RefMut<'a, T>,
    _unlock: Unlock<'a>,
}

/// A future of the lock, made by [`Mutex::lock`].
#[must_use = "a future does nothing until it is awaited"]
pub struct Locking<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    key: Option<WaiterKey>,
}

struct Lock {
    /// Also true between a grant and the poll that takes it, so that nobody slips in between.
    locked: bool,
    line: WaiterList,
}

struct Unlock<'a>(&'a RefCell<Lock>);

impl<T> Mutex<T> {
    /// Makes an unlocked mutex around `value`.
    pub const fn new(value: T) -> Mutex<T> {
        let lock = RefCell::new(Lock { locked: false, line: WaiterList::new() });
        Mutex { lock, value: RefCell::new(value) }
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock. Dropping the future gives up the place in the wait queue.
    pub fn lock(&self) -> Locking<'_, T> {
        Locking { mutex: self, key: None }
    }

    /// Locks if nobody holds the lock and it is not promised to a waiter.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let mut lock = self.lock.borrow_mut();
        if std::mem::replace(&mut lock.locked, true) {
            return None;
        }
        drop(lock);
        Some(self.guard())
    }

    /// The value without locking: `&mut self` proves that nobody else has access.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    fn guard(&self) -> MutexGuard<'_, T> {
        MutexGuard { value: self.value.borrow_mut(), _unlock: Unlock(&self.lock) }
    }
}

impl<'a, T: ?Sized> Future for Locking<'a, T> {
    type Output = MutexGuard<'a, T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let turn = poll_by(cx, |offer| this.mutex.lock.borrow_mut().poll(&mut this.key, offer));
        turn.map(|()| this.mutex.guard())
    }
}

impl<T: ?Sized> Drop for Locking<'_, T> {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else { return };
        let (granted, stale) = self.mutex.lock.borrow_mut().line.leave(key);
        drop_waker(stale);
        if granted {
            drop(Unlock(&self.mutex.lock));
        }
    }
}

impl Lock {
    fn poll(&mut self, key: &mut Option<WaiterKey>, offer: &mut Offer<'_>) -> Poll<()> {
        match self.line.turn(key, offer) {
            Turn::Waiting => Poll::Pending,
            Turn::Granted | Turn::Released => Poll::Ready(()),
            Turn::New if self.locked => {
                *key = self.line.join(1, offer);
                Poll::Pending
            }
            Turn::New => {
                self.locked = true;
                Poll::Ready(())
            }
        }
    }

    /// Passes the lock on, or unlocks it when nobody waits.
    fn unlock(&mut self) -> Option<Waker> {
        let next = self.line.grant_front();
        self.locked = next.is_some();
        next
    }
}

impl Drop for Unlock<'_> {
    fn drop(&mut self) {
        let next = self.0.borrow_mut().unlock();
        if let Some(waker) = next {
            wake(waker);
        }
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Mutex<T> {
        Mutex::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value.try_borrow() {
            Ok(value) => f.debug_tuple("Mutex").field(&&*value).finish(),
            Err(_) => f.write_str("Mutex(<locked>)"),
        }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<T: ?Sized> fmt::Debug for Locking<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locking").field("waiting", &self.key.is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Probe;
    use super::*;

    fn ready<T>(poll: Poll<T>) -> T {
        match poll {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("still pending"),
        }
    }

    #[test]
    fn the_lock_passes_in_arrival_order() {
        let mutex = Mutex::new(Vec::new());
        let (first, second) = (Probe::new(), Probe::new());
        let held = mutex.try_lock().expect("free");
        let (mut a, mut b) = (mutex.lock(), mutex.lock());
        assert!(first.poll(&mut a).is_pending());
        assert!(second.poll(&mut b).is_pending());
        drop(held);
        assert_eq!((first.wakes(), second.wakes()), (1, 0));
        assert!(mutex.try_lock().is_none(), "the lock is promised");
        assert!(second.poll(&mut b).is_pending(), "and not to the second");
        ready(first.poll(&mut a)).push('a');
        assert_eq!(second.wakes(), 1);
        ready(second.poll(&mut b)).push('b');
        assert_eq!(*mutex.try_lock().expect("free again"), ['a', 'b']);
    }

    #[test]
    fn a_dropped_waiter_passes_its_grant_on() {
        let mutex = Mutex::new(());
        let (first, second) = (Probe::new(), Probe::new());
        let held = mutex.try_lock().expect("free");
        let (mut a, mut b) = (mutex.lock(), mutex.lock());
        assert!(first.poll(&mut a).is_pending());
        assert!(second.poll(&mut b).is_pending());
        drop(held);
        drop(a);
        assert_eq!(second.wakes(), 1);
        assert!(second.poll(&mut b).is_ready());
        drop(b);
        assert!(mutex.try_lock().is_some());
    }

    #[test]
    fn the_last_dropped_waiter_opens_the_lock() {
        let mutex = Mutex::new(());
        let probe = Probe::new();
        let held = mutex.try_lock().expect("free");
        let mut waiting = mutex.lock();
        assert!(probe.poll(&mut waiting).is_pending());
        drop(held);
        drop(waiting);
        assert!(mutex.try_lock().is_some());
    }

    #[test]
    fn a_panic_under_the_guard_releases_the_lock() {
        let mutex = Mutex::new(1);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _guard = mutex.try_lock();
            panic!("expected by this test");
        }));
        assert!(caught.is_err());
        assert_eq!(*mutex.try_lock().expect("free again"), 1);
    }
}
