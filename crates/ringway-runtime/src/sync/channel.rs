//! A bounded queue between tasks of one core.

mod error;
mod state;

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::waiters::{WaiterKey, poll_by};
use crate::contain::{drop_each, drop_waker, wake};
pub use error::{SendError, TryRecvError, TrySendError};
use state::ChannelState;

/// Makes a channel that holds at most `capacity` messages; when it is full, senders wait.
///
/// Both halves may be cloned. Messages are received in the order in which they entered the queue,
/// each by one receiver; waiting senders and waiting receivers are served in arrival order.
///
/// ```
/// use ringway_runtime::sync::channel;
///
/// let (sender, receiver) = channel::bounded(1);
/// sender.try_send("first").expect("room for one");
/// assert!(sender.try_send("second").is_err());
/// assert_eq!(receiver.try_recv(), Ok("first"));
/// drop(sender);
/// assert_eq!(receiver.try_recv(), Err(channel::TryRecvError::Closed));
/// ```
///
/// # Panics
///
/// If `capacity` is 0: such a channel could never pass a message.
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(capacity > 0, "a channel needs room for at least one message");
    let state = Rc::new(RefCell::new(ChannelState::new(capacity)));
    (Sender { state: state.clone() }, Receiver { state })
}

/// The sending half. When the last clone is dropped, receivers get what is queued and then `None`.
pub struct Sender<T> {
    state: Rc<RefCell<ChannelState<T>>>,
}

/// The receiving half. When the last clone is dropped, queued messages are dropped and senders are
/// refused.
pub struct Receiver<T> {
    state: Rc<RefCell<ChannelState<T>>>,
}

/// A future that queues a message, made by [`Sender::send`]. Dropping it before it is ready drops
/// the message unsent.
#[must_use = "a future does nothing until it is awaited"]
pub struct Sending<'a, T> {
    sender: &'a Sender<T>,
    /// The message; `None` once it was queued or returned.
    message: Option<T>,
    key: Option<WaiterKey>,
}

/// A future of a message, made by [`Receiver::recv`]. Dropping it loses no message.
#[must_use = "a future does nothing until it is awaited"]
pub struct Receiving<'a, T> {
    receiver: &'a Receiver<T>,
    key: Option<WaiterKey>,
}

// No field is pinned: the message is only moved.
impl<T> Unpin for Sending<'_, T> {}

impl<T> Sender<T> {
    /// Queues `message`, waiting for room.
    ///
    /// # Errors
    ///
    /// The future returns [`SendError`] with the message when the channel is closed before there
    /// was room.
    ///
    /// # Panics
    ///
    /// The future panics when polled again after it was ready.
    pub fn send(&self, message: T) -> Sending<'_, T> {
        Sending { sender: self, message: Some(message), key: None }
    }

    /// Queues `message` if there is room that is not promised to a waiting sender.
    ///
    /// # Errors
    ///
    /// Returns [`TrySendError::Full`] or [`TrySendError::Closed`], each with the message.
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        self.state.borrow_mut().try_push(message)?;
        settle(&self.state);
        Ok(())
    }

    /// Whether every further send is refused.
    pub fn is_closed(&self) -> bool {
        self.state.borrow().closed
    }

    /// The largest number of queued messages.
    pub fn capacity(&self) -> usize {
        self.state.borrow().capacity
    }

    /// The number of queued messages.
    pub fn len(&self) -> usize {
        self.state.borrow().queue.len()
    }

    /// Whether no message is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Receiver<T> {
    /// Takes the oldest message, waiting for one; `None` once the channel is closed and empty.
    pub fn recv(&self) -> Receiving<'_, T> {
        Receiving { receiver: self, key: None }
    }

    /// Takes the oldest message that is not promised to a waiting receiver.
    ///
    /// # Errors
    ///
    /// Returns [`TryRecvError::Empty`] when one may still arrive, [`TryRecvError::Closed`] when
    /// none will.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        let message = self.state.borrow_mut().try_pop()?;
        settle(&self.state);
        Ok(message)
    }

    /// Refuses further sends, including those that wait; queued messages can still be received.
    pub fn close(&self) {
        self.state.borrow_mut().closed = true;
        settle(&self.state);
    }

    /// Whether every further send is refused; messages may still be queued.
    pub fn is_closed(&self) -> bool {
        self.state.borrow().closed
    }

    /// The number of queued messages.
    pub fn len(&self) -> usize {
        self.state.borrow().queue.len()
    }

    /// Whether no message is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Future for Sending<'_, T> {
    type Output = Result<(), SendError<T>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let answer = poll_by(cx, |offer| {
            let mut state = this.sender.state.borrow_mut();
            state.poll_push(&mut this.key, &mut this.message, offer)
        });
        if answer.is_ready() {
            settle(&this.sender.state);
        }
        answer
    }
}

impl<T> Drop for Sending<'_, T> {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else { return };
        let stale = self.sender.state.borrow_mut().leave_senders(key);
        drop_waker(stale);
        settle(&self.sender.state);
    }
}

impl<T> Future for Receiving<'_, T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let answer =
            poll_by(cx, |offer| this.receiver.state.borrow_mut().poll_pop(&mut this.key, offer));
        if answer.is_ready() {
            settle(&this.receiver.state);
        }
        answer
    }
}

impl<T> Drop for Receiving<'_, T> {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else { return };
        let stale = self.receiver.state.borrow_mut().leave_receivers(key);
        drop_waker(stale);
        settle(&self.receiver.state);
    }
}

/// Wakes all waiters whose turn has come, each outside the borrow.
fn settle<T>(state: &RefCell<ChannelState<T>>) {
    fn serve_next<T>(state: &RefCell<ChannelState<T>>) -> Option<Waker> {
        state.borrow_mut().serve_next()
    }
    while let Some(waker) = serve_next(state) {
        wake(waker);
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.state.borrow_mut().senders += 1;
        Sender { state: self.state.clone() }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Receiver<T> {
        self.state.borrow_mut().receivers += 1;
        Receiver { state: self.state.clone() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.state.borrow_mut();
        state.senders -= 1;
        state.closed |= state.senders == 0;
        drop(state);
        settle(&self.state);
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.state.borrow_mut();
        state.receivers -= 1;
        if state.receivers > 0 {
            return;
        }
        state.closed = true;
        let unread = std::mem::take(&mut state.queue);
        drop(state);
        settle(&self.state);
        drop_each("the destructor of a message", unread);
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("len", &self.len())
            .field("closed", &self.is_closed())
            .finish()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("len", &self.len())
            .field("closed", &self.is_closed())
            .finish()
    }
}

impl<T> fmt::Debug for Sending<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sending").field("waiting", &self.key.is_some()).finish()
    }
}

impl<T> fmt::Debug for Receiving<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiving").field("waiting", &self.key.is_some()).finish()
    }
}
