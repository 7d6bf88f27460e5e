//! The state of a registered descriptor in the io_uring driver.

use std::os::fd::RawFd;

use crate::driver::{Key, RecvClass};

/// The state of a registered descriptor.
#[derive(Clone, Copy)]
pub(super) struct UringHandle {
    pub(super) key: Key,
    pub(super) fd: RawFd,
    pub(super) recv: ArmState,
    pub(super) class: RecvClass,
    pub(super) accepting: bool,
    /// Number of batches in flight: one for a stream, several for a datagram socket.
    pub(super) sends: u16,
    /// Whether it is a stream whose sends wait in the kernel for a tick at most.
    pub(super) is_bounded: bool,
    pub(super) room: Room,
    /// The slot of a send that waits for room.
    pub(super) full: Option<u32>,
    /// Whether the sending half ends with the batch in flight.
    pub(super) shutdown_after: bool,
    /// Number of operations that will still complete, without cancels.
    pub(super) in_flight: u16,
    pub(super) closing: bool,
    /// The epoch of its last receive, for `Gather`.
    pub(super) epoch: u32,
    /// Whether the slot is among those to be looked at, whatever descriptor has it.
    pub(super) is_listed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ArmState {
    Off,
    Armed,
    /// Ended for lack of a buffer; listed in `parked`.
    Parked,
    /// A cancel is in flight.
    Stopping,
}

/// Whether the driver is told when a send has room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Room {
    Off,
    Armed,
    /// There was room since the last try.
    Came,
}

impl UringHandle {
    /// Makes a free slot that of a descriptor.
    pub(super) fn occupy(&mut self, key: Key, fd: RawFd) {
        *self = Self { key, fd, is_listed: self.is_listed, ..Self::FREE };
    }

    pub(super) fn vacate(&mut self) {
        *self = Self { is_listed: self.is_listed, ..Self::FREE };
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
        is_listed: false,
    };
}
