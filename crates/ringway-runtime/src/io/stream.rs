//! The owner's side of a stream.

use std::any::Any;
use std::fmt;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use socket2::{SockAddr, SockRef};

use super::Socket;
use super::callback::{Incoming, Next};
use super::closing::is_out_of_descriptors;
use super::outbox::Filled;
use super::stream_limits::StreamLimits;
use super::stream_state::{End, Phase, RecvState, Shutdown, StreamState};
use super::waiters::Waiters;
use super::waiting::{Waitable, poll_or_wait};
use crate::buf::{Segment, View};
use crate::core::{Core, with_current};
use crate::driver::Key;
use crate::spawn::yield_now;

/// A connected byte stream (TCP or Unix) of this core.
///
/// Received bytes are lent as [`View`]s, without a copy. [`send`](Self::send) only queues: all that
/// a turn of the loop queued for a stream leaves in one gathered send at the turn's end. Dropping
/// the stream sends what is queued, then closes.
pub struct Stream {
    core: Rc<Core>,
    key: Key,
}

/// The fill level of a stream's send queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pressure {
    /// Below the high-water mark.
    Low,
    /// At or above it: wait for [`Stream::drained`] before sending much more.
    High,
    /// The stream has ended; what was given is dropped.
    Closed,
}

impl Stream {
    pub(crate) fn of_key(core: Rc<Core>, key: Key) -> Self {
        Self { core, key }
    }

    /// Connects to a TCP or Unix address.
    ///
    /// Dropping the future closes the half-made connection. There is no timeout here: wrap the
    /// call in [`timeout`](crate::timeout). Where descriptors have run out, streams of this core that were
    /// dropped and wait only for their peers are closed first.
    ///
    /// # Errors
    /// The kernel's: refused, unreachable, no such socket file, out of descriptors.
    pub async fn connect(addr: &SockAddr) -> io::Result<Stream> {
        let start = || with_current(|core| core.start_connect(addr));
        let mut started = start();
        if started.as_ref().is_err_and(is_out_of_descriptors)
            && with_current(|core| core.close_draining())
        {
            yield_now().await; // they are closed when the turn ends
            started = start();
        }
        let stream = started?;
        let connected = std::future::poll_fn(|cx| stream.poll_connected(cx)).await;
        connected.map(|()| stream)
    }

    /// Takes over a connected socket made elsewhere.
    ///
    /// # Errors
    /// When the descriptor cannot be set to the mode that the driver needs; it is closed then.
    pub fn adopt(socket: OwnedFd, limits: &Rc<StreamLimits>) -> io::Result<Stream> {
        with_current(|core| core.adopt_stream(socket, limits))
    }

    fn poll_connected(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let connected = |state: &mut StreamState| match (state.end, state.connecting) {
            (Some(end), _) => Poll::Ready(Err(end.to_error())),
            (None, false) => Poll::Ready(Ok(())),
            (None, true) => Poll::Pending,
        };
        poll_or_wait(self, cx, |state| &mut state.writers, connected)
    }

    /// The next received bytes; `None` once the peer has finished sending.
    ///
    /// Dropping the future loses nothing. Whether this waits while the send queue is full is up to
    /// [`set_paced`](Self::set_paced).
    ///
    /// # Errors
    /// Reset by the peer, or one of the stream's own timeouts; repeated by every later call.
    pub fn recv(&self) -> Recv<'_> {
        Recv { stream: self }
    }

    /// Polls like [`recv`](Self::recv), for hand-written futures.
    #[inline]
    pub fn poll_recv(&self, cx: &mut Context<'_>) -> Poll<io::Result<Option<View>>> {
        poll_or_wait(self, cx, |state| &mut state.readers, |state| self.next_received(state))
    }

    #[inline]
    fn next_received(&self, state: &mut StreamState) -> Poll<io::Result<Option<View>>> {
        if state.waits_for_room() {
            return Poll::Pending;
        }
        let view = state.inbox.pop();
        if view.is_some() {
            state.count(&self.core.held);
        }
        if state.wants_recv(&self.core.held) {
            self.core.start_recv(self.key, state);
        }
        match (view, state.end_of_data()) {
            (Some(view), _) => Poll::Ready(Ok(Some(view))),
            (None, Some(End::Eof)) => Poll::Ready(Ok(None)),
            (None, Some(end)) => Poll::Ready(Err(end.to_error())),
            (None, None) => Poll::Pending,
        }
    }

    /// Queues bytes without copying them; they leave at the end of the turn. Only received bytes that
    /// would have to wait are copied where they would keep buffers from others.
    pub fn send(&self, segment: impl Into<Segment>) -> Pressure {
        let mut segment = Some(segment.into());
        // A segment that is refused is dropped here, where nothing is borrowed.
        self.queue(|state, core| match segment.take() {
            Some(given) if given.as_slice().is_empty() => {
                segment = Some(given);
                Filled::Place
            }
            Some(given) => state.outbox.push(&core.send_memory, given),
            None => Filled::Place,
        })
    }

    /// Queues a copy of `bytes`; small pieces are gathered into one segment.
    pub fn write(&self, bytes: &[u8]) -> Pressure {
        self.queue(|state, core| state.outbox.copy(&core.send_memory, bytes))
    }

    #[inline]
    fn queue(&self, put: impl FnOnce(&mut StreamState, &Core) -> Filled) -> Pressure {
        self.with(|state| {
            if state.is_broken() || state.shutdown != Shutdown::Open || state.phase != Phase::Open {
                return Pressure::Closed;
            }
            let filled = put(state, &self.core);
            // Bytes in a place that was there already cost no memory, and the stream is marked.
            if filled == Filled::Place && !state.is_long() {
                return Pressure::Low;
            }
            self.queued_more(state)
        })
    }

    /// Counts what the queue holds now, and has it looked at when the turn ends.
    fn queued_more(&self, state: &mut StreamState) -> Pressure {
        state.count(&self.core.held);
        let is_high = state.check_queue(&self.core.held);
        if state.outbox.is_ready() || state.is_broken() {
            self.core.mark_stream(self.key, state);
        }
        match is_high {
            _ if state.is_broken() => Pressure::Closed,
            true => Pressure::High,
            false => Pressure::Low,
        }
    }

    /// Waits until the send queue is below its low-water mark.
    ///
    /// # Errors
    /// When the stream has failed; what was queued is then lost.
    pub fn drained(&self) -> Drained<'_> {
        Drained { stream: self, low_water: None }
    }

    /// Waits until everything queued was accepted by the kernel.
    ///
    /// # Errors
    /// As [`drained`](Self::drained).
    pub fn flushed(&self) -> Drained<'_> {
        Drained { stream: self, low_water: Some(0) }
    }

    /// Polls like [`flushed`](Self::flushed), for hand-written futures.
    pub fn poll_flushed(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_below(Some(0), cx)
    }

    /// Polls like [`drained`](Self::drained), for hand-written futures.
    pub fn poll_drained(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_below(None, cx)
    }

    fn poll_below(&self, low: Option<usize>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let below = |state: &mut StreamState| match state.end {
            Some(end) if state.is_broken() => Poll::Ready(Err(end.to_error())),
            _ if state.outbox.queued() <= low.unwrap_or(state.limits.send_low_water) => {
                Poll::Ready(Ok(()))
            }
            _ => Poll::Pending,
        };
        poll_or_wait(self, cx, |state| &mut state.writers, below)
    }

    /// Bytes queued that the kernel has not accepted yet; 0 when the stream has failed, for nothing leaves it
    /// any more.
    pub fn queued_bytes(&self) -> usize {
        self.with(|state| if state.is_broken() { 0 } else { state.outbox.bytes() })
    }

    /// Whether the send queue has been at its high-water mark and not at the low one since.
    pub fn is_congested(&self) -> bool {
        self.with(|state| state.congested && !state.is_broken())
    }

    /// Whether receiving waits for room in the send queue, as [`set_paced`](Self::set_paced) says.
    pub fn waits_for_room(&self) -> bool {
        self.with(|state| state.waits_for_room())
    }

    /// Ready while receiving does not wait for room, whether or not there is something to receive:
    /// for those who hold received bytes themselves and have to pace what they do with them.
    pub fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let room = |state: &mut StreamState| match state.waits_for_room() {
            true => Poll::Pending,
            false => Poll::Ready(()),
        };
        poll_or_wait(self, cx, |state| &mut state.readers, room)
    }

    /// Why nothing can be sent any more, if the stream has failed. What had arrived before that is
    /// still received.
    pub fn failure(&self) -> Option<io::Error> {
        self.with(|state| state.end.filter(|_| state.is_broken()).map(End::to_error))
    }

    /// Finishes sending (half-close) after what is queued; receiving goes on.
    pub fn shutdown(&self) {
        self.with(|state| {
            if state.shutdown == Shutdown::Open {
                state.shutdown = Shutdown::Wanted;
                self.core.mark_stream(self.key, state);
            }
        });
    }

    /// Resets the connection, at the end of the turn: what is queued is dropped, whoever waits gets
    /// an error, and the peer sees one too. The descriptor is closed, whoever still has the stream.
    ///
    /// Unix sockets have no reset: there the peer sees an error only if bytes of its own were not taken,
    /// and otherwise an end behind what had left.
    pub fn abort(&self) {
        self.with(|state| {
            state.fail(End::Errno(libc::ECONNABORTED));
            self.core.mark_stream(self.key, state);
        });
        self.core.deliver_held(self.key);
    }

    /// Ends receiving as though the peer had finished: what has arrived is still delivered, then the
    /// end. Sending stays possible.
    pub fn end_receiving(&self) {
        let readers = self.with(|state| {
            state.end = state.end.or(Some(End::Eof));
            if std::mem::take(&mut state.reads_out) {
                self.core.mark_stream(self.key, state);
            }
            if state.recv == RecvState::Armed {
                self.core.stop_recv(self.key, state);
            }
            state.readers.take()
        });
        readers.wake_contained();
        self.core.deliver_held(self.key);
    }

    /// Whether receiving waits while the send queue is full: from its high-water mark on until it is
    /// below the low one, [`recv`](Self::recv) has nothing and a callback is not called. That suits
    /// whoever answers what it receives: a peer that does not read the answers is not read either,
    /// and cannot make us queue without bound. Two ends that both send on their own account must
    /// not do it, or each waits for the other. Off at first.
    pub fn set_paced(&self, paced: bool) {
        let readers = self.with(|state| {
            state.paced = paced;
            if state.waits_for_room() { Waiters::default() } else { state.readers.take() }
        });
        readers.wake_contained();
        self.core.deliver_held(self.key);
    }

    /// Calls the callback with no bytes, unless it is being called: for those who hold received bytes
    /// themselves and may go on with them.
    pub fn prompt(&self) {
        self.core.prompt(self.key);
    }

    /// Keeps `guard` until the descriptor is closed, which may be long after the stream was dropped:
    /// what is queued is sent first. For a permit that counts open connections. It is dropped on
    /// the stream's core, between other things.
    pub fn hold_until_closed(&self, guard: impl Any) {
        let mut guard: Option<Box<dyn Any>> = Some(Box::new(guard));
        self.with(|state| {
            if state.phase != Phase::Closed {
                state.guards.extend(guard.take());
            }
        });
    }

    /// Replaces the bounds and timeouts.
    pub fn set_limits(&self, limits: Rc<StreamLimits>) {
        let (former, writers) =
            self.with(|state| (std::mem::replace(&mut state.limits, limits), state.writers.take()));
        drop(former);
        self.core.schedule_deadlines(self.key);
        writers.wake_contained();
    }

    /// When bytes last moved in either direction.
    pub fn last_active(&self) -> Instant {
        self.with(|state| state.clocks.last_active())
    }

    /// The peer's address.
    ///
    /// # Errors
    /// When the connection is gone, or the driver has no such notion.
    pub fn peer_addr(&self) -> io::Result<SockAddr> {
        let fd = self.open_fd()?;
        self.core.driver.borrow().peer_addr(fd)
    }

    /// Our own address.
    ///
    /// # Errors
    /// As [`peer_addr`](Self::peer_addr).
    pub fn local_addr(&self) -> io::Result<SockAddr> {
        let fd = self.open_fd()?;
        self.core.driver.borrow().local_addr(fd)
    }

    /// Sets options of the socket (`TCP_NODELAY`, keep-alive …). Under the simulated driver there
    /// is no socket and nothing happens.
    ///
    /// # Errors
    /// What `f` returns; `ENOTCONN` when the connection is gone.
    pub fn with_socket(&self, f: impl FnOnce(SockRef<'_>) -> io::Result<()>) -> io::Result<()> {
        let fd = self.open_fd()?;
        self.core.with_socket(fd, f)
    }

    /// The descriptor, for as long as nobody else may have its number.
    fn open_fd(&self) -> io::Result<RawFd> {
        self.with(|state| match state.phase {
            Phase::Closing | Phase::Closed => Err(io::Error::from_raw_os_error(libc::ENOTCONN)),
            _ => Ok(state.fd),
        })
    }

    /// Hands the stream to a callback that is called from the completion, without a task: `call`
    /// gets every piece of data and, at last, the end.
    pub fn on_incoming(self, mut call: impl FnMut(&Stream, Incoming) -> Next + 'static) {
        let (core, key) = (Rc::clone(&self.core), self.key);
        core.set_callback(key, Box::new(move |incoming| call(&self, incoming)));
    }

    /// As [`on_incoming`](Self::on_incoming), for a stream that others reach too: `call` has to own
    /// what owns the stream, and drops it when it has asked to close.
    ///
    /// The end is told to a callback that is set after it, too, but not without end: the ninth is dropped
    /// untold, and the stream is aborted.
    pub fn set_callback(&self, call: impl FnMut(Incoming) -> Next + 'static) {
        self.core.set_callback(self.key, Box::new(call));
    }
}

impl Waitable for Stream {
    type State = StreamState;

    fn with<T>(&self, f: impl FnOnce(&mut StreamState) -> T) -> T {
        match self.core.sockets.borrow_mut().at(self.key) {
            Some(Socket::Stream(state)) => f(state),
            _ => unreachable!("a stream's slot lives as long as its handle"),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.core.release_stream(self.key);
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({:?})", self.key)
    }
}

/// Future of [`Stream::recv`].
#[must_use = "futures do nothing unless awaited"]
pub struct Recv<'a> {
    stream: &'a Stream,
}

impl Future for Recv<'_> {
    type Output = io::Result<Option<View>>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.stream.poll_recv(cx)
    }
}

/// Future of [`Stream::drained`] and [`Stream::flushed`].
#[must_use = "futures do nothing unless awaited"]
pub struct Drained<'a> {
    stream: &'a Stream,
    low_water: Option<usize>,
}

impl Future for Drained<'_> {
    type Output = io::Result<()>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.stream.poll_below(self.low_water, cx)
    }
}
