//! The handle of a stream.

use std::any::Any;
use std::fmt;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
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
/// Received bytes are lent as [`View`]s, without a copy. [`send`](Self::send) only queues:
/// everything queued for a stream within a turn of the loop leaves in one gathered send at the end
/// of the turn. Dropping the stream sends the queue, then closes.
pub struct Stream {
    core: Rc<Core>,
    key: Key,
}

/// The fill level of a stream's send queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pressure {
    /// The queue is below the high-water mark.
    Low,
    /// The queue is at or above the high-water mark: wait for [`Stream::drained`] before sending
    /// much more.
    High,
    /// The stream has ended; the bytes were dropped.
    Closed,
}

impl Stream {
    pub(crate) fn of_key(core: Rc<Core>, key: Key) -> Self {
        Self { core, key }
    }

    /// Connects to a TCP or Unix address.
    ///
    /// Dropping the future closes the half-open connection. There is no timeout: wrap the call in
    /// [`timeout`](crate::timeout). If descriptors have run out, dropped streams of this core that
    /// only wait for their peers are closed first.
    ///
    /// # Errors
    /// Returns the kernel's error: refused, unreachable, no such socket file, out of descriptors.
    pub async fn connect(addr: &SockAddr) -> io::Result<Stream> {
        let start = || with_current(|core| core.start_connect(addr));
        let mut started = start();
        if started.as_ref().is_err_and(is_out_of_descriptors)
            && with_current(|core| core.close_draining())
        {
            yield_now().await; // the streams are closed at the end of the turn
            started = start();
        }
        let stream = started?;
        let connected = std::future::poll_fn(|cx| stream.poll_connected(cx)).await;
        connected.map(|()| stream)
    }

    /// Takes over a connected socket that was made elsewhere.
    ///
    /// # Errors
    /// Fails when the descriptor cannot be set to the mode that the driver needs; it is then
    /// closed.
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

    /// Receives the next bytes; `None` once the peer has finished sending.
    ///
    /// Dropping the future loses nothing. [`set_paced`](Self::set_paced) decides whether this waits
    /// while the send queue is full.
    ///
    /// # Errors
    /// Fails when the peer reset the connection or one of the stream's timeouts has passed; every
    /// later call repeats the error.
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

    /// Queues bytes without copying them; they leave at the end of the turn. Received bytes that
    /// would have to wait are copied if they would keep buffers from other streams.
    pub fn send(&self, segment: impl Into<Segment>) -> Pressure {
        let mut segment = Some(segment.into());
        // A refused segment is dropped here, outside the borrow.
        self.queue(|state, core| match segment.take() {
            Some(given) if given.as_slice().is_empty() => {
                segment = Some(given);
                Filled::Counted
            }
            Some(given) => state.outbox.push(&core.send_memory, given),
            None => Filled::Counted,
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
            // Bytes in memory that is counted already cost nothing, and the stream is marked.
            if filled == Filled::Counted && !state.is_long() {
                return Pressure::Low;
            }
            self.queued_more(state)
        })
    }

    /// Updates the counts of a longer queue; returns the pressure.
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
    /// Fails when the stream has failed; its queue is then lost.
    pub fn drained(&self) -> Drained<'_> {
        Drained { stream: self, low_water: None }
    }

    /// Waits until the kernel has accepted everything queued.
    ///
    /// # Errors
    /// Fails as [`drained`](Self::drained) does.
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

    /// Number of queued bytes that the kernel has not accepted yet; 0 when the stream has failed,
    /// since nothing more leaves it.
    pub fn queued_bytes(&self) -> usize {
        self.with(|state| if state.is_broken() { 0 } else { state.outbox.bytes() })
    }

    /// Whether the send queue has reached its high-water mark and not fallen to the low one since.
    pub fn is_congested(&self) -> bool {
        self.with(|state| state.congested && !state.is_broken())
    }

    /// Whether receiving waits for room in the send queue; see [`set_paced`](Self::set_paced).
    pub fn waits_for_room(&self) -> bool {
        self.with(|state| state.waits_for_room())
    }

    /// Ready while receiving does not wait for room, even if there is nothing to receive. For code
    /// that holds received bytes itself and has to pace their handling.
    pub fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let room = |state: &mut StreamState| match state.waits_for_room() {
            true => Poll::Pending,
            false => Poll::Ready(()),
        };
        poll_or_wait(self, cx, |state| &mut state.readers, room)
    }

    /// The reason why nothing more can be sent, if the stream has failed. Bytes that arrived before
    /// can still be received.
    pub fn failure(&self) -> Option<io::Error> {
        self.with(|state| state.end.filter(|_| state.is_broken()).map(End::to_error))
    }

    /// Whether the peer has finished or is gone, even if bytes that it sent before wait to be received. This asks
    /// the kernel, so ask only now and then. In a simulation the end is known once those bytes have arrived.
    pub fn has_peer_ended(&self) -> bool {
        let mut has_ended = self.with(|state| state.end.is_some());
        if has_ended {
            return true;
        }
        let asked = self.with_socket(|socket| {
            let mut polled = [PollFd::new(&*socket, PollFlags::RDHUP)];
            let is_known = poll(&mut polled, Some(&Timespec::default())).is_ok();
            has_ended = is_known && !polled[0].revents().is_empty();
            Ok(())
        });
        has_ended || asked.is_err()
    }

    /// Finishes sending (half-close) after the queue; receiving continues.
    pub fn shutdown(&self) {
        self.with(|state| {
            if state.shutdown == Shutdown::Open {
                state.shutdown = Shutdown::Wanted;
                self.core.mark_stream(self.key, state);
            }
        });
    }

    /// Resets the connection at the end of the turn: the queue is dropped, and waiting tasks and
    /// the peer get an error. The descriptor is closed even if the stream still has a handle.
    ///
    /// Unix sockets have no reset: their peer gets an error only if bytes that it sent were not
    /// read, and otherwise an end after the bytes that had left.
    pub fn abort(&self) {
        self.with(|state| {
            state.fail(End::Errno(libc::ECONNABORTED));
            self.core.mark_stream(self.key, state);
        });
        self.core.deliver_held(self.key);
    }

    /// Ends receiving as if the peer had finished: bytes that have arrived are still delivered,
    /// then the end. Sending remains possible.
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

    /// Sets whether receiving waits while the send queue is full: after it reaches the high-water mark
    /// and until it is below the low one, [`recv`](Self::recv) returns nothing and a callback is not
    /// called. This suits code that answers its input: a peer that does not read the answers is not
    /// read either, and cannot make the queue grow without limit. Two ends that both send on their own
    /// account must not use it, or each would wait for the other. Off by default.
    pub fn set_paced(&self, paced: bool) {
        let readers = self.with(|state| {
            state.paced = paced;
            if state.waits_for_room() { Waiters::default() } else { state.readers.take() }
        });
        readers.wake_contained();
        self.core.deliver_held(self.key);
    }

    /// Calls the callback with no bytes, unless it is being called already. For code that holds
    /// received bytes itself and can continue with them.
    pub fn prompt(&self) {
        self.core.prompt(self.key);
    }

    /// Keeps `guard` until the descriptor is closed, which may be long after the stream was
    /// dropped, since the queue is sent first. Suits a permit that counts open connections. The
    /// guard is dropped on the stream's core.
    pub fn hold_until_closed(&self, guard: impl Any) {
        let mut guard: Option<Box<dyn Any>> = Some(Box::new(guard));
        self.with(|state| {
            if state.phase != Phase::Closed {
                state.guards.extend(guard.take());
            }
        });
    }

    /// Counts `bytes` as held for this stream, beside what it holds itself. A later call replaces the
    /// number; dropping the stream ends it. For code that keeps received bytes until they are wanted.
    pub fn count_kept(&self, bytes: usize) {
        self.with(|state| {
            state.kept = bytes;
            state.count(&self.core.held);
        });
    }

    /// Replaces the limits and timeouts.
    pub fn set_limits(&self, limits: Rc<StreamLimits>) {
        let (former, writers) =
            self.with(|state| (std::mem::replace(&mut state.limits, limits), state.writers.take()));
        drop(former);
        self.core.schedule_deadlines(self.key);
        writers.wake_contained();
    }

    /// The time at which bytes last moved in either direction.
    pub fn last_active(&self) -> Instant {
        self.with(|state| state.clocks.last_active())
    }

    /// The address of the peer.
    ///
    /// # Errors
    /// Fails when the connection is gone, or the driver does not know the address.
    pub fn peer_addr(&self) -> io::Result<SockAddr> {
        let fd = self.open_fd()?;
        self.core.driver.borrow().peer_addr(fd)
    }

    /// The address of our end.
    ///
    /// # Errors
    /// Fails as [`peer_addr`](Self::peer_addr) does.
    pub fn local_addr(&self) -> io::Result<SockAddr> {
        let fd = self.open_fd()?;
        self.core.driver.borrow().local_addr(fd)
    }

    /// Sets options of the socket (`TCP_NODELAY`, keep-alive …). Does nothing under the simulated
    /// driver, which has no sockets.
    ///
    /// # Errors
    /// Returns the error of `f`, or `ENOTCONN` when the connection is gone.
    pub fn with_socket(&self, f: impl FnOnce(SockRef<'_>) -> io::Result<()>) -> io::Result<()> {
        let fd = self.open_fd()?;
        self.core.with_socket(fd, f)
    }

    /// The descriptor, while nobody else can get its number.
    fn open_fd(&self) -> io::Result<RawFd> {
        self.with(|state| match state.phase {
            Phase::Closing | Phase::Closed => Err(io::Error::from_raw_os_error(libc::ENOTCONN)),
            _ => Ok(state.fd),
        })
    }

    /// Hands the stream to a callback that is called when operations complete, without a task:
    /// `call` gets every piece of data and finally the end.
    pub fn on_incoming(self, mut call: impl FnMut(&Stream, Incoming) -> Next + 'static) {
        let (core, key) = (Rc::clone(&self.core), self.key);
        core.set_callback(key, Box::new(move |incoming| call(&self, incoming)));
    }

    /// As [`on_incoming`](Self::on_incoming), for a stream that others use too: `call` must own the
    /// owner of the stream, and is dropped when it has asked to close.
    ///
    /// A callback that is set after the end is also told of it, up to a limit: the ninth is dropped
    /// without a call, and the stream is aborted.
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
