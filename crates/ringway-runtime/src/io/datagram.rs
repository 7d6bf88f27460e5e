//! Datagram sockets.

use std::fmt;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use socket2::{SockAddr, SockRef};

use super::datagram_state::DatagramState;
use super::socket::Socket;
use super::stream_state::{Phase, core_ended};
use super::waiters::Waiters;
use super::waiting::{Waitable, poll_or_wait};
use super::{ListenOptions, Pressure};
use crate::buf::{Segment, View};
use crate::core::{Core, Timer, with_current};
use crate::driver::{BindOptions, Key, RecvClass, SendBatch};
use crate::limits;

/// A bound UDP (or Unix datagram) socket of this core.
pub struct DatagramSocket {
    core: Rc<Core>,
    key: Key,
    bound: SockAddr,
}

impl DatagramSocket {
    /// Binds an address and starts to receive.
    ///
    /// # Errors
    /// Returns the kernel's error: address in use, no permission, no such interface.
    pub fn bind(addr: &SockAddr, options: ListenOptions) -> io::Result<DatagramSocket> {
        with_current(|core| {
            let options = BindOptions {
                reuse_port: options.reuse_port,
                backlog: 0,
                only_v6: options.only_v6,
            };
            let (fd, bound) = core.driver.borrow_mut().bind_datagram(addr, options)?;
            let state = DatagramState::new(fd);
            let key = core.sockets.borrow_mut().insert(Socket::Datagram(state));
            core.register(key, fd);
            core.driver.borrow_mut().recv_start(key, RecvClass::Datagram);
            Ok(DatagramSocket { core: Rc::clone(core), key, bound })
        })
    }

    /// The bound address, with the port that the kernel assigned.
    pub fn local_addr(&self) -> &SockAddr {
        &self.bound
    }

    /// Sets options of the socket (broadcast, multicast groups …).
    ///
    /// # Errors
    /// Returns the error of `f`.
    pub fn with_socket(&self, f: impl FnOnce(SockRef<'_>) -> io::Result<()>) -> io::Result<()> {
        let fd = self.with(|state| match state.phase {
            Phase::Closing | Phase::Closed => Err(io::Error::from_raw_os_error(libc::ENOTCONN)),
            _ => Ok(state.fd),
        })?;
        self.core.with_socket(fd, f)
    }

    /// Receives the next datagram and its sender; `None` for a sender without a name (Unix).
    ///
    /// # Errors
    /// Returns the kernel's error, such as that of an earlier datagram that was refused or could
    /// not be sent, or `EMSGSIZE` for a datagram of more than 128 KiB on a Unix socket, which is
    /// lost. The socket stays usable.
    pub async fn recv_from(&self) -> io::Result<(View, Option<SockAddr>)> {
        std::future::poll_fn(|cx| self.poll_recv_from(cx)).await
    }

    /// Polls like [`recv_from`](Self::recv_from), for hand-written futures.
    pub fn poll_recv_from(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<(View, Option<SockAddr>)>> {
        poll_or_wait(self, cx, |state| &mut state.readers, |state| self.next_received(state))
    }

    fn next_received(
        &self,
        state: &mut DatagramState,
    ) -> Poll<io::Result<(View, Option<SockAddr>)>> {
        if let Some((data, from)) = state.received.pop_front() {
            state.count(data.held_bytes(), 0, &self.core.held);
            return Poll::Ready(Ok((data, from.map(|from| *from))));
        }
        if let Some(errno) = state.error.take() {
            return Poll::Ready(Err(io::Error::from_raw_os_error(errno)));
        }
        if matches!(state.phase, Phase::Closing | Phase::Closed) {
            return Poll::Ready(Err(core_ended()));
        }
        if !std::mem::replace(&mut state.receiving, true) {
            self.core.driver.borrow_mut().recv_start(self.key, RecvClass::Datagram);
        }
        Poll::Pending
    }

    /// Queues one datagram for `to`. [`Pressure::High`] means that the queue is full and the
    /// datagram was dropped, as the kernel would do: wait for [`drained`](Self::drained) to avoid
    /// that. The queue is sent even when the socket is dropped. [`Pressure::Closed`] means that the
    /// socket's core has ended.
    ///
    /// Datagrams to Unix sockets leave one after another: one whose receiver has no room holds up
    /// all behind it, for any receiver. If receivers are not trusted to read, use a socket for
    /// each.
    pub fn send_to(&self, segment: impl Into<Segment>, to: &SockAddr) -> Pressure {
        let mut datagram = Some((segment.into(), Box::new(to.clone())));
        // A refused segment is dropped here, outside the borrow.
        self.with(|state| {
            if state.phase != Phase::Open {
                return Pressure::Closed;
            }
            if state.waiting.len() >= limits::DATAGRAMS_QUEUED_MAX {
                return Pressure::High;
            }
            let Some((segment, to)) = datagram.take() else { return Pressure::High };
            let segment = segment.spared();
            state.count(0, segment.held_bytes(), &self.core.held);
            state.waiting.push_back((segment, to));
            self.core.mark_datagrams(self.key, state);
            Pressure::Low
        })
    }

    /// Waits until there is room for another datagram. If the socket's core has ended, it returns
    /// at once: sending then returns [`Pressure::Closed`].
    pub async fn drained(&self) {
        let room = |state: &mut DatagramState| match state.waiting.len() {
            limits::DATAGRAMS_QUEUED_MAX.. if state.phase == Phase::Open => Poll::Pending,
            _ => Poll::Ready(()),
        };
        std::future::poll_fn(|cx| poll_or_wait(self, cx, |state| &mut state.writers, room)).await;
    }

    /// Number of received datagrams that were dropped because nobody took them in time or they were
    /// too long.
    pub fn dropped(&self) -> u64 {
        self.with(|state| state.dropped)
    }

    /// Number of queued datagrams that the kernel did not send: too long, no route, forbidden.
    /// [`recv_from`](Self::recv_from) returns the latest error.
    pub fn unsent(&self) -> u64 {
        self.with(|state| state.unsent)
    }
}

impl Waitable for DatagramSocket {
    type State = DatagramState;

    fn with<T>(&self, f: impl FnOnce(&mut DatagramState) -> T) -> T {
        match self.core.sockets.borrow_mut().at(self.key) {
            Some(Socket::Datagram(state)) => f(state),
            _ => unreachable!("a socket's slot lives as long as its handle"),
        }
    }
}

impl Drop for DatagramSocket {
    fn drop(&mut self) {
        self.core.release_datagrams(self.key);
    }
}

impl fmt::Debug for DatagramSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatagramSocket({:?})", self.bound)
    }
}

impl Core {
    /// Releases a socket whose handle was dropped; its queue is still sent.
    fn release_datagrams(&self, key: Key) {
        let mut sockets = self.sockets.borrow_mut();
        let Some(Socket::Datagram(state)) = sockets.at(key) else {
            return;
        };
        state.has_handle = false;
        let received = std::mem::take(&mut state.received);
        let waiters = state.readers.take().and(state.writers.take());
        let bytes = received.iter().map(|(view, _)| view.held_bytes()).sum();
        state.count(bytes, 0, &self.held);
        let is_closed = state.is_closed();
        self.end_datagrams(key, state);
        let gone = if is_closed { sockets.remove(key) } else { None };
        drop(sockets);
        drop(received);
        self.retire_socket(gone);
        waiters.retire();
    }

    /// Closes a socket once its queue is sent, unless it is already ending.
    pub(crate) fn end_datagrams(&self, key: Key, state: &mut DatagramState) {
        if state.phase != Phase::Open {
            return;
        }
        state.phase = Phase::Sending;
        if state.waiting.is_empty() && state.in_flight == 0 {
            return self.close_datagrams(key, state);
        }
        let end = self.now() + limits::LINGER;
        state.timer = Some(self.start_timer(end, Timer::Socket(key)));
    }

    /// Closes a dropped socket whose time to send its queue is over.
    pub(crate) fn on_datagram_deadline(&self, key: Key, state: &mut DatagramState) {
        state.timer = None;
        self.close_datagrams(key, state);
    }

    /// Handles the outcome of a send. An error is reported to the receiver, and the socket stays
    /// usable. Returns the writers and readers to wake.
    pub(crate) fn on_datagram_sent(
        &self,
        key: Key,
        state: &mut DatagramState,
        errno: i32,
    ) -> (Waiters, Waiters) {
        state.in_flight -= 1;
        let mut readers = Waiters::default();
        if errno != 0 && state.phase == Phase::Open {
            state.unsent += 1;
            state.error = Some(errno);
            readers = state.readers.take();
        }
        let is_idle = state.waiting.is_empty() && state.in_flight == 0;
        if is_idle && state.phase == Phase::Sending {
            self.close_datagrams(key, state);
        }
        self.mark_datagrams(key, state);
        (state.writers.take(), readers)
    }

    /// Marks the socket to be served at the end of the turn, if datagrams wait and the driver has
    /// room.
    fn mark_datagrams(&self, key: Key, state: &mut DatagramState) {
        let room = state.in_flight < limits::DATAGRAMS_IN_FLIGHT_MAX;
        if room && !state.waiting.is_empty() && !std::mem::replace(&mut state.dirty, true) {
            self.mark_dirty(key);
        }
    }

    /// Hands over as many datagrams as the driver accepts.
    pub(crate) fn serve_datagrams(&self, key: Key, state: &mut DatagramState) {
        state.dirty = false;
        if !matches!(state.phase, Phase::Open | Phase::Sending) {
            return;
        }
        while state.in_flight < limits::DATAGRAMS_IN_FLIGHT_MAX
            && let Some((segment, to)) = state.waiting.pop_front()
        {
            state.count(segment.held_bytes(), 0, &self.held);
            state.in_flight += 1;
            let mut segments = self.send_memory.take_list();
            segments.push(segment);
            // Those who wait for room, and the datagrams queued here, wait for its answer.
            let urgent = !state.waiting.is_empty()
                || !state.writers.is_empty()
                || state.phase == Phase::Sending;
            let batch = SendBatch { segments, to: Some(to), urgent };
            self.driver.borrow_mut().send(key, batch);
        }
    }

    pub(super) fn close_datagrams(&self, key: Key, state: &mut DatagramState) {
        if matches!(state.phase, Phase::Closing | Phase::Closed) {
            return;
        }
        state.phase = Phase::Closing;
        if let Some(timer) = state.timer.take() {
            self.stop_timer(timer);
        }
        self.driver.borrow_mut().close(key, false);
    }
}
