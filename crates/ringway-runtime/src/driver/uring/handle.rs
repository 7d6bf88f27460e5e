//! What the io_uring driver knows of a registered descriptor.

use std::os::fd::RawFd;

use crate::driver::{Key, RecvClass};

/// What the driver knows of a registered descriptor.
#[derive(Clone, Copy)]
pub(super) struct UringHandle {
    pub(super) key: Key,
    pub(super) fd: RawFd,
    pub(super) recv: ArmState,
    pub(super) class: RecvClass,
    pub(super) accepting: bool,
    /// Batches in flight: one of a stream, several of a datagram socket.
    pub(super) sends: u16,
    /// It is a stream on which a send waits in the kernel for no longer than a tick.
    pub(super) is_bounded: bool,
    pub(super) room: Room,
    /// The slot of a send that waits for room.
    pub(super) full: Option<u32>,
    /// The sending half ends with the batch in flight.
    pub(super) shutdown_after: bool,
    /// Operations that will still complete, cancels not counted.
    pub(super) in_flight: u16,
    pub(super) closing: bool,
    /// When it last received, for `Gather`.
    pub(super) epoch: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ArmState {
    Off,
    Armed,
    /// Ended for want of a buffer; in `parked`.
    Parked,
    /// A cancel is on its way.
    Stopping,
}

/// Whether the driver is told of room for a send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Room {
    Off,
    Armed,
    /// There was some since the last try.
    Came,
}

impl UringHandle {
    pub(super) fn new(key: Key, fd: RawFd) -> Self {
        Self { key, fd, ..Self::FREE }
    }

    pub(super) const FREE: UringHandle = UringHandle {
        key: Key::NONE,
        fd: -1,
        recv: ArmState::Off,
        class: RecvClass::Message,
        accepting: false,
        sends: 0,
        is_bounded: false,
        room: Room::Off,
        full: None,
        shutdown_after: false,
        in_flight: 0,
        closing: false,
        epoch: 0,
    };
}
