//! Bodies: what a peer sends us, and what we send.

use std::fmt::Display;
use std::future::poll_fn;
use std::pin::{Pin, pin};
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
use crate::limits::{BODY_RATE_MIN, BODY_STALL};
use crate::upgrade::Upgrade;

/// A request as a handler gets it: its body has not been read yet.
pub type Request = http::Request<RequestBody>;

/// What a handler answers.
pub type Response = http::Response<Body>;

/// The body of a request, read piece by piece as its handler asks for it.
///
/// What is not asked for stays in the kernel: a slow handler slows its own client down.
#[derive(Debug)]
pub struct RequestBody {
    incoming: RequestContent,
    left: usize,
    bytes_max: usize,
    pace: Pace,
    account: BodyAccount,
}

impl RequestBody {
    pub(crate) fn new(incoming: Incoming, bytes_max: usize) -> Self {
        Self::of(RequestContent::Incoming(incoming), bytes_max)
    }

    /// A body that comes by another way, of `length` bytes if that is known.
    pub(crate) fn fed(length: Option<u64>, bytes_max: usize) -> (Self, BodyFeed) {
        let (feed, content) = BodyFeed::new(length);
        (Self::of(RequestContent::Fed(content), bytes_max), feed)
    }

    fn of(incoming: RequestContent, bytes_max: usize) -> Self {
        let (pace, account) = Default::default();
        Self { incoming, left: bytes_max, bytes_max, pace, account }
    }

    /// The account of what is kept of this body, by [`bytes`](Self::bytes) and [`json`](Self::json) or as
    /// [`keep`](Self::keep) says.
    pub fn account(&self) -> BodyAccount {
        self.account.clone()
    }

    /// Says how many bytes the reader of single pieces keeps of them.
    pub fn keep(&self, bytes: usize) {
        self.account.set(bytes);
    }

    /// The same body without a limit of length and pace, for a reader that bounds what it keeps, such as
    /// one of a stream of messages. A peer may be silent for up to `silence_max`.
    #[must_use]
    pub fn endless(self, silence_max: Duration) -> Self {
        let mut body = self.of_any_length();
        body.pace = Pace::of_stream(silence_max);
        body
    }

    /// The same body without a limit of length alone.
    #[must_use]
    pub fn of_any_length(mut self) -> Self {
        (self.left, self.bytes_max) = (usize::MAX, usize::MAX);
        self
    }

    /// The next piece, which is not empty; `None` at the end.
    ///
    /// # Errors
    /// 400 if the peer sends what is no body or goes away, 408 if it sends too slowly, 413 if the body
    /// is longer than the server's limit, 503 if the server is short of memory. The connection ends then.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>> {
        let Self { incoming, pace, account, .. } = self;
        let next = pin!(next_chunk(incoming, pace, "request"));
        let Some(chunk) = unless_given_up(account, next).await? else { return Ok(None) };
        match self.left.checked_sub(chunk.len()) {
            Some(_) if self.bytes_max == usize::MAX => {}
            Some(left) => self.left = left,
            None => return Err(too_long(self.bytes_max)),
        }
        Ok(Some(chunk))
    }

    /// The whole body.
    ///
    /// # Errors
    /// As [`chunk`](Self::chunk).
    pub async fn bytes(mut self) -> Result<Bytes> {
        if self.incoming.size_hint().lower() > self.left as u64 {
            return Err(too_long(self.bytes_max));
        }
        let mut whole = Gathered::default();
        while let Some(chunk) = self.chunk().await? {
            whole.push(chunk);
            self.keep(whole.len());
        }
        Ok(whole.into_bytes())
    }

    /// The whole body, read as JSON.
    ///
    /// # Errors
    /// As [`chunk`](Self::chunk), and 400 if it is no JSON of such a value.
    pub async fn json<T: DeserializeOwned>(self) -> Result<T> {
        let bytes = self.bytes().await?;
        serde_json::from_slice(&bytes)
            .map_err(|error| Error::bad_request(format!("the body is not as expected: {error}")))
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        self.account.set(0);
    }
}

/// Waits for the next piece, or until the body is given up.
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

/// How fast a peer sends its body.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Time spent waiting for the peer, so that a slow reader is not blamed on it.
    waited: Duration,
    bytes: u64,
    /// How long the peer may send nothing.
    silence_max: Duration,
    /// Bytes per second that the peer has to send on average.
    rate_min: u64,
}

impl Default for Pace {
    fn default() -> Self {
        let (silence_max, rate_min) = (BODY_STALL, BODY_RATE_MIN);
        Self { waited: Duration::ZERO, bytes: 0, silence_max, rate_min }
    }
}

impl Pace {
    fn of_stream(silence_max: Duration) -> Self {
        Self { silence_max, rate_min: 0, ..Self::default() }
    }

    /// Notes one more wait, and all bytes that have come.
    pub(crate) fn note(&mut self, waited: Duration, bytes: u64) {
        self.waited += waited;
        self.bytes = bytes;
    }

    pub(crate) fn is_too_slow(&self) -> bool {
        let counted = self.waited.saturating_sub(BODY_STALL).as_secs();
        self.bytes < counted * self.rate_min
    }

    /// How long may be waited before it is too slow, if nothing comes.
    pub(crate) fn left(&self) -> Duration {
        let earned = Duration::from_secs(self.bytes / BODY_RATE_MIN + 1);
        (BODY_STALL + earned).saturating_sub(self.waited)
    }
}

/// The next piece of data that is not empty. Trailers are skipped.
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

/// Pieces as one; copies nothing where there is only one.
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

/// The body of a response: nothing, bytes, or a stream of bytes that is sent as it comes.
#[derive(Default)]
pub struct Body(Kind);

type BodyStream = Pin<Box<dyn Stream<Item = Result<Bytes>>>>;

#[derive(Default)]
enum Kind {
    #[default]
    Empty,
    Whole(Bytes),
    Stream(BodyStream),
    /// A stream of which the length is known.
    Sized {
        left: u64,
        stream: BodyStream,
    },
    /// Nothing, and the connection is used for something else behind the head.
    Upgrade(Upgrade),
}

impl Body {
    /// No body.
    pub fn empty() -> Self {
        Self::default()
    }

    /// What `stream` gives, in chunks. An item is asked for when those before it have left for the
    /// socket's queue. An error cuts the response off, which the peer notices: it lacks its end.
    pub fn stream(stream: impl Stream<Item = Result<Bytes>> + 'static) -> Self {
        Self(Kind::Stream(Box::pin(stream)))
    }

    /// The same, of a length that is known: it is sent as it is, and one that ends early cuts the response off.
    pub fn sized_stream(length: u64, stream: impl Stream<Item = Result<Bytes>> + 'static) -> Self {
        match length {
            0 => Self::empty(),
            left => Self(Kind::Sized { left, stream: Box::pin(stream) }),
        }
    }

    /// The next piece of it, for whoever sends it without hyper; `None` is the end.
    ///
    /// # Errors
    /// When the rest of it cannot be had: cut the answer off, so that the peer notices.
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

    /// Whether nothing is left of it.
    pub fn is_over(&self) -> bool {
        self.is_end_stream()
    }

    /// Whether it comes piece by piece.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self.0, Kind::Stream(_) | Kind::Sized { .. })
    }

    pub(crate) fn upgrade(upgrade: Upgrade) -> Self {
        Self(Kind::Upgrade(upgrade))
    }

    /// What the connection is used for behind this response.
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

    #[test]
    fn a_body_has_to_keep_a_pace_once_it_has_had_its_time() {
        let pace = |waited: u64, bytes| Pace {
            waited: Duration::from_secs(waited),
            bytes,
            ..Pace::default()
        };
        assert!(!pace(30, 1).is_too_slow() && pace(31, 999).is_too_slow());
        assert!(!pace(31, 1_000).is_too_slow() && pace(130, 99_999).is_too_slow());
        for (waited, bytes) in [(0, 0), (29, 5), (31, 1_000), (100, 99_000)] {
            let (mut pace, left) = (pace(waited, bytes), pace(waited, bytes).left());
            pace.note(left - Duration::from_millis(1), bytes);
            assert!(!pace.is_too_slow(), "{waited} s, {bytes} bytes");
            pace.note(Duration::from_millis(1), bytes);
            assert!(pace.is_too_slow(), "{waited} s, {bytes} bytes");
        }
    }
}
