//! Bodies of requests that arrive by another way than HTTP/1.1.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;

/// Fills the body of a request.
///
/// It holds what was pushed and not read, so its owner bounds it with credit, which it returns for what
/// [was read](Self::poll_read). Dropping it before the end makes the body fail.
#[derive(Debug)]
pub struct BodyFeed(Arc<Mutex<Feed>>);

#[derive(Debug, Default)]
struct Feed {
    unread: BytesMut,
    /// Bytes that were read and not reported yet.
    read: usize,
    is_whole: bool,
    is_lost: bool,
    /// Whether its client waits to be asked for it (`Expect: 100-continue`).
    is_awaited: bool,
    /// Whether the reader waits for such a client.
    is_asked_for: bool,
    /// Missing bytes of the body, if its length is known.
    left: Option<u64>,
    reader: Option<Waker>,
    feeder: Option<Waker>,
}

impl BodyFeed {
    pub(crate) fn new(length: Option<u64>, is_awaited: bool) -> (Self, FedContent) {
        let feed = Arc::new(Mutex::new(Feed { left: length, is_awaited, ..Feed::default() }));
        (Self(Arc::clone(&feed)), FedContent(feed))
    }

    /// Adds a piece.
    pub fn push(&self, piece: &[u8]) {
        self.change(|feed| feed.unread.extend_from_slice(piece));
    }

    /// Ends the body, which is complete.
    pub fn end(&self) {
        self.change(|feed| feed.is_whole = true);
    }

    /// Waits until some of it was read. Returns the number of bytes.
    pub fn poll_read(&self, cx: &mut Context<'_>) -> Poll<usize> {
        let mut waker = Some(cx.waker().clone());
        let mut feed = locked(&self.0);
        let read = std::mem::take(&mut feed.read);
        if read == 0 {
            std::mem::swap(&mut feed.feeder, &mut waker);
        }
        drop(feed); // the former waker is dropped behind it
        if read == 0 { Poll::Pending } else { Poll::Ready(read) }
    }

    /// Whether its client is to be asked for it by 100 Continue; says so once.
    pub fn takes_asking(&self) -> bool {
        std::mem::take(&mut locked(&self.0).is_asked_for)
    }

    fn change(&self, change: impl FnOnce(&mut Feed)) {
        let mut feed = locked(&self.0);
        change(&mut feed);
        let reader = feed.reader.take();
        drop(feed);
        reader.into_iter().for_each(Waker::wake);
    }
}

impl Drop for BodyFeed {
    fn drop(&mut self) {
        self.change(|feed| feed.is_lost = !feed.is_whole);
    }
}

/// No waker and no other code of users runs under the lock, so the state is consistent even after a panic.
fn locked(feed: &Mutex<Feed>) -> MutexGuard<'_, Feed> {
    feed.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The body that a [`BodyFeed`] fills.
#[derive(Debug)]
pub(crate) struct FedContent(Arc<Mutex<Feed>>);

type ContentError = Box<dyn std::error::Error + Send + Sync>;

impl FedContent {
    fn poll_piece(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ContentError>>> {
        let mut waker = Some(cx.waker().clone());
        let mut feed = locked(&self.0);
        if feed.unread.is_empty() {
            if feed.is_whole {
                return Poll::Ready(None);
            }
            if feed.is_lost {
                return Poll::Ready(Some(Err("its client has gone".into())));
            }
            feed.is_asked_for |= std::mem::take(&mut feed.is_awaited);
            std::mem::swap(&mut feed.reader, &mut waker);
            drop(feed); // the former waker is dropped behind it
            return Poll::Pending;
        }
        let piece = std::mem::take(&mut feed.unread).freeze();
        feed.read += piece.len();
        feed.left = feed.left.map(|left| left.saturating_sub(piece.len() as u64));
        let feeder = feed.feeder.take();
        drop(feed);
        feeder.into_iter().for_each(Waker::wake);
        Poll::Ready(Some(Ok(piece)))
    }
}

/// The content of a request, by the way it arrives.
#[derive(Debug)]
pub(crate) enum RequestContent {
    Incoming(Incoming),
    Fed(FedContent),
    /// It was taken out.
    Taken,
}

impl HttpBody for RequestContent {
    type Data = Bytes;
    type Error = ContentError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ContentError>>> {
        match &mut *self {
            Self::Incoming(incoming) => {
                Pin::new(incoming).poll_frame(cx).map_err(ContentError::from)
            }
            Self::Fed(fed) => fed.poll_piece(cx).map_ok(Frame::data),
            Self::Taken => Poll::Ready(None),
        }
    }

    /// Whether all content of a known length has been read. A body that is fed says so at its end.
    fn is_end_stream(&self) -> bool {
        match self {
            Self::Incoming(incoming) => incoming.is_end_stream(),
            Self::Fed(_) => false,
            Self::Taken => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Incoming(incoming) => incoming.size_hint(),
            Self::Fed(fed) => {
                locked(&fed.0).left.map_or_else(SizeHint::default, SizeHint::with_exact)
            }
            Self::Taken => SizeHint::with_exact(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;

    use super::*;

    #[test]
    fn a_body_is_read_as_it_comes_and_tells_what_was_read() {
        let mut cx = Context::from_waker(Waker::noop());
        let (feed, content) = BodyFeed::new(Some(5), false);
        let mut content = RequestContent::Fed(content);
        let mut poll = |content: &mut RequestContent| Pin::new(content).poll_frame(&mut cx);
        assert!(poll(&mut content).is_pending());
        feed.push(b"ab");
        feed.push(b"c");
        assert_eq!(content.size_hint().exact(), Some(5));
        let Poll::Ready(Some(Ok(frame))) = poll(&mut content) else { panic!("a piece") };
        assert_eq!(frame.into_data().expect("data"), "abc");
        assert_eq!(content.size_hint().exact(), Some(2));
        let mut read = pin!(poll_fn(|cx| feed.poll_read(cx)));
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(read.as_mut().poll(&mut cx), Poll::Ready(3));
        assert!(read.as_mut().poll(&mut cx).is_pending());
        feed.end();
        assert!(matches!(Pin::new(&mut content).poll_frame(&mut cx), Poll::Ready(None)));
    }

    #[test]
    fn a_client_that_waits_is_asked_once_and_only_if_somebody_reads() {
        let mut cx = Context::from_waker(Waker::noop());
        for (is_awaited, has_come) in [(true, false), (true, true), (false, false)] {
            let (feed, content) = BodyFeed::new(None, is_awaited);
            assert!(!feed.takes_asking());
            if has_come {
                feed.push(b"a");
            }
            assert_eq!(content.poll_piece(&mut cx).is_ready(), has_come);
            assert_eq!(feed.takes_asking(), is_awaited && !has_come);
            assert!(content.poll_piece(&mut cx).is_pending());
            feed.takes_asking();
            assert!(content.poll_piece(&mut cx).is_pending() && !feed.takes_asking());
        }
    }

    #[test]
    fn a_body_that_loses_its_feed_fails_behind_what_has_come() {
        let mut cx = Context::from_waker(Waker::noop());
        let (feed, content) = BodyFeed::new(None, false);
        feed.push(b"ab");
        drop(feed);
        assert!(matches!(content.poll_piece(&mut cx), Poll::Ready(Some(Ok(_)))));
        assert!(matches!(content.poll_piece(&mut cx), Poll::Ready(Some(Err(_)))));
    }
}
