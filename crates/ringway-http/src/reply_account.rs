//! The memory of a connection's replies.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::body::Body;
use crate::error::{Error, Result};
use crate::limits::REPLY_COUNTED_MIN;

/// The bytes of replies that a connection holds until its client takes them. A server that bounds the memory of
/// all its connections reads them here. Each request has its connection's account among its extensions. The account leaves
/// out pieces below 4 KiB, of which there are few at a time, and the connection's send queue
/// ([`Peer::queued_bytes`](ringway_net::Peer::queued_bytes)).
#[derive(Clone, Default, Debug)]
pub struct ReplyAccount(Arc<ReplyCount>);

#[derive(Default, Debug)]
struct ReplyCount {
    kept: AtomicUsize,
    is_given_up: AtomicBool,
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
        Bytes::from_owner(Counted { bytes, account: Arc::clone(&self.0) })
    }
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
    }
}

/// The body of a reply, counted from when hyper gets it until it is queued.
pub(crate) struct CountedBody {
    body: Body,
    account: ReplyAccount,
}

impl CountedBody {
    pub(crate) fn new(body: Body, account: ReplyAccount) -> Self {
        Self { body, account }
    }
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>>>> {
        let Self { body, account } = &mut *self;
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
}
