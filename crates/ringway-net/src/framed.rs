//! Frames over a connection.

use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use ringway_runtime::View;
use ringway_runtime::io::Pressure;
use ringway_wire::{Codec, Framer, LengthFrame};

use crate::connection::{Connection, Peer, Sending};
use crate::error::Result;
use crate::limits::{SCRATCH_BYTES_KEPT, SCRATCH_BYTES_QUEUED};

/// A connection that carries the frames of a codec.
///
/// Received frames are borrowed from the receive buffer and handled in place; frames to send are
/// encoded into one scratch buffer of the core and queued on the connection. In the steady state
/// neither direction allocates, and an idle `Framed` holds no buffer.
///
/// # Examples
///
/// This service answers every line with its length. All answers to the lines of one receive leave
/// in one send:
///
/// ```no_run
/// use ringway_net::{Connection, Framed, Result, Server};
/// use ringway_wire::Line;
///
/// Server::bind("tcp://127.0.0.1:7001")?.serve(async |connection: Connection| {
///     let mut lines = Framed::new(connection, Line::new(1024));
///     lines.for_each_frame(|line, out| out.send(line.len().to_string().as_bytes())).await
/// })?;
/// # Ok::<(), ringway_net::Error>(())
/// ```
pub struct Framed<C> {
    frames: Frames<C>,
    /// Separate from the framer's codec, which is borrowed while a frame is being answered.
    encoder: C,
}

/// The receiving half.
pub(crate) struct Frames<C> {
    connection: Connection,
    framer: Framer<C>,
    /// Received bytes after the last frame that was handed out, if the caller stopped there.
    rest: Option<View>,
    /// Whether a reply was refused because the connection has failed.
    is_lost: bool,
}

impl<C: Codec + Clone> Framed<C> {
    /// Reads and writes frames on a connection. The next received byte must be the start of a
    /// frame.
    pub fn new(connection: Connection, codec: C) -> Self {
        let encoder = codec.clone();
        let framer = Framer::new(codec);
        Self { frames: Frames { connection, framer, rest: None, is_lost: false }, encoder }
    }
}

impl<C: Codec> Framed<C> {
    /// Waits for bytes and calls `on_frame` with each frame that they complete and an [`Outgoing`]
    /// to reply with. Returns the number of frames, at least one; `None` once the peer has finished
    /// sending between two frames.
    ///
    /// All replies to these frames are queued together. Dropping the future loses nothing.
    ///
    /// If receiving waits for room in the send queue ([`Peer::set_paced`](crate::Peer::set_paced),
    /// the default on connections of a server), received frames wait too: the replies to at most
    /// one frame exceed the high-water mark, however many frames a peer has sent at once. Frames
    /// after a failed reply are not handled.
    ///
    /// # Errors
    /// Returns an error of `on_frame`; the next call continues with the frames after it. Every
    /// other error is final, and the connection has to be closed: it failed, the peer broke the
    /// codec's rules, or the peer stopped sending in the middle of a frame.
    pub async fn recv_frames(
        &mut self,
        mut on_frame: impl FnMut(C::Item<'_>, &mut Outgoing<'_, C>) -> Result,
    ) -> Result<Option<usize>> {
        poll_fn(|cx| {
            self.poll_frames(cx, |item, out| on_frame(item, out).map(ControlFlow::Continue))
        })
        .await
    }

    /// Calls `on_frame` for every frame until the peer has finished sending.
    ///
    /// # Errors
    /// Fails like [`recv_frames`](Self::recv_frames).
    pub async fn for_each_frame(
        &mut self,
        mut on_frame: impl FnMut(C::Item<'_>, &mut Outgoing<'_, C>) -> Result,
    ) -> Result {
        while self.recv_frames(&mut on_frame).await?.is_some() {}
        Ok(())
    }

    /// Waits for the next frame and returns the result of `map` on it; `None` once the peer has
    /// finished sending. The frames after it stay in their receive buffer until the next call.
    ///
    /// # Errors
    /// Fails like [`recv_frames`](Self::recv_frames).
    pub async fn next_with<T>(
        &mut self,
        mut map: impl FnMut(C::Item<'_>) -> T,
    ) -> Result<Option<T>> {
        let mut mapped = None;
        poll_fn(|cx| {
            self.poll_frames(cx, |item, _| {
                mapped = Some(map(item));
                Ok(ControlFlow::Break(()))
            })
        })
        .await?;
        Ok(mapped)
    }

    /// Waits for the next frame and copies its payload; `None` once the peer has finished sending.
    ///
    /// This allocates once per frame; [`recv_frames`](Self::recv_frames) does not allocate.
    ///
    /// # Errors
    /// Fails like [`recv_frames`](Self::recv_frames).
    pub async fn next_owned(&mut self) -> Result<Option<Bytes>>
    where
        for<'a> C::Item<'a>: Payload,
    {
        self.next_with(|item| Bytes::copy_from_slice(item.payload())).await
    }

    /// Queues a frame with `payload`; it leaves at the end of the turn. Await the returned
    /// [`Sending`] to keep pace with the peer, or ignore it.
    ///
    /// # Errors
    /// Fails when no frame of the codec can carry `payload`. The returned [`Sending`] reports a
    /// connection that has ended.
    pub fn send(&mut self, payload: &[u8]) -> Result<Sending<'_>> {
        let encoded = Scratch::encode(&mut self.encoder, payload)?;
        let sending = encoded.queue_on(&self.frames.connection);
        self.frames.is_lost |= was_lost(&sending, &self.frames.connection);
        Ok(sending)
    }

    /// Returns the connection, for its addresses, session, limits and state. Bytes sent on it
    /// directly go between two frames.
    pub fn connection(&self) -> &Connection {
        &self.frames.connection
    }

    /// Gives up framing: returns the connection and the received bytes after the last frame that
    /// are still in their receive buffer. Bytes of an incomplete frame are dropped.
    pub fn into_parts(self) -> (Connection, Option<View>) {
        (self.frames.connection, self.frames.rest)
    }

    /// Splits into the receiving half and the encoder.
    pub(crate) fn into_halves(self) -> (Frames<C>, C) {
        (self.frames, self.encoder)
    }

    /// Polls like [`recv_frames`](Self::recv_frames); `on_frame` may stop after a frame.
    fn poll_frames(
        &mut self,
        cx: &mut Context<'_>,
        mut on_frame: impl FnMut(C::Item<'_>, &mut Outgoing<'_, C>) -> Result<ControlFlow<()>>,
    ) -> Poll<Result<Option<usize>>> {
        loop {
            let Some(view) = ready!(self.frames.poll_view(cx))? else {
                return Poll::Ready(Ok(None));
            };
            let frames = self.handle(view, &mut on_frame)?;
            if frames > 0 {
                return Poll::Ready(Ok(Some(frames)));
            }
        }
    }

    fn handle(
        &mut self,
        view: View,
        on_frame: &mut impl FnMut(C::Item<'_>, &mut Outgoing<'_, C>) -> Result<ControlFlow<()>>,
    ) -> Result<usize> {
        let Frames { connection, framer, rest, is_lost } = &mut self.frames;
        let mut out = Outgoing {
            connection,
            encoder: &mut self.encoder,
            scratch: Scratch::take(),
            has_sent: false,
            is_lost: false,
        };
        let handled = take_frames(framer, rest, view, |item| match on_frame(item, &mut out)? {
            ControlFlow::Continue(()) if out.has_to_stop() => Ok(ControlFlow::Break(())),
            flow => Ok(flow),
        });
        out.flush();
        *is_lost |= out.is_lost;
        handled
    }
}

impl<C: Codec> Frames<C> {
    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Polls for received bytes to pass to [`take`](Self::take); `None` at the end of the stream
    /// between two frames.
    pub(crate) fn poll_view(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<View>>> {
        let inner = self.connection.inner();
        if self.is_lost
            && let Some(error) = inner.failure()
        {
            return Poll::Ready(Err(error));
        }
        if self.rest.is_some() {
            ready!(inner.stream().poll_room(cx));
            return Poll::Ready(Ok(self.rest.take()));
        }
        let received = self.connection.poll_recv(cx);
        match received {
            Poll::Pending => self.framer.release(),
            Poll::Ready(Ok(None)) => self.framer.finish()?,
            Poll::Ready(_) => {}
        }
        received
    }

    /// Calls `on_frame` with each frame that `view` completes; returns their number.
    pub(crate) fn take(
        &mut self,
        view: View,
        on_frame: impl FnMut(C::Item<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<usize> {
        take_frames(&mut self.framer, &mut self.rest, view, on_frame)
    }
}

/// Hands out frames until `on_frame` stops or fails; the bytes after that go to `rest`.
fn take_frames<C: Codec>(
    framer: &mut Framer<C>,
    rest: &mut Option<View>,
    mut view: View,
    mut on_frame: impl FnMut(C::Item<'_>) -> Result<ControlFlow<()>>,
) -> Result<usize> {
    let mut refused = None;
    let pushed = framer.push_while(&view, |item| match on_frame(item) {
        Ok(flow) => flow,
        Err(error) => {
            refused = Some(error);
            ControlFlow::Break(())
        }
    })?;
    if pushed.consumed < view.len() {
        view.advance(pushed.consumed);
        *rest = Some(view);
    }
    refused.map_or(Ok(pushed.frames), Err)
}

impl<C> fmt::Debug for Framed<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connection = &self.frames.connection;
        f.debug_struct("Framed").field("connection", connection).finish_non_exhaustive()
    }
}

/// Sends replies while received frames are being handled.
pub struct Outgoing<'a, C> {
    connection: &'a Connection,
    encoder: &'a mut C,
    scratch: Scratch,
    /// Whether something was sent, or may have been, since the connection was last checked.
    has_sent: bool,
    is_lost: bool,
}

impl<C: Codec> Outgoing<'_, C> {
    /// Queues a frame with `payload`, behind those queued before.
    ///
    /// # Errors
    /// Fails when no frame of the codec can carry `payload`.
    pub fn send(&mut self, payload: &[u8]) -> Result {
        self.encoder.encode(payload, &mut self.scratch.bytes)?;
        if self.scratch.bytes.len() >= SCRATCH_BYTES_QUEUED {
            self.flush();
        }
        Ok(())
    }

    /// Returns the connection, for its session and state, or to send bytes that are framed already.
    pub fn connection(&mut self) -> &Connection {
        self.flush();
        self.connection
    }

    /// Whether the following frames must wait for room in the send queue, or their replies would be
    /// lost.
    #[inline]
    fn has_to_stop(&mut self) -> bool {
        std::mem::take(&mut self.has_sent)
            && (self.is_lost || self.connection.inner().stream().waits_for_room())
    }

    fn flush(&mut self) {
        self.has_sent = true;
        if !self.scratch.bytes.is_empty() {
            let scratch = std::mem::replace(&mut self.scratch, Scratch { bytes: Vec::new() });
            let sending = scratch.queue_on(self.connection);
            self.is_lost |= was_lost(&sending, self.connection);
            self.scratch = Scratch::take();
        }
    }
}

/// Whether a reply was refused because the connection has failed, and not because sending was
/// finished.
fn was_lost(sending: &Sending<'_>, connection: &Connection) -> bool {
    sending.pressure() == Pressure::Closed && connection.inner().failure().is_some()
}

impl<C> fmt::Debug for Outgoing<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing").field("connection", &self.connection).finish_non_exhaustive()
    }
}

/// A frame with a payload. [`Framed::next_owned`] copies it, and a [`Requester`](crate::Requester)
/// returns it as the reply.
pub trait Payload {
    /// Returns the bytes that the frame carries, without the framing.
    fn payload(&self) -> &[u8];
}

impl Payload for &[u8] {
    fn payload(&self) -> &[u8] {
        self
    }
}

impl Payload for LengthFrame<'_> {
    fn payload(&self) -> &[u8] {
        self.payload
    }
}

/// Memory to encode into: one buffer per thread, so that idle connections need none of their own. A
/// nested use gets a new buffer.
pub(crate) struct Scratch {
    bytes: Vec<u8>,
}

thread_local! {
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Scratch {
    fn take() -> Self {
        Self { bytes: SPARE.take() }
    }

    /// Encodes a frame with `payload`.
    pub(crate) fn encode(encoder: &mut impl Codec, payload: &[u8]) -> Result<Self> {
        let mut scratch = Self::take();
        encoder.encode(payload, &mut scratch.bytes)?;
        Ok(scratch)
    }

    /// Moves long contents to the connection and copies short ones, to keep the buffer.
    pub(crate) fn queue_on(mut self, connection: &Peer) -> Sending<'_> {
        if self.bytes.len() > SCRATCH_BYTES_KEPT {
            return connection.send(std::mem::take(&mut self.bytes));
        }
        connection.write(&self.bytes)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        // Neither an empty buffer nor an oversized one may replace the spare one.
        if (1..=SCRATCH_BYTES_KEPT).contains(&bytes.capacity()) {
            bytes.clear();
            // While a thread ends, its spare buffer may be gone already.
            let _ = SPARE.try_with(|spare| spare.set(bytes));
        }
    }
}
