//! What the epoll driver knows of a registered descriptor.

use std::collections::VecDeque;
use std::os::fd::RawFd;

use rustix::event::epoll::EventFlags;
use rustix::net::{ipproto, sockopt};

use super::send::Outgoing;
use crate::driver::{Key, RecvClass, SendBatch, sockets};

/// What every watched handle is watched for.
pub(super) const READ: EventFlags =
    EventFlags::IN.union(EventFlags::PRI).union(EventFlags::RDHUP).union(EventFlags::ET);

/// Behind what a read brings there is more that is told by this report alone: an end, an error, or
/// bytes behind an urgent mark.
const BEHIND: EventFlags =
    EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR).union(EventFlags::PRI);

/// An object by its key, what is asked of it, and what epoll said last.
pub(super) struct EpollHandle {
    pub(super) key: Key,
    pub(super) fd: RawFd,
    pub(super) class: RecvClass,
    pub(super) receiving: bool,
    pub(super) accepting: bool,
    pub(super) connecting: bool,
    /// Reported and not drained since.
    pub(super) readable: bool,
    /// Something behind the bytes was reported: reads go on until the socket says that it is empty.
    pub(super) reads_on: bool,
    /// Whether a short read shows that the socket is empty; `None` before the first.
    short_reads_empty: Option<bool>,
    /// No send was refused since the last report.
    pub(super) writable: bool,
    /// The key is in the queue or among the next ones.
    pub(super) listed: bool,
    /// The key is among the parked ones: its receive waits for a free buffer.
    pub(super) parked: bool,
    /// The sending half ends with the batch in flight.
    pub(super) shutdown_after: bool,
    /// What epoll was asked for; empty before the first time.
    pub(super) watched: EventFlags,
    /// A batch that waits for the socket to take its rest.
    pub(super) outgoing: Option<Outgoing>,
    /// Datagrams behind it.
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

    /// Takes in a report of epoll.
    #[inline]
    pub(super) fn note(&mut self, flags: EventFlags) {
        self.readable |= flags.intersects(EventFlags::IN | BEHIND);
        self.reads_on |= flags.intersects(BEHIND);
        self.writable |= flags.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR);
    }

    /// Whether a read that did not fill its buffer has emptied the socket.
    ///
    /// TCP hands over all that it has: it stops early at an urgent mark only, which is reported; and
    /// what comes after the read is a report of its own. Others have more reasons to stop (a Unix
    /// socket does at a message with descriptors), so they are read until they say that they are
    /// empty.
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

    /// Whether bytes may be there that are asked for and have somewhere to go.
    #[inline]
    pub(super) fn can_receive(&self) -> bool {
        self.readable && self.receiving && !self.parked
    }

    /// Whether something that was asked for can go on.
    #[inline]
    pub(super) fn has_work(&self) -> bool {
        self.can_receive()
            || self.readable && self.accepting
            || self.writable && (self.connecting || self.outgoing.is_some())
    }
}
