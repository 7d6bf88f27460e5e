//! Datagram sockets.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use socket2::{SockAddr, SockRef};

use super::{ListenOptions, Pressure, Socket};
use crate::buf::{Segment, View};
use crate::core::{Core, with_current};
use crate::driver::{BindOptions, Key, RecvClass, RecvEnd, SendBatch};
use crate::limits;

/// A bound UDP (or Unix datagram) socket of this core.
pub struct DatagramSocket {
    core: Rc<Core>,
    key: Key,
    bound: SockAddr,
}

/// What the core keeps of a datagram socket.
pub(crate) struct DatagramState {
    pub(crate) fd: RawFd,
    received: VecDeque<(View, Option<Box<SockAddr>>)>,
    /// Datagrams that were dropped since nobody took them in time.
    dropped: u64,
    receiving: bool,
    error: Option<i32>,
    reader: Option<Waker>,
    pub(crate) writer: Option<Waker>,
    waiting: VecDeque<(Segment, Box<SockAddr>)>,
    in_flight: bool,
}

impl DatagramSocket {
    /// Binds an address and begins to receive.
    ///
    /// # Errors
    /// The kernel's: address in use, no permission, no such interface.
    pub fn bind(addr: &SockAddr, options: ListenOptions) -> io::Result<DatagramSocket> {
        with_current(|core| {
            let options = BindOptions {
                reuse_port: options.reuse_port,
                backlog: 0,
                only_v6: options.only_v6,
            };
            let mut driver = core.driver.borrow_mut();
            let (fd, bound) = driver.bind_datagram(addr, options)?;
            let state = DatagramState::new(fd);
            let key = core.sockets.borrow_mut().insert(Socket::Datagram(state));
            driver.register(key, fd);
            driver.recv_start(key, RecvClass::Datagram);
            drop(driver);
            Ok(DatagramSocket { core: Rc::clone(core), key, bound })
        })
    }

    /// The address that the kernel gave, its port included.
    pub fn local_addr(&self) -> &SockAddr {
        &self.bound
    }

    /// Sets options of the socket (broadcast, multicast groups …).
    ///
    /// # Errors
    /// What `f` returns.
    pub fn with_socket(&self, f: impl FnOnce(SockRef<'_>) -> io::Result<()>) -> io::Result<()> {
        let fd = self.with(|state| state.fd);
        self.core.with_socket(fd, f)
    }

    fn with<T>(&self, f: impl FnOnce(&mut DatagramState) -> T) -> T {
        match self.core.sockets.borrow_mut().at(self.key) {
            Some(Socket::Datagram(state)) => f(state),
            _ => unreachable!("a socket's slot lives as long as its handle"),
        }
    }

    /// The next datagram and its sender; `None` for a sender without a name (Unix).
    ///
    /// # Errors
    /// The kernel's, such as a refused earlier datagram; the socket goes on after it.
    pub async fn recv_from(&self) -> io::Result<(View, Option<SockAddr>)> {
        std::future::poll_fn(|cx| self.poll_recv_from(cx)).await
    }

    /// As [`recv_from`](Self::recv_from), for hand-written futures.
    pub fn poll_recv_from(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<(View, Option<SockAddr>)>> {
        let (poll, restart) = self.with(|state| {
            if let Some((data, from)) = state.received.pop_front() {
                return (Poll::Ready(Ok((data, from.map(|from| *from)))), false);
            }
            if let Some(errno) = state.error.take() {
                return (Poll::Ready(Err(io::Error::from_raw_os_error(errno))), false);
            }
            state.reader = Some(cx.waker().clone());
            let restart = !std::mem::replace(&mut state.receiving, true);
            (Poll::Pending, restart)
        });
        if restart {
            self.core.driver.borrow_mut().recv_start(self.key, RecvClass::Datagram);
        }
        poll
    }

    /// Queues one datagram for `to`. At [`Pressure::High`] the queue is full and the datagram was
    /// dropped, as the kernel would: wait for [`drained`](Self::drained) to avoid that.
    pub fn send_to(&self, segment: impl Into<Segment>, to: &SockAddr) -> Pressure {
        let segment = segment.into();
        let dirty = self.with(|state| {
            if state.waiting.len() >= limits::DATAGRAMS_QUEUED_MAX {
                return None;
            }
            state.waiting.push_back((segment, Box::new(to.clone())));
            Some(state.waiting.len() == 1 && !state.in_flight)
        });
        match dirty {
            None => Pressure::High,
            Some(first) => {
                if first {
                    self.core.mark_dirty(self.key);
                }
                Pressure::Low
            }
        }
    }

    /// Waits until there is room for another datagram.
    pub async fn drained(&self) {
        std::future::poll_fn(|cx| {
            self.with(|state| {
                if state.waiting.len() < limits::DATAGRAMS_QUEUED_MAX {
                    return Poll::Ready(());
                }
                state.writer = Some(cx.waker().clone());
                Poll::Pending
            })
        })
        .await;
    }

    /// Received datagrams that were dropped since nobody took them in time.
    pub fn dropped(&self) -> u64 {
        self.with(|state| state.dropped)
    }
}

impl Drop for DatagramSocket {
    fn drop(&mut self) {
        let (received, waiting) = self.with(|state| {
            (std::mem::take(&mut state.received), std::mem::take(&mut state.waiting))
        });
        self.core.driver.borrow_mut().close(self.key, false);
        // Outside of every borrow: a segment's destructor may be a user's.
        drop((received, waiting));
    }
}

impl fmt::Debug for DatagramSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatagramSocket({:?})", self.bound)
    }
}

impl DatagramState {
    fn new(fd: RawFd) -> Self {
        Self {
            fd,
            received: VecDeque::new(),
            dropped: 0,
            receiving: true,
            error: None,
            reader: None,
            writer: None,
            waiting: VecDeque::new(),
            in_flight: false,
        }
    }

    /// Takes a datagram in; the reader to wake.
    pub(crate) fn push(&mut self, data: View, from: Option<Box<SockAddr>>) -> Option<Waker> {
        if self.received.len() >= limits::DATAGRAMS_HELD_MAX {
            self.dropped += 1;
            return None;
        }
        let held = if self.received.is_empty() { data } else { View::copied(&data) };
        self.received.push_back((held, from));
        self.reader.take()
    }

    pub(crate) fn on_recv_ended(&mut self, end: RecvEnd) -> Option<Waker> {
        self.receiving = false;
        if let RecvEnd::Failed(errno) = end {
            self.error = Some(errno);
        }
        self.reader.take()
    }

    /// A datagram was sent (or refused, which a datagram's sender does not learn in time); whether
    /// another one waits.
    pub(crate) fn on_sent(&mut self, _bytes: usize) -> bool {
        self.in_flight = false;
        !self.waiting.is_empty()
    }

    pub(crate) fn take_batch(&mut self, core: &Core) -> Option<SendBatch> {
        if self.in_flight {
            return None;
        }
        let (segment, to) = self.waiting.pop_front()?;
        self.in_flight = true;
        let mut segments = core.take_list();
        segments.push(segment);
        Some(SendBatch { segments, to: Some(to), urgent: true })
    }
}
