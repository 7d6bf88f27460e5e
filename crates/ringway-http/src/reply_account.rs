//! The memory of a connection's replies.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use ringway_net::WeakPeer;

use crate::body::Body;
use crate::error::{Error, Result};
use crate::limits::{PIECE_LENT_MAX, PIECE_LENT_MIN, REPLY_COUNTED_MIN, STREAM_HIGH_WATER};

/// The bytes of replies that a connection holds until its client takes them. A server that bounds the memory of
/// all its connections reads them here. Each request has its connection's account among its extensions. The account leaves
/// out pieces below 4 KiB, of which there are few at a time, and the connection's send queue
/// ([`Peer::queued_bytes`](ringway_net::Peer::queued_bytes)).
#[derive(Clone, Default, Debug)]
pub struct ReplyAccount(Arc<ReplyCount>);

#[derive(Default)]
struct ReplyCount {
    kept: AtomicUsize,
    is_given_up: AtomicBool,
    /// The pieces that hyper writes from and that need not be copied.
    lent: Mutex<VecDeque<Bytes>>,
}

impl fmt::Debug for ReplyCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyCount").field("kept", &self.kept).finish_non_exhaustive()
    }
}

impl ReplyCount {
    /// No code of users runs under the lock, so the list is sound even if it is poisoned.
    fn lent(&self) -> MutexGuard<'_, VecDeque<Bytes>> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReplyAccount {
    /// Returns the bytes held now.
    pub fn kept(&self) -> usize {
        self.0.kept.load(Ordering::Relaxed)
    }

    /// Resets the connection the next time its task is polled, with all that waits to be sent.
    pub fn give_up(&self) {
        self.0.is_given_up.store(true, Ordering::Relaxed);
    }

    /// Whether the server gave up the connection.
    pub fn is_given_up(&self) -> bool {
        self.0.is_given_up.load(Ordering::Relaxed)
    }

    /// Counts bytes until the guard is dropped.
    fn counted(&self, bytes: Bytes) -> Bytes {
        if bytes.len() < REPLY_COUNTED_MIN {
            return bytes;
        }
        self.0.kept.fetch_add(bytes.len(), Ordering::Relaxed);
        if is_lent(&bytes) {
            self.0.lent().push_back(bytes.clone());
        }
        Bytes::from_owner(Counted { bytes, account: Arc::clone(&self.0) })
    }

    /// Returns the memory of `part` if it lies in a piece that hyper has now. As long as hyper has the piece, nothing else
    /// can be at that place.
    pub(crate) fn lent(&self, part: &[u8]) -> Option<Bytes> {
        if part.len() < PIECE_LENT_MIN {
            return None;
        }
        self.0.lent().iter().find_map(|piece| {
            let start = part.as_ptr().addr().checked_sub(piece.as_ptr().addr())?;
            let end = start.checked_add(part.len())?;
            (end <= piece.len()).then(|| piece.slice(start..end))
        })
    }
}

fn is_lent(piece: &Bytes) -> bool {
    (PIECE_LENT_MIN..=PIECE_LENT_MAX).contains(&piece.len())
}

struct Counted {
    bytes: Bytes,
    account: Arc<ReplyCount>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.account.kept.fetch_sub(self.bytes.len(), Ordering::Relaxed);
        if is_lent(&self.bytes) {
            let mut lent = self.account.lent();
            let at = lent.iter().position(|piece| piece.as_ptr() == self.bytes.as_ptr());
            let returned = at.and_then(|at| lent.remove(at));
            drop((lent, returned)); // the memory may be a user's, who is told outside of the lock
        }
    }
}

/// The body of a reply, counted from when hyper gets it until it is queued. A stream gives nothing while the connection's
/// queue is long: hyper would only hold it.
pub(crate) struct CountedBody {
    body: Body,
    account: ReplyAccount,
    peer: WeakPeer,
    is_waiting: bool,
}

impl CountedBody {
    pub(crate) fn new(body: Body, account: ReplyAccount, peer: WeakPeer) -> Self {
        Self { body, account, peer, is_waiting: false }
    }

    /// Waits while the queue is long. A connection that has failed says so to whoever writes.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(peer) = self.peer.upgrade().filter(|_| self.body.is_stream()) else {
            return Poll::Ready(());
        };
        if self.is_waiting || peer.queued_bytes() >= STREAM_HIGH_WATER {
            self.is_waiting = true;
            let _drained_or_failed = ready!(peer.poll_drained(cx));
            self.is_waiting = false;
        }
        Poll::Ready(())
    }
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>>>> {
        ready!(self.poll_room(cx));
        let Self { body, account, .. } = &mut *self;
        let polled = Pin::new(body).poll_frame(cx);
        polled.map_ok(|frame| frame.map_data(|bytes| account.counted(bytes)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_count_until_the_last_part_of_them_is_dropped() {
        let account = ReplyAccount::default();
        let mut long = account.counted(Bytes::from(vec![7; REPLY_COUNTED_MIN]));
        let short = account.counted(Bytes::from_static(b"short"));
        assert_eq!(account.kept(), REPLY_COUNTED_MIN);
        let part = long.split_to(10);
        assert_eq!((&part[..], &short[..]), (&[7; 10][..], &b"short"[..]));
        drop(long);
        assert_eq!(account.kept(), REPLY_COUNTED_MIN);
        drop(part);
        assert_eq!(account.kept(), 0);
    }

    #[test]
    fn a_part_of_a_piece_that_hyper_has_is_found_by_its_place() {
        let account = ReplyAccount::default();
        let own = Bytes::from(vec![7; 2 * PIECE_LENT_MIN]);
        let elsewhere = own.to_vec();
        let piece = account.counted(own.clone());
        let part = &piece[100..100 + PIECE_LENT_MIN];
        let found = account.lent(part).expect("it lies in the piece");
        assert_eq!((found.as_ptr(), found.len()), (own[100..].as_ptr(), PIECE_LENT_MIN));
        assert!(account.lent(&piece[..PIECE_LENT_MIN - 1]).is_none(), "a copy costs less");
        assert!(account.lent(&elsewhere).is_none());
        drop(piece);
        assert!(account.lent(&own).is_none(), "hyper has it no more");
        let long = account.counted(Bytes::from(vec![7; PIECE_LENT_MAX + 1]));
        assert!(account.lent(&long).is_none(), "the queue would pin more of it than it counts");
    }
}
