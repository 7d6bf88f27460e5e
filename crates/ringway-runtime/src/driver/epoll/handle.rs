//! The state of a registered descriptor in the epoll driver.

use std::collections::VecDeque;
use std::os::fd::RawFd;

use rustix::event::epoll::EventFlags;
use rustix::net::{ipproto, sockopt};

use super::send::Outgoing;
use crate::driver::{Key, RecvClass, SendBatch, sockets};

/// The events that every handle is watched for.
pub(super) const READ: EventFlags =
    EventFlags::IN.union(EventFlags::PRI).union(EventFlags::RDHUP).union(EventFlags::ET);

/// Events that may follow the bytes of a read and are reported only once: an end, an error, or
/// bytes behind an urgent mark.
const BEHIND: EventFlags =
    EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR).union(EventFlags::PRI);

/// A registered descriptor: its key, its pending operations, and the last report of epoll.
pub(super) struct EpollHandle {
    pub(super) key: Key,
    pub(super) fd: RawFd,
    pub(super) class: RecvClass,
    pub(super) receiving: bool,
    pub(super) accepting: bool,
    pub(super) connecting: bool,
    /// Reported as readable, and not drained since.
    pub(super) readable: bool,
    /// Whether something behind the bytes was reported, so that reads continue until the socket is
    /// empty.
    pub(super) reads_on: bool,
    /// Whether a short read shows that the socket is empty; `None` before the first.
    short_reads_empty: Option<bool>,
    /// Whether no send was blocked since the last report.
    pub(super) writable: bool,
    /// Whether the key is in the queue of this pass or of the next.
    pub(super) listed: bool,
    /// Whether the receive waits for a free buffer.
    pub(super) parked: bool,
    /// Whether the sending half ends with the batch in flight.
    pub(super) shutdown_after: bool,
    /// The events that epoll watches; empty before the first time.
    pub(super) watched: EventFlags,
    /// A batch whose rest waits for the socket.
    pub(super) outgoing: Option<Outgoing>,
    /// Datagrams queued behind it.
    pub(super) queued: VecDeque<SendBatch>,
}

impl EpollHandle {
    pub(super) const FREE: EpollHandle = EpollHandle::new(Key::NONE, -1);

    pub(super) const fn new(key: Key, fd: RawFd) -> Self {
        Self {
            key,
            fd,
            class: RecvClass::Message,
            receiving: false,
            accepting: false,
            connecting: false,
            readable: false,
            reads_on: false,
            short_reads_empty: None,
            writable: true,
            listed: false,
            parked: false,
            shutdown_after: false,
            watched: EventFlags::empty(),
            outgoing: None,
            queued: VecDeque::new(),
        }
    }

    /// Records a report of epoll.
    #[inline]
    pub(super) fn note(&mut self, flags: EventFlags) {
        self.readable |= flags.intersects(EventFlags::IN | BEHIND);
        self.reads_on |= flags.intersects(BEHIND);
        self.writable |= flags.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR);
    }

    /// Whether a read that did not fill its buffer has emptied the socket.
    ///
    /// TCP hands over everything it has, except at an urgent mark, which is reported; later bytes
    /// cause another report. Other sockets have more reasons to stop (Unix sockets do at a message
    /// with descriptors), so they are read until they are empty.
    #[inline]
    pub(super) fn is_emptied_by_short_read(&mut self) -> bool {
        if self.reads_on {
            return false;
        }
        let fd = self.fd;
        *self.short_reads_empty.get_or_insert_with(|| {
            sockopt::socket_protocol(sockets::borrow(fd)) == Ok(Some(ipproto::TCP))
        })
    }

    /// Whether a receive can make progress.
    #[inline]
    pub(super) fn can_receive(&self) -> bool {
        self.readable && self.receiving && !self.parked
    }

    /// Whether any pending operation can make progress.
    #[inline]
    pub(super) fn has_work(&self) -> bool {
        self.can_receive()
            || self.readable && self.accepting
            || self.writable && (self.connecting || self.outgoing.is_some())
    }
}
