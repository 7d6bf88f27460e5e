//! Listening sockets.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{IntoRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use socket2::{SockAddr, SockRef};

use super::{Socket, Stream, StreamLimits};
use crate::core::{Core, Timer, try_with_current, with_current};
use crate::driver::sockets;
use crate::driver::{BindOptions, Key};
use crate::limits;

/// Options of a listening socket.
#[derive(Clone, Copy, Debug)]
pub struct ListenOptions {
    /// Several sockets share the address; the kernel spreads connections over them.
    pub reuse_port: bool,
    /// Connections that the kernel completes before we accept them.
    pub backlog: i32,
    /// An IPv6 wildcard takes IPv6 only.
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

/// What the core keeps of a listener.
pub(crate) struct ListenerState {
    fd: RawFd,
    /// Accepted and not yet taken.
    ready: VecDeque<Accepted>,
    armed: bool,
    /// Stopped since too many wait, or since descriptors ran out.
    paused: bool,
    error: Option<i32>,
    acceptor: Option<Waker>,
}

/// A connection that was accepted and has no owner yet; can be given to another core.
pub struct Accepted {
    fd: Option<RawFd>,
    simulated: bool,
}

impl Listener {
    /// Binds a TCP or Unix address and begins to accept.
    ///
    /// # Errors
    /// The kernel's: address in use, no permission, no such interface.
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

    /// Takes over a listening socket made elsewhere, and begins to accept.
    ///
    /// # Errors
    /// When the descriptor cannot be set to the mode that the driver needs, or is no socket.
    pub fn adopt(socket: OwnedFd) -> io::Result<Listener> {
        let bound = SockRef::from(&socket).local_addr()?;
        with_current(|core| {
            let fd = socket.into_raw_fd();
            let mut driver = core.driver.borrow_mut();
            if let Err(error) = driver.adopt(fd) {
                driver.close_unregistered(fd);
                return Err(error);
            }
            drop(driver);
            Ok(Self::of_descriptor(core, fd, bound))
        })
    }

    fn of_descriptor(core: &Rc<Core>, fd: RawFd, bound: SockAddr) -> Self {
        let state = ListenerState {
            fd,
            ready: VecDeque::new(),
            armed: true,
            paused: false,
            error: None,
            acceptor: None,
        };
        let key = core.sockets.borrow_mut().insert(Socket::Listener(state));
        let mut driver = core.driver.borrow_mut();
        driver.register(key, fd);
        driver.accept_start(key);
        drop(driver);
        Listener { core: Rc::clone(core), key, bound }
    }

    /// The address that the kernel gave, its port included.
    pub fn local_addr(&self) -> &SockAddr {
        &self.bound
    }

    /// Sets options that accepted connections inherit.
    ///
    /// # Errors
    /// What `f` returns.
    pub fn with_socket(&self, f: impl FnOnce(SockRef<'_>) -> io::Result<()>) -> io::Result<()> {
        let fd = self.with(|state| state.fd);
        self.core.with_socket(fd, f)
    }

    fn with<T>(&self, f: impl FnOnce(&mut ListenerState) -> T) -> T {
        match self.core.sockets.borrow_mut().at(self.key) {
            Some(Socket::Listener(state)) => f(state),
            _ => unreachable!("a listener's slot lives as long as its handle"),
        }
    }

    /// The next connection.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`, `ENOMEM` and the like: accepting pauses and goes on by itself after a
    /// moment, so the caller may log and call again.
    pub async fn accept(&self) -> io::Result<Accepted> {
        std::future::poll_fn(|cx| self.poll_accept(cx)).await
    }

    /// As [`accept`](Self::accept), for hand-written futures.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        let (poll, resume) = self.with(|state| {
            if let Some(accepted) = state.ready.pop_front() {
                let resume = state.paused && state.ready.is_empty() && state.error.is_none();
                return (Poll::Ready(Ok(accepted)), resume);
            }
            if let Some(errno) = state.error.take() {
                return (Poll::Ready(Err(io::Error::from_raw_os_error(errno))), false);
            }
            state.acceptor = Some(cx.waker().clone());
            (Poll::Pending, state.paused)
        });
        if resume {
            self.core.resume_accept(self.key);
        }
        poll
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let ready = self.with(|state| std::mem::take(&mut state.ready));
        self.core.driver.borrow_mut().close(self.key, false);
        drop(ready);
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Listener({:?})", self.bound)
    }
}

impl ListenerState {
    /// Takes an accepted descriptor in; the acceptor to wake.
    pub(crate) fn push(&mut self, fd: RawFd, simulated: bool) -> Option<Waker> {
        self.ready.push_back(Accepted { fd: Some(fd), simulated });
        self.acceptor.take()
    }

    /// Whether so many wait that the kernel's own queue should hold the rest.
    pub(crate) fn is_full(&self) -> bool {
        self.ready.len() >= limits::ACCEPTED_MAX
    }

    /// The driver has stopped accepting; the acceptor to wake.
    pub(crate) fn ended(&mut self, errno: i32) -> Option<Waker> {
        self.armed = false;
        self.paused = true;
        if errno != libc::ECANCELED {
            self.error = Some(errno);
        }
        self.acceptor.take()
    }
}

impl Core {
    /// Stops accepting while too many connections wait for the acceptor.
    pub(crate) fn pause_accept(&self, key: Key) {
        if let Some(Socket::Listener(state)) = self.sockets.borrow_mut().at(key)
            && state.armed
            && !state.paused
        {
            state.paused = true;
            self.driver.borrow_mut().accept_stop(key);
        }
    }

    /// Accepts again; at once, or after a moment when descriptors had run out.
    pub(crate) fn resume_accept(&self, key: Key) {
        let mut sockets = self.sockets.borrow_mut();
        let Some(Socket::Listener(state)) = sockets.at(key) else {
            return;
        };
        if !state.armed {
            state.armed = true;
            state.paused = false;
            self.driver.borrow_mut().accept_start(key);
        }
    }

    /// Descriptors or memory ran out: freed ones cannot be waited for, so look again later.
    pub(crate) fn resume_accept_later(&self, key: Key) {
        self.start_timer(self.now() + limits::ACCEPT_PAUSE, Timer::Accept(key));
    }
}

impl Accepted {
    /// Makes the connection a stream of the current core.
    ///
    /// # Errors
    /// When the descriptor cannot be set to the mode that the driver needs.
    pub fn into_stream(mut self, limits: &Rc<StreamLimits>) -> io::Result<Stream> {
        let fd = self.fd.take().expect("taken once, by value");
        with_current(|core| Ok(core.open_stream(fd, limits)))
    }

    /// The peer's address, asked of the kernel.
    ///
    /// # Errors
    /// When the peer is gone already.
    pub fn peer_addr(&self) -> io::Result<SockAddr> {
        let fd = self.fd.expect("present until taken");
        with_current(|core| core.driver.borrow().peer_addr(fd))
    }
}

impl Drop for Accepted {
    fn drop(&mut self) {
        let Some(fd) = self.fd.take() else { return };
        if self.simulated {
            try_with_current(|core| core.driver.borrow_mut().close_unregistered(fd));
        } else {
            sockets::close(fd);
        }
    }
}

impl fmt::Debug for Accepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Accepted({:?})", self.fd)
    }
}
