//! Listening sockets.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::task::{Context, Poll};

use socket2::{SockAddr, SockRef};

use super::closing::is_out_of_descriptors;
use super::listener_state::{Accepting, ListenerState, Origin};
use super::socket::Socket;
use super::stream_state::core_ended;
use super::waiters::Waiters;
use super::waiting::{Waitable, poll_or_wait};
use super::{Stream, StreamLimits};
use crate::core::{Core, Timer, try_with_current, with_current};
use crate::driver::sockets;
use crate::driver::{BindOptions, Key};
use crate::limits;

/// Options of a listening socket.
#[derive(Clone, Copy, Debug)]
pub struct ListenOptions {
    /// Whether several sockets share the address, over which the kernel spreads connections.
    pub reuse_port: bool,
    /// Number of connections that the kernel completes before they are accepted.
    pub backlog: i32,
    /// Whether an IPv6 wildcard accepts IPv6 only.
    pub only_v6: bool,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self { reuse_port: false, backlog: limits::BACKLOG, only_v6: false }
    }
}

/// Accepts connections on one core.
pub struct Listener {
    core: Rc<Core>,
    key: Key,
    bound: SockAddr,
}

/// An accepted connection without an owner, which can be given to another core.
pub struct Accepted {
    /// The descriptor; `None` once it has an owner.
    fd: Option<RawFd>,
    /// The core whose driver made the descriptor.
    made_by: Origin,
}

impl Listener {
    /// Binds a TCP or Unix address and starts to accept.
    ///
    /// # Errors
    /// Returns the kernel's error: address in use, no permission, no such interface.
    pub fn bind(addr: &SockAddr, options: ListenOptions) -> io::Result<Listener> {
        with_current(|core| {
            let options = BindOptions {
                reuse_port: options.reuse_port,
                backlog: options.backlog,
                only_v6: options.only_v6,
            };
            let (fd, bound) = core.driver.borrow_mut().listen(addr, options)?;
            Ok(Self::of_descriptor(core, fd, bound))
        })
    }

    /// Takes over a listening socket that was made elsewhere, and starts to accept.
    ///
    /// # Errors
    /// Fails when the descriptor is not a socket, or cannot be set to the mode that the driver
    /// needs.
    pub fn adopt(socket: OwnedFd) -> io::Result<Listener> {
        let bound = SockRef::from(&socket).local_addr()?;
        with_current(|core| {
            core.driver.borrow_mut().adopt(socket.as_raw_fd())?;
            let fd = socket.into_raw_fd();
            Ok(Self::of_descriptor(core, fd, bound))
        })
    }

    fn of_descriptor(core: &Rc<Core>, fd: RawFd, bound: SockAddr) -> Self {
        let state = ListenerState {
            fd,
            made_by: core.origin(),
            ready: VecDeque::new(),
            accepting: Accepting::On,
            error: None,
            acceptors: Waiters::default(),
            timer: None,
            has_handle: true,
        };
        let key = core.sockets.borrow_mut().insert(Socket::Listener(state));
        core.register(key, fd);
        core.driver.borrow_mut().accept_start(key);
        Listener { core: Rc::clone(core), key, bound }
    }

    /// The bound address, with the port that the kernel assigned.
    pub fn local_addr(&self) -> &SockAddr {
        &self.bound
    }

    /// Sets options that accepted connections inherit.
    ///
    /// # Errors
    /// Returns the error of `f`.
    pub fn with_socket(&self, f: impl FnOnce(SockRef<'_>) -> io::Result<()>) -> io::Result<()> {
        let fd = self.with(|state| match state.accepting.is_over() {
            true => Err(io::Error::from_raw_os_error(libc::ENOTCONN)),
            false => Ok(state.fd),
        })?;
        self.core.with_socket(fd, f)
    }

    /// Accepts the next connection.
    ///
    /// # Errors
    /// Returns `EMFILE`, `ENFILE`, `ENOMEM` and the like when resources run out, once per pause:
    /// accepting pauses and continues by itself after a moment, so the caller can log the error and
    /// call again.
    pub async fn accept(&self) -> io::Result<Accepted> {
        std::future::poll_fn(|cx| self.poll_accept(cx)).await
    }

    /// Polls like [`accept`](Self::accept), for hand-written futures.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        poll_or_wait(self, cx, |state| &mut state.acceptors, |state| self.next_accepted(state))
    }

    fn next_accepted(&self, state: &mut ListenerState) -> Poll<io::Result<Accepted>> {
        let accepted = state.ready.pop_front().map(|fd| Accepted::new(fd, state.made_by));
        if state.accepting == Accepting::Full && state.ready.is_empty() {
            self.core.start_accepting(self.key, state);
        }
        match (accepted, state.error.take()) {
            (Some(accepted), error) => {
                state.error = error;
                Poll::Ready(Ok(accepted))
            }
            (None, Some(errno)) => Poll::Ready(Err(io::Error::from_raw_os_error(errno))),
            (None, None) if state.accepting.is_over() => Poll::Ready(Err(core_ended())),
            (None, None) => Poll::Pending,
        }
    }
}

impl Waitable for Listener {
    type State = ListenerState;

    fn with<T>(&self, f: impl FnOnce(&mut ListenerState) -> T) -> T {
        match self.core.sockets.borrow_mut().at(self.key) {
            Some(Socket::Listener(state)) => f(state),
            _ => unreachable!("a listener's slot lives as long as its handle"),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.core.release_listener(self.key);
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Listener({:?})", self.bound)
    }
}

impl Core {
    fn release_listener(&self, key: Key) {
        let mut sockets = self.sockets.borrow_mut();
        let Some(Socket::Listener(state)) = sockets.at(key) else {
            return;
        };
        state.has_handle = false;
        let acceptors = state.acceptors.take();
        let (ready, made_by) = (std::mem::take(&mut state.ready), state.made_by);
        let is_closed = state.is_closed();
        self.end_listener(key, state);
        let gone = if is_closed { sockets.remove(key) } else { None };
        drop(sockets);
        ready.into_iter().for_each(|fd| drop(Accepted::new(fd, made_by)));
        self.retire_socket(gone);
        acceptors.retire();
    }

    /// Closes a listener, unless it is closed already.
    pub(crate) fn end_listener(&self, key: Key, state: &mut ListenerState) {
        if state.accepting.is_over() {
            return;
        }
        state.accepting = Accepting::Closing;
        if let Some(timer) = state.timer.take() {
            self.stop_timer(timer);
        }
        self.driver.borrow_mut().close(key, false);
    }

    fn start_accepting(&self, key: Key, state: &mut ListenerState) {
        state.accepting = Accepting::On;
        self.driver.borrow_mut().accept_start(key);
    }

    /// Adds an accepted connection. When too many wait for an acceptor, the rest stays in the
    /// kernel's queue.
    pub(crate) fn take_accepted(&self, key: Key, fd: RawFd) -> Waiters {
        let mut sockets = self.sockets.borrow_mut();
        match sockets.at(key) {
            Some(Socket::Listener(state)) if !state.accepting.is_over() => {
                state.ready.push_back(fd);
                if state.accepting == Accepting::On && state.ready.len() >= limits::ACCEPTED_MAX {
                    state.accepting = Accepting::Stopping;
                    self.driver.borrow_mut().accept_stop(key);
                }
                state.acceptors.take()
            }
            _ => {
                drop(sockets);
                drop(Accepted::new(fd, self.origin()));
                Waiters::default()
            }
        }
    }

    /// Handles the end of accepting, which was asked for or caused by an error.
    pub(crate) fn end_accepting(&self, key: Key, errno: i32) -> Waiters {
        let mut sockets = self.sockets.borrow_mut();
        let Some(Socket::Listener(state)) = sockets.at(key) else {
            return Waiters::default();
        };
        match (state.accepting, errno) {
            (accepting, _) if accepting.is_over() => return Waiters::default(),
            (_, libc::ECANCELED) if state.ready.is_empty() => self.start_accepting(key, state),
            (_, libc::ECANCELED) => state.accepting = Accepting::Full,
            _ => {
                state.accepting = Accepting::Resting;
                state.error = Some(errno);
                let end = self.now() + limits::ACCEPT_PAUSE;
                state.timer = Some(self.start_timer(end, Timer::Socket(key)));
            }
        }
        let acceptors = state.acceptors.take();
        drop(sockets);
        if is_out_of_descriptors(&io::Error::from_raw_os_error(errno)) {
            self.close_draining();
        }
        acceptors
    }

    /// Continues accepting after a pause.
    pub(crate) fn on_rested(&self, key: Key, state: &mut ListenerState) {
        state.timer = None;
        if state.accepting == Accepting::Resting {
            state.error = None;
            self.start_accepting(key, state);
        }
    }

    fn origin(&self) -> Origin {
        Origin { core: self.number(), simulated: self.driver.borrow().is_simulated() }
    }
}

impl Accepted {
    fn new(fd: RawFd, made_by: Origin) -> Self {
        Self { fd: Some(fd), made_by }
    }

    /// Makes the connection a stream of the current core.
    ///
    /// # Errors
    /// Fails when the descriptor cannot be set to the mode that the driver needs, or belongs to
    /// another simulation.
    pub fn into_stream(mut self, limits: &Rc<StreamLimits>) -> io::Result<Stream> {
        with_current(|core| {
            let origin = core.origin();
            let fd = self.fd.expect("present until taken");
            if origin != self.made_by {
                self.ensure_real_for(core)?;
                core.driver.borrow_mut().adopt(fd)?;
            }
            self.fd = None;
            Ok(core.open_stream(fd, limits))
        })
    }

    /// The address of the peer, as the kernel reports it.
    ///
    /// # Errors
    /// Fails when the peer is gone already, or the connection belongs to another simulation.
    pub fn peer_addr(&self) -> io::Result<SockAddr> {
        let fd = self.fd.expect("present until taken");
        with_current(|core| {
            self.ensure_real_for(core)?;
            core.driver.borrow().peer_addr(fd)
        })
    }
}

impl Accepted {
    /// # Errors
    /// Fails when the descriptor belongs to another simulation, where its number means something
    /// else.
    fn ensure_real_for(&self, core: &Core) -> io::Result<()> {
        let origin = core.origin();
        if origin == self.made_by || !(origin.simulated || self.made_by.simulated) {
            return Ok(());
        }
        let why = "a simulated connection can only be used on the core that accepted it";
        Err(io::Error::new(io::ErrorKind::Unsupported, why))
    }
}

impl Drop for Accepted {
    fn drop(&mut self) {
        let Some(fd) = self.fd.take() else { return };
        if !self.made_by.simulated {
            return sockets::close(fd);
        }
        // On another core its number means something else.
        let close = |core: &Rc<Core>| {
            if core.origin() == self.made_by {
                core.driver.borrow_mut().close_unregistered(fd);
            }
        };
        try_with_current(close);
    }
}

impl fmt::Debug for Accepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Accepted({:?})", self.fd)
    }
}
