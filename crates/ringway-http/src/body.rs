//! Bodies of requests and responses.

use std::fmt::Display;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures_core::Stream;
use http::StatusCode;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use ringway_runtime::{now, timeout};
use serde::de::DeserializeOwned;

use crate::body_account::BodyAccount;
use crate::error::{Error, Result};
use crate::feed::{BodyFeed, RequestContent};
use crate::left_over::{LeftOver, Rest};
use crate::limits::WHOLE_WATCHED_MIN;
use crate::pace::Pace;
use crate::peer_watch::PeerWatch;
use crate::reply_account::ReplyAccount;
use crate::upgrade::Upgrade;

/// A request as its handler gets it: its body has not been read yet.
pub type Request = http::Request<RequestBody>;

/// The response of a handler.
pub type Response = http::Response<Body>;

/// The body of a request. Each piece is read when its handler asks for it.
///
/// The rest stays in the kernel, so a slow handler slows only its own client.
#[derive(Debug)]
pub struct RequestBody {
    incoming: RequestContent,
    left: usize,
    bytes_max: usize,
    pace: Pace,
    account: BodyAccount,
    watch: Option<PeerWatch>,
    replies: ReplyAccount,
    left_over: Option<LeftOver>,
    progress: Progress,
}

/// How far a body has been read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Progress {
    /// Its client waits to be asked for it (`Expect: 100-continue`).
    Awaited,
    Begun,
    Whole,
    Failed,
}

impl RequestBody {
    /// Makes the body of a request of a connection that `watch` and `replies` belong to. What is not read of it goes to
    /// `left_over`.
    pub(crate) fn new(
        incoming: Incoming,
        bytes_max: usize,
        is_awaited: bool,
        watch: PeerWatch,
        replies: ReplyAccount,
        left_over: LeftOver,
    ) -> Self {
        let mut body = Self::of(RequestContent::Incoming(incoming), bytes_max);
        (body.watch, body.replies, body.left_over) = (Some(watch), replies, Some(left_over));
        if is_awaited {
            body.progress = Progress::Awaited;
        }
        body
    }

    /// Makes a body that arrives by another way than hyper, with `length` bytes if that is known.
    pub(crate) fn fed(length: Option<u64>, bytes_max: usize, is_awaited: bool) -> (Self, BodyFeed) {
        let (feed, content) = BodyFeed::new(length, is_awaited);
        (Self::of(RequestContent::Fed(content), bytes_max), feed)
    }

    fn of(incoming: RequestContent, bytes_max: usize) -> Self {
        let (pace, account, replies) = Default::default();
        let (watch, left_over, progress) = (None, None, Progress::Begun);
        let left = bytes_max;
        Self { incoming, left, bytes_max, pace, account, watch, replies, left_over, progress }
    }

    /// Returns what says whether the reply to this request ends with its client. Only HTTP/1.1 needs it: in HTTP/2 a
    /// client resets a request that it gives up.
    pub fn watch(&self) -> Option<&PeerWatch> {
        self.watch.as_ref()
    }

    /// Returns the account of the memory held of the replies of this request's connection.
    pub fn replies(&self) -> &ReplyAccount {
        &self.replies
    }

    /// Returns the account of the memory held of this body, by [`bytes`](Self::bytes) and [`json`](Self::json) or as
    /// set by [`keep`](Self::keep).
    pub fn account(&self) -> BodyAccount {
        self.account.clone()
    }

    /// Sets how many bytes the reader of single pieces holds.
    pub fn keep(&self, bytes: usize) {
        self.account.set(bytes);
    }

    /// Lifts the limits of length and pace, for a reader that bounds what it holds, such as
    /// that of a stream of messages. The peer may be silent for up to `silence_max`.
    #[must_use]
    pub fn endless(self, silence_max: Duration) -> Self {
        let mut body = self.of_any_length();
        body.pace = Pace::of_stream(silence_max);
        body
    }

    /// Lifts the limit of length.
    #[must_use]
    pub fn of_any_length(mut self) -> Self {
        (self.left, self.bytes_max) = (usize::MAX, usize::MAX);
        self
    }

    /// Returns the next piece, which is not empty; `None` at the end.
    ///
    /// # Errors
    /// 400 if the peer sends an invalid body or leaves, 408 if it sends too slowly, 413 if the body
    /// exceeds the server's limit, 503 if the server is short of memory. The connection then ends.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>> {
        let Self { incoming, pace, account, progress, .. } = self;
        if *progress == Progress::Awaited {
            *progress = Progress::Begun;
        }
        let next = pin!(next_chunk(incoming, pace, "request"));
        let chunk = unless_given_up(account, next).await;
        match &chunk {
            Ok(Some(_)) => {}
            Ok(None) => *progress = Progress::Whole,
            Err(_) => *progress = Progress::Failed,
        }
        let Some(chunk) = chunk? else { return Ok(None) };
        match self.left.checked_sub(chunk.len()) {
            Some(_) if self.bytes_max == usize::MAX => {}
            Some(left) => self.left = left,
            None => return Err(too_long(self.bytes_max)),
        }
        Ok(Some(chunk))
    }

    /// Returns the whole body.
    ///
    /// # Errors
    /// Fails as [`chunk`](Self::chunk) does.
    pub async fn bytes(mut self) -> Result<Bytes> {
        if self.incoming.size_hint().lower() > self.left as u64 {
            return Err(too_long(self.bytes_max));
        }
        let mut whole = Gathered::default();
        while !self.incoming.is_end_stream()
            && let Some(chunk) = self.chunk().await?
        {
            whole.push(chunk);
            self.keep(whole.len());
        }
        Ok(whole.into_bytes())
    }

    /// Parses the whole body as JSON.
    ///
    /// # Errors
    /// Fails as [`chunk`](Self::chunk) does, and with 400 if the body is not JSON of such a value.
    pub async fn json<T: DeserializeOwned>(self) -> Result<T> {
        let bytes = self.bytes().await?;
        serde_json::from_slice(&bytes)
            .map_err(|error| Error::bad_request(format!("the body is not as expected: {error}")))
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        self.account.set(0);
        let Some(left_over) = self.left_over.take() else { return };
        if self.progress == Progress::Whole || self.incoming.is_end_stream() {
            return;
        }
        let incoming = std::mem::replace(&mut self.incoming, RequestContent::Taken);
        left_over.put(match incoming {
            RequestContent::Incoming(incoming) if self.progress == Progress::Begun => {
                Rest::Unread(incoming)
            }
            _ => Rest::Lost,
        });
    }
}

/// Waits for the next piece, or until the server gives the body up.
async fn unless_given_up<T>(
    account: &BodyAccount,
    mut next: Pin<&mut impl Future<Output = Result<T>>>,
) -> Result<T> {
    poll_fn(|cx| match account.is_given_up() {
        true => Poll::Ready(Err(Error::unavailable("the server is short of memory"))),
        false => next.as_mut().poll(cx),
    })
    .await
}

fn too_long(bytes_max: usize) -> Error {
    let message = format!("the body is longer than {bytes_max} bytes, the server's limit");
    Error::new(StatusCode::PAYLOAD_TOO_LARGE, message)
}

/// Returns the next piece of data that is not empty, and skips trailers.
pub(crate) async fn next_chunk(
    incoming: &mut (impl HttpBody<Data = Bytes, Error: Display> + Unpin),
    pace: &mut Pace,
    of: &'static str,
) -> Result<Option<Bytes>> {
    loop {
        let began: Instant = now();
        let frame = poll_fn(|cx| Pin::new(&mut *incoming).poll_frame(cx));
        let frame = timeout(pace.silence_max, frame).await;
        pace.note(now().saturating_duration_since(began), pace.bytes);
        let slow = || {
            let message = format!("the body of the {of} came too slowly");
            Error::new(StatusCode::REQUEST_TIMEOUT, message)
        };
        match frame.map_err(|_elapsed| slow())? {
            None => return Ok(None),
            Some(Err(error)) => {
                let message = format!("the body of the {of} did not come whole: {error}");
                return Err(Error::bad_request(message));
            }
            Some(Ok(frame)) => {
                let Ok(data) = frame.into_data() else { continue };
                pace.bytes += data.len() as u64;
                if pace.is_too_slow() {
                    return Err(slow());
                }
                if !data.is_empty() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// Joins pieces; a single one is not copied.
#[derive(Default)]
pub(crate) struct Gathered {
    first: Bytes,
    all: BytesMut,
}

impl Gathered {
    pub(crate) fn len(&self) -> usize {
        self.first.len().max(self.all.len())
    }

    pub(crate) fn push(&mut self, chunk: Bytes) {
        if self.all.is_empty() && self.first.is_empty() {
            self.first = chunk;
            return;
        }
        if self.all.is_empty() {
            self.all.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.all.extend_from_slice(&chunk);
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        match self.all.is_empty() {
            true => self.first,
            false => self.all.freeze(),
        }
    }
}

/// The body of a response: nothing, bytes, or a stream of bytes.
#[derive(Default)]
pub struct Body(Kind);

type BodyStream = Pin<Box<dyn Stream<Item = Result<Bytes>>>>;

#[derive(Default)]
enum Kind {
    #[default]
    Empty,
    Whole(Bytes),
    Stream(BodyStream),
    /// A stream of known length.
    Sized {
        left: u64,
        stream: BodyStream,
    },
    /// Nothing; after the head the connection serves another purpose.
    Upgrade(Upgrade),
}

impl Body {
    /// Makes an empty body.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Makes a body of the items of `stream`, sent in chunks. The next item is polled when those before it are in the
    /// socket's queue. An error cuts the response off; the peer notices, because the end is missing.
    pub fn stream(stream: impl Stream<Item = Result<Bytes>> + 'static) -> Self {
        Self(Kind::Stream(Box::pin(stream)))
    }

    /// Makes such a body with a known length, sent as it is; a stream that ends early cuts the response off.
    pub fn sized_stream(length: u64, stream: impl Stream<Item = Result<Bytes>> + 'static) -> Self {
        match length {
            0 => Self::empty(),
            left => Self(Kind::Sized { left, stream: Box::pin(stream) }),
        }
    }

    /// Returns the next piece, for a sender other than hyper; `None` at the end.
    ///
    /// # Errors
    /// The rest cannot be produced: cut the response off, so that the peer notices.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes>>> {
        loop {
            let Some(frame) = ready!(Pin::new(&mut *self).poll_frame(cx)) else {
                return Poll::Ready(None);
            };
            if let Ok(data) = frame?.into_data() {
                return Poll::Ready(Some(Ok(data)));
            }
        }
    }

    /// Whether everything was taken.
    pub fn is_over(&self) -> bool {
        self.is_end_stream()
    }

    /// Whether it is a stream.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self.0, Kind::Stream(_) | Kind::Sized { .. })
    }

    /// Returns what says whether a part of the body is still to be read or held; `None` if it is short, and is queued with
    /// its head.
    pub(crate) fn watched(&mut self) -> Option<Weak<()>> {
        let alive = Arc::new(());
        let watch = Arc::downgrade(&alive);
        let with = |stream| Box::pin(Watched { inner: stream, _alive: Arc::clone(&alive) });
        self.0 = match std::mem::take(&mut self.0) {
            Kind::Stream(stream) => Kind::Stream(with(stream)),
            Kind::Sized { left, stream } => Kind::Sized { left, stream: with(stream) },
            Kind::Whole(bytes) if bytes.len() >= WHOLE_WATCHED_MIN => {
                Kind::Whole(Bytes::from_owner(Watched { inner: bytes, _alive: alive }))
            }
            other => {
                self.0 = other;
                return None;
            }
        };
        Some(watch)
    }

    pub(crate) fn upgrade(upgrade: Upgrade) -> Self {
        Self(Kind::Upgrade(upgrade))
    }

    /// Returns what the connection is used for after this response.
    pub(crate) fn take_upgrade(&mut self) -> Option<Upgrade> {
        match std::mem::take(&mut self.0) {
            Kind::Upgrade(upgrade) => Some(upgrade),
            other => {
                self.0 = other;
                None
            }
        }
    }
}

/// A stream or bytes whose end, or drop, others see.
struct Watched<T> {
    inner: T,
    _alive: Arc<()>,
}

impl Stream for Watched<BodyStream> {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes>>> {
        self.inner.as_mut().poll_next(cx)
    }
}

impl AsRef<[u8]> for Watched<Bytes> {
    fn as_ref(&self) -> &[u8] {
        &self.inner
    }
}

impl<T: Into<Bytes>> From<T> for Body {
    fn from(bytes: T) -> Self {
        match bytes.into() {
            bytes if bytes.is_empty() => Self::empty(),
            bytes => Self(Kind::Whole(bytes)),
        }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Kind::Empty => f.write_str("Body(empty)"),
            Kind::Whole(bytes) => write!(f, "Body({} bytes)", bytes.len()),
            Kind::Stream(_) => f.write_str("Body(stream)"),
            Kind::Sized { left, .. } => write!(f, "Body(stream of {left} bytes)"),
            Kind::Upgrade(_) => f.write_str("Body(upgrade)"),
        }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>>>> {
        match &mut self.0 {
            Kind::Empty | Kind::Upgrade(_) => Poll::Ready(None),
            Kind::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                self.0 = Kind::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Kind::Stream(stream) => {
                let item = ready!(stream.as_mut().poll_next(cx));
                Poll::Ready(item.map(|item| item.map(Frame::data)))
            }
            Kind::Sized { left, stream } => {
                let item = ready!(stream.as_mut().poll_next(cx));
                let item =
                    item.or((*left > 0).then(|| Err(Error::internal("the body ends early"))));
                Poll::Ready(item.map(|item| {
                    let mut bytes = item?;
                    bytes.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= bytes.len() as u64;
                    Ok(Frame::data(bytes))
                }))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Kind::Empty | Kind::Upgrade(_) | Kind::Sized { left: 0, .. })
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Empty | Kind::Upgrade(_) => SizeHint::with_exact(0),
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Stream(_) => SizeHint::default(),
            Kind::Sized { left, .. } => SizeHint::with_exact(*left),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_become_one_and_a_single_one_is_not_copied() {
        let only = Bytes::from(vec![1; 100]);
        let mut gathered = Gathered::default();
        gathered.push(only.clone());
        assert_eq!(gathered.into_bytes().as_ptr(), only.as_ptr());

        let mut gathered = Gathered::default();
        for piece in ["a", "bc", "def"] {
            gathered.push(Bytes::from_static(piece.as_bytes()));
        }
        assert_eq!((gathered.len(), gathered.into_bytes()), (6, Bytes::from_static(b"abcdef")));
    }
}
