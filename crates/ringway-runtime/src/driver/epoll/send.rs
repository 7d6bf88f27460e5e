//! Sending a batch through a non-blocking socket.

use std::io::IoSlice;
use std::os::fd::RawFd;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, SocketType, send, sendmsg, sockopt};
use socket2::{SockAddr, SockRef};

use super::{Epoll, handle};
use crate::buf::Segment;
use crate::driver::sockets;
use crate::driver::{DriverCounters, Event, Key, SendBatch};
use crate::limits;

impl Epoll {
    #[cold]
    pub(super) fn resume_send(&mut self, key: Key, events: &mut Vec<Event>) {
        while let Some(outgoing) = self.handles[key.index()].outgoing.take() {
            events.extend(self.advance_send(key, outgoing));
            let handle = &mut self.handles[key.index()];
            if handle.outgoing.is_some() {
                return;
            }
            handle.outgoing = handle.queued.pop_front().map(Outgoing::new);
        }
    }

    /// Sends as much as the socket accepts; `None` if that is nothing more.
    pub(super) fn advance_send(&mut self, key: Key, mut outgoing: Outgoing) -> Option<Event> {
        let fd = self.handles[key.index()].fd;
        let errno = match outgoing.advance(fd, &mut self.counters) {
            Progress::Done => 0,
            Progress::Failed(errno) => errno.raw_os_error(),
            Progress::Paused => {
                let bytes = outgoing.tell();
                self.handles[key.index()].outgoing = Some(outgoing);
                self.requeue(key);
                return Some(Event::Progress { key, bytes });
            }
            Progress::Blocked => match self.await_writable(key) {
                Ok(()) => {
                    let bytes = outgoing.tell();
                    let waited = std::mem::replace(&mut outgoing.waits, true);
                    self.handles[key.index()].outgoing = Some(outgoing);
                    return (bytes > 0 || !waited).then_some(Event::Progress { key, bytes });
                }
                Err(errno) => errno.raw_os_error(),
            },
        };
        if std::mem::take(&mut self.handles[key.index()].shutdown_after) {
            self.counters.syscalls += 1;
            // The peer may have closed meanwhile; then there is nothing left to end.
            let _too_late = sockets::shutdown_write(fd);
        }
        Some(outgoing.finish(key, errno))
    }

    /// Makes epoll report when the socket is writable.
    pub(super) fn await_writable(&mut self, key: Key) -> Result<(), Errno> {
        self.handles[key.index()].writable = false;
        self.watch(key, handle::READ | EventFlags::OUT)
    }
}

/// A batch with its progress.
pub(super) struct Outgoing {
    batch: SendBatch,
    /// The first segment that is not sent completely.
    segment: usize,
    /// How many bytes of that segment are sent.
    offset: usize,
    /// Bytes accepted by the kernel and not reported yet.
    untold: usize,
    /// Whether the owner knows that this batch waits for its peer.
    waits: bool,
}

/// The outcome of an attempt to send.
pub(super) enum Progress {
    Done,
    Blocked,
    /// The batch's share of the turn is used up.
    Paused,
    Failed(Errno),
}

impl Outgoing {
    pub(super) fn new(batch: SendBatch) -> Self {
        debug_assert!(!batch.segments.is_empty());
        Self { batch, segment: 0, offset: 0, untold: 0, waits: false }
    }

    /// Sends until everything or its share is accepted, the socket accepts no more, or it fails.
    pub(super) fn advance(&mut self, fd: RawFd, counters: &mut DriverCounters) -> Progress {
        let mut share = limits::SUBMISSION_BYTES_MAX;
        loop {
            counters.syscalls += 1;
            let (sent, offered) = match self.send_once(fd) {
                Ok(sent_and_offered) => sent_and_offered,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Progress::Blocked,
                Err(error) => return Progress::Failed(error),
            };
            counters.short_sends += u64::from(sent < offered);
            self.skip(sent);
            if self.segment == self.batch.segments.len() {
                return Progress::Done;
            }
            if sent == 0 {
                return Progress::Failed(Errno::PIPE);
            }
            share = share.saturating_sub(sent);
            if share == 0 {
                return Progress::Paused;
            }
        }
    }

    /// Takes the bytes accepted since the last report.
    fn tell(&mut self) -> usize {
        std::mem::take(&mut self.untold)
    }

    /// Makes the final event of a batch.
    pub(super) fn finish(mut self, key: Key, errno: i32) -> Event {
        let bytes = self.tell();
        self.batch.ended(key, bytes, errno)
    }

    /// Makes one call; returns how much the kernel accepted, and how much it was offered.
    #[inline]
    fn send_once(&self, fd: RawFd) -> Result<(usize, usize), Errno> {
        match (self.batch.segments.as_slice(), self.batch.to.as_deref()) {
            ([only], None) => {
                let rest = &only.as_slice()[self.offset..];
                let rest = &rest[..rest.len().min(limits::SUBMISSION_BYTES_MAX)];
                Ok((send(sockets::borrow(fd), rest, SendFlags::NOSIGNAL)?, rest.len()))
            }
            (segments, to) if segments.len() > GATHERED && (to.is_some() || is_datagram(fd)) => {
                // A datagram is sent whole, however many segments it has.
                let slices: Vec<_> = self.rest().map(IoSlice::new).collect();
                send_slices(fd, &slices, to)
            }
            (_, to) => {
                let mut slices = [IoSlice::new(&[]); GATHERED];
                let mut count = 0;
                let mut room = limits::SUBMISSION_BYTES_MAX;
                for (slice, rest) in slices.iter_mut().zip(self.rest()) {
                    let len = if to.is_some() { rest.len() } else { rest.len().min(room) };
                    *slice = IoSlice::new(&rest[..len]);
                    count += 1;
                    room = room.saturating_sub(len);
                    if room == 0 && to.is_none() {
                        break;
                    }
                }
                send_slices(fd, &slices[..count], to)
            }
        }
    }

    fn rest(&self) -> impl Iterator<Item = &[u8]> {
        let first = self.batch.segments.get(self.segment);
        let first = first.map(|segment| &segment.as_slice()[self.offset..]);
        let others = self.batch.segments.iter().skip(self.segment + 1).map(Segment::as_slice);
        first.into_iter().chain(others)
    }

    /// Skips `sent` bytes, and the empty segments behind them.
    fn skip(&mut self, mut sent: usize) {
        self.untold += sent;
        while let Some(segment) = self.batch.segments.get(self.segment) {
            let rest = segment.as_slice().len() - self.offset;
            if sent < rest {
                self.offset += sent;
                return;
            }
            sent -= rest;
            self.segment += 1;
            self.offset = 0;
        }
    }
}

/// Segments of one gathered send, which are described on the stack.
const GATHERED: usize = limits::EPOLL_GATHERED;

fn send_slices(
    fd: RawFd,
    slices: &[IoSlice<'_>],
    to: Option<&SockAddr>,
) -> Result<(usize, usize), Errno> {
    let socket = sockets::borrow(fd);
    let offered = slices.iter().map(|slice| slice.len()).sum();
    let sent = match to {
        None => {
            let mut no_ancillary = SendAncillaryBuffer::default();
            sendmsg(socket, slices, &mut no_ancillary, SendFlags::NOSIGNAL)?
        }
        Some(to) => SockRef::from(&socket)
            .send_to_vectored_with_flags(slices, to, libc::MSG_NOSIGNAL)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?,
    };
    Ok((sent, offered))
}

#[cold]
fn is_datagram(fd: RawFd) -> bool {
    sockopt::socket_type(sockets::borrow(fd)) == Ok(SocketType::DGRAM)
}
