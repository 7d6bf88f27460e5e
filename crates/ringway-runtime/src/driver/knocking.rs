//! Retries of operations for which the kernel reports no readiness.
//!
//! A Unix datagram whose receiver's queue is full, and a connect to a Unix listener whose backlog
//! is full, are refused, and nothing reports when there is room: the sender's own socket always
//! counts as writable. So they are retried from time to time until they succeed, fail in another
//! way, or their key is closed. The operations of one key keep their order.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::RawFd;
use std::time::Instant;

use socket2::{SockAddr, SockRef};

use super::{DriverCounters, Event, Key, SendBatch, Wait, sockets};
use crate::limits;

/// The operations that wait for room at a peer.
pub(super) struct Knocking {
    /// Keys with operations to retry.
    doors: VecDeque<Door>,
    /// The time of the next retry.
    next: Instant,
}

struct Door {
    key: Key,
    fd: RawFd,
    asks: VecDeque<Ask>,
}

enum Ask {
    Send(SendBatch),
    Connect(Box<SockAddr>),
}

impl Knocking {
    pub(super) fn new() -> Self {
        Self { doors: VecDeque::new(), next: Instant::now() }
    }

    /// Sends a datagram to a Unix address; `None` if it has to wait.
    pub(super) fn send(
        &mut self,
        key: Key,
        fd: RawFd,
        batch: SendBatch,
        counters: &mut DriverCounters,
    ) -> Option<Event> {
        self.ask(key, fd, Ask::Send(batch), counters)
    }

    /// Connects to a Unix address; `None` if its backlog is full.
    pub(super) fn connect(
        &mut self,
        key: Key,
        fd: RawFd,
        to: &SockAddr,
        counters: &mut DriverCounters,
    ) -> Option<Event> {
        self.ask(key, fd, Ask::Connect(Box::new(to.clone())), counters)
    }

    fn ask(
        &mut self,
        key: Key,
        fd: RawFd,
        ask: Ask,
        counters: &mut DriverCounters,
    ) -> Option<Event> {
        if let Some(door) = self.doors.iter_mut().find(|door| door.key == key) {
            door.asks.push_back(ask);
            return None;
        }
        let ask = match ask.knock(key, fd, counters) {
            Ok(event) => return Some(event),
            Err(refused) => refused,
        };
        if self.doors.is_empty() {
            self.next = Instant::now() + limits::KNOCK_INTERVAL;
        }
        self.doors.push_back(Door { key, fd, asks: VecDeque::from([ask]) });
        None
    }

    /// Cancels the operations of a key that is being closed.
    pub(super) fn cancel(&mut self, key: Key, events: &mut Vec<Event>) {
        let Some(at) = self.doors.iter().position(|door| door.key == key) else { return };
        let asks = self.doors.remove(at).map(|door| door.asks).unwrap_or_default();
        events.extend(asks.into_iter().filter_map(|ask| match ask {
            Ask::Send(batch) => Some(batch.ended(key, 0, libc::ECANCELED)),
            Ask::Connect(_) => None,
        }));
    }

    /// Limits the sleep of a turn to the time of the next retry.
    #[inline]
    pub(super) fn shorten(&self, wait: Wait) -> Wait {
        if self.doors.is_empty() { wait } else { self.until_next(wait) }
    }

    #[cold]
    fn until_next(&self, wait: Wait) -> Wait {
        let rest = self.next.saturating_duration_since(Instant::now());
        wait.no_longer_than(rest)
    }

    /// Retries the operations if it is time to.
    #[inline]
    pub(super) fn retry(&mut self, counters: &mut DriverCounters, events: &mut Vec<Event>) {
        if !self.doors.is_empty() {
            self.knock_at_all(counters, events);
        }
    }

    #[cold]
    fn knock_at_all(&mut self, counters: &mut DriverCounters, events: &mut Vec<Event>) {
        if Instant::now() < self.next {
            return;
        }
        for _ in 0..self.doors.len().min(limits::KNOCKS_MAX) {
            let Some(mut door) = self.doors.pop_front() else { break };
            while let Some(ask) = door.asks.pop_front() {
                match ask.knock(door.key, door.fd, counters) {
                    Ok(event) => events.push(event),
                    Err(refused) => {
                        door.asks.push_front(refused);
                        self.doors.push_back(door);
                        break;
                    }
                }
            }
        }
        self.next = Instant::now() + limits::KNOCK_INTERVAL;
    }
}

impl Ask {
    /// Tries the operation once; returns its event, or itself if there is still no room.
    fn knock(self, key: Key, fd: RawFd, counters: &mut DriverCounters) -> Result<Event, Ask> {
        counters.syscalls += 1;
        let socket = sockets::borrow(fd);
        let answer = match &self {
            Ask::Send(batch) => send(&SockRef::from(&socket), batch),
            Ask::Connect(to) => {
                sockets::at_once(fd, || SockRef::from(&socket).connect(to)).map(|()| 0)
            }
        };
        let (bytes, errno) = match answer {
            Ok(bytes) => (bytes, 0),
            Err(error) => match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => return Err(self),
                errno => (0, errno.unwrap_or(libc::EIO)),
            },
        };
        Ok(match self {
            Ask::Send(batch) => batch.ended(key, bytes, errno),
            Ask::Connect(_) => Event::Connected { key, errno },
        })
    }
}

fn send(socket: &SockRef<'_>, batch: &SendBatch) -> io::Result<usize> {
    const FLAGS: i32 = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    let to = batch.to.as_deref().ok_or(io::ErrorKind::InvalidInput)?;
    match batch.segments.as_slice() {
        [only] => socket.send_to_vectored_with_flags(&[IoSlice::new(only.as_slice())], to, FLAGS),
        several => {
            let slices: Vec<_> =
                several.iter().map(|segment| IoSlice::new(segment.as_slice())).collect();
            socket.send_to_vectored_with_flags(&slices, to, FLAGS)
        }
    }
}
