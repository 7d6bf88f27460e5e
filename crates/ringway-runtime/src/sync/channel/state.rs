//! The queue and the two wait queues of a channel, without any waking.
//!
//! A served waiter is promised a message (or room for one), which stays in the queue until the
//! waiter is polled. The promise is a count, so dropping the waiter only lowers it. While the
//! channel is open:
//!
//! - `receivers_served ≤ queue.len()`, and a receiver waits only if they are equal;
//! - `queue.len() + senders_served ≤ capacity`, and a sender waits only if they are equal.
//!
//! Closing cancels the promises: senders are refused, and any receiver takes what is left, so that
//! no message is left for a receiver that is never polled again.

use std::collections::VecDeque;
use std::task::{Poll, Waker};

use super::error::{SendError, TryRecvError, TrySendError};
use crate::limits::CHANNEL_PREALLOCATED_MAX;
use crate::sync::waiters::{Offer, Turn, WaiterKey, WaiterList};

pub(super) struct ChannelState<T> {
    pub(super) queue: VecDeque<T>,
    pub(super) capacity: usize,
    pub(super) closed: bool,
    pub(super) senders: usize,
    pub(super) receivers: usize,
    senders_served: usize,
    receivers_served: usize,
    sender_line: WaiterList,
    receiver_line: WaiterList,
}

impl<T> ChannelState<T> {
    pub(super) fn new(capacity: usize) -> ChannelState<T> {
        ChannelState {
            queue: VecDeque::with_capacity(capacity.min(CHANNEL_PREALLOCATED_MAX)),
            capacity,
            closed: false,
            senders: 1,
            receivers: 1,
            senders_served: 0,
            receivers_served: 0,
            sender_line: WaiterList::new(),
            receiver_line: WaiterList::new(),
        }
    }

    pub(super) fn try_push(&mut self, message: T) -> Result<(), TrySendError<T>> {
        if self.closed {
            return Err(TrySendError::Closed(message));
        }
        if self.queue.len() + self.senders_served >= self.capacity {
            return Err(TrySendError::Full(message));
        }
        self.queue.push_back(message);
        Ok(())
    }

    pub(super) fn try_pop(&mut self) -> Result<T, TryRecvError> {
        if self.closed {
            return self.queue.pop_front().ok_or(TryRecvError::Closed);
        }
        if self.queue.len() <= self.receivers_served {
            return Err(TryRecvError::Empty);
        }
        self.queue.pop_front().ok_or(TryRecvError::Empty)
    }

    pub(super) fn poll_push(
        &mut self,
        key: &mut Option<WaiterKey>,
        message: &mut Option<T>,
        offer: &mut Offer<'_>,
    ) -> Poll<Result<(), SendError<T>>> {
        match self.sender_line.turn(key, offer) {
            Turn::Waiting => return Poll::Pending,
            Turn::Granted => self.senders_served -= 1,
            Turn::New | Turn::Released => {}
        }
        let taken = message.take().expect("a send future is not polled after it was ready");
        match self.try_push(taken) {
            Ok(()) => Poll::Ready(Ok(())),
            Err(TrySendError::Closed(refused)) => Poll::Ready(Err(SendError(refused))),
            Err(TrySendError::Full(refused)) => {
                *message = Some(refused);
                *key = self.sender_line.join(1, offer);
                Poll::Pending
            }
        }
    }

    pub(super) fn poll_pop(
        &mut self,
        key: &mut Option<WaiterKey>,
        offer: &mut Offer<'_>,
    ) -> Poll<Option<T>> {
        match self.receiver_line.turn(key, offer) {
            Turn::Waiting => return Poll::Pending,
            Turn::Granted => self.receivers_served -= 1,
            Turn::New | Turn::Released => {}
        }
        match self.try_pop() {
            Ok(message) => Poll::Ready(Some(message)),
            Err(TryRecvError::Closed) => Poll::Ready(None),
            Err(TryRecvError::Empty) => {
                *key = self.receiver_line.join(1, offer);
                Poll::Pending
            }
        }
    }

    pub(super) fn leave_senders(&mut self, key: WaiterKey) -> Option<Waker> {
        let (served, stale) = self.sender_line.leave(key);
        self.senders_served -= usize::from(served);
        stale
    }

    pub(super) fn leave_receivers(&mut self, key: WaiterKey) -> Option<Waker> {
        let (served, stale) = self.receiver_line.leave(key);
        self.receivers_served -= usize::from(served);
        stale
    }

    /// Serves the next waiter whose turn has come, if any; the caller wakes it.
    pub(super) fn serve_next(&mut self) -> Option<Waker> {
        if self.closed {
            let sender = self.sender_line.release_front(u64::MAX);
            return sender.or_else(|| self.receiver_line.release_front(u64::MAX));
        }
        if self.queue.len() > self.receivers_served
            && let Some(waker) = self.receiver_line.grant_front()
        {
            self.receivers_served += 1;
            return Some(waker);
        }
        if self.queue.len() + self.senders_served >= self.capacity {
            return None;
        }
        let waker = self.sender_line.grant_front()?;
        self.senders_served += 1;
        Some(waker)
    }
}

#[cfg(test)]
impl<T> ChannelState<T> {
    /// Checks the invariants in the module's documentation.
    pub(super) fn check_promises(&self, seed: u64) {
        let (len, capacity) = (self.queue.len(), self.capacity);
        assert!(self.receivers_served <= len, "seed {seed}");
        assert!(len + self.senders_served <= capacity, "seed {seed}");
        if self.receiver_line.front_units().is_some() {
            assert_eq!(self.receivers_served, len, "a receiver sleeps on a message: seed {seed}");
        }
        if self.sender_line.front_units().is_some() {
            assert_eq!(len + self.senders_served, capacity, "a sender sleeps on room: seed {seed}");
        }
    }
}
