//! One value, once, from one task to another on the same core.

use std::cell::RefCell;
use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::contain::{drop_waker, wake};

/// Makes a connected pair, which owns the value between `send` and receipt.
///
/// ```
/// use ringway_runtime::sync::oneshot;
///
/// let (sender, mut receiver) = oneshot::channel();
/// assert_eq!(receiver.try_recv(), Err(oneshot::TryRecvError::Empty));
/// sender.send(7).expect("the receiver is alive");
/// assert_eq!(receiver.try_recv(), Ok(7));
/// ```
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let slot = Rc::new(RefCell::new(OneshotSlot {
        value: None,
        sender_gone: false,
        receiver_gone: false,
        sender_waker: None,
        receiver_waker: None,
    }));
    (Sender { slot: slot.clone() }, Receiver { slot })
}

/// The sending half. Dropping it unused ends the receiver's wait with [`RecvError`].
pub struct Sender<T> {
    slot: Rc<RefCell<OneshotSlot<T>>>,
}

/// The receiving half: a future of `Result<T, RecvError>`.
///
/// Dropping it drops a value that was sent already, and informs the sender through
/// [`Sender::closed`].
pub struct Receiver<T> {
    slot: Rc<RefCell<OneshotSlot<T>>>,
}

struct OneshotSlot<T> {
    value: Option<T>,
    sender_gone: bool,
    receiver_gone: bool,
    sender_waker: Option<Waker>,
    receiver_waker: Option<Waker>,
}

impl<T> Sender<T> {
    /// Sends the value and wakes the receiver.
    ///
    /// # Errors
    ///
    /// Returns the value when the receiver was dropped or closed.
    pub fn send(self, value: T) -> Result<(), T> {
        let mut slot = self.slot.borrow_mut();
        if slot.receiver_gone {
            return Err(value);
        }
        slot.value = Some(value);
        Ok(()) // dropping the sender wakes the receiver
    }

    /// Whether the receiver accepts no value any more.
    pub fn is_closed(&self) -> bool {
        self.slot.borrow().receiver_gone
    }

    /// Waits until the receiver is dropped or closed, so that work on the answer can be given up.
    pub async fn closed(&mut self) {
        poll_fn(|cx| self.poll_closed(cx)).await
    }

    /// Polls for [`closed`](Sender::closed); only the latest waker is woken.
    pub fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_closed() {
            return Poll::Ready(());
        }
        let waker = cx.waker().clone(); // foreign code, as the drop below: outside the borrow
        let stale = self.slot.borrow_mut().sender_waker.replace(waker);
        drop_waker(stale);
        if self.is_closed() { Poll::Ready(()) } else { Poll::Pending } // the clone may have closed it
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut slot = self.slot.borrow_mut();
        slot.sender_gone = true;
        let stale = slot.sender_waker.take();
        let waiting = slot.receiver_waker.take();
        drop(slot);
        if let Some(waker) = waiting {
            wake(waker);
        }
        drop_waker(stale);
    }
}

impl<T> Receiver<T> {
    /// Takes the value if it was sent.
    ///
    /// # Errors
    ///
    /// Returns [`TryRecvError::Empty`] while the sender may still send, and
    /// [`TryRecvError::Closed`] when it was dropped unused or the value was already taken.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        let mut slot = self.slot.borrow_mut();
        match slot.value.take() {
            Some(value) => Ok(value),
            None if slot.sender_gone || slot.receiver_gone => Err(TryRecvError::Closed),
            None => Err(TryRecvError::Empty),
        }
    }

    fn poll_received(&mut self) -> Poll<Result<T, RecvError>> {
        match self.try_recv() {
            Ok(value) => Poll::Ready(Ok(value)),
            Err(TryRecvError::Closed) => Poll::Ready(Err(RecvError)),
            Err(TryRecvError::Empty) => Poll::Pending,
        }
    }

    /// Refuses a value from now on; one that was already sent can still be received.
    pub fn close(&mut self) {
        let mut slot = self.slot.borrow_mut();
        slot.receiver_gone = true;
        let waiting = slot.sender_waker.take();
        drop(slot);
        if let Some(waker) = waiting {
            wake(waker);
        }
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let received = self.poll_received();
        if received.is_ready() {
            return received;
        }
        let waker = cx.waker().clone();
        let stale = self.slot.borrow_mut().receiver_waker.replace(waker);
        drop_waker(stale);
        self.poll_received() // the clone may have sent it
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.close();
        let mut slot = self.slot.borrow_mut();
        let (unread, stale) = (slot.value.take(), slot.receiver_waker.take());
        drop(slot);
        drop_waker(stale);
        drop(unread);
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("closed", &self.is_closed()).finish()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

/// The sender was dropped without sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecvError;

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the sender was dropped without sending a value")
    }
}

impl Error for RecvError {}

/// The reason why [`Receiver::try_recv`] has no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TryRecvError {
    /// No value was sent yet.
    Empty,
    /// No value will arrive any more.
    Closed,
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TryRecvError::Empty => "no value was sent yet; try again later",
            TryRecvError::Closed => "the sender was dropped or the value was already taken",
        })
    }
}

impl Error for TryRecvError {}

#[cfg(test)]
mod tests {
    use super::super::testing::Probe;
    use super::*;

    #[test]
    fn a_waiting_receiver_is_woken_once_by_the_value() {
        let probe = Probe::new();
        let (sender, mut receiver) = channel();
        assert!(probe.poll(&mut receiver).is_pending());
        sender.send("value").expect("receiver lives");
        assert_eq!(probe.wakes(), 1);
        assert_eq!(probe.poll(&mut receiver), Poll::Ready(Ok("value")));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
    }

    #[test]
    fn a_dropped_sender_ends_the_wait() {
        let probe = Probe::new();
        let (sender, mut receiver) = channel::<u8>();
        assert!(probe.poll(&mut receiver).is_pending());
        drop(sender);
        assert_eq!(probe.wakes(), 1);
        assert_eq!(probe.poll(&mut receiver), Poll::Ready(Err(RecvError)));
    }

    #[test]
    fn a_dropped_receiver_wakes_the_sender_and_refuses_the_value() {
        let probe = Probe::new();
        let (mut sender, receiver) = channel();
        let mut closed = Box::pin(sender.closed());
        assert!(probe.poll(&mut closed).is_pending());
        drop(receiver);
        assert_eq!(probe.wakes(), 1);
        assert!(probe.poll(&mut closed).is_ready());
        drop(closed);
        assert_eq!(sender.send(1), Err(1));
    }

    #[test]
    fn close_keeps_a_value_already_sent() {
        let (sender, mut receiver) = channel();
        sender.send(1).expect("receiver lives");
        receiver.close();
        assert_eq!(receiver.try_recv(), Ok(1));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
    }

    #[test]
    fn an_unread_value_is_dropped_with_the_receiver() {
        let value = Rc::new(());
        let (sender, receiver) = channel();
        sender.send(value.clone()).expect("receiver lives");
        drop(receiver);
        assert_eq!(Rc::strong_count(&value), 1);
    }
}
