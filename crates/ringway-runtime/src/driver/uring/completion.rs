//! Completions of operations, and the outcome of sends.

use crate::buf::Segment;
use crate::driver::Key;

/// The kind of an operation: the high eight bits of its user data.
pub(crate) mod kind {
    pub(crate) const RECV: u8 = 1;
    pub(crate) const SEND: u8 = 2;
    pub(crate) const ACCEPT: u8 = 3;
    pub(crate) const CONNECT: u8 = 4;
    pub(crate) const CANCEL: u8 = 5;
    pub(crate) const CANCEL_ALL: u8 = 6;
    pub(crate) const EVENTFD: u8 = 7;
    pub(crate) const ROOM: u8 = 8;
    pub(crate) const FILE: u8 = 9;
}

/// The user data of an operation.
pub(crate) fn tag(kind: u8, bits: u64) -> u64 {
    u64::from(kind) << 56 | bits
}

/// A completion as the kernel wrote it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    pub(crate) user_data: u64,
    pub(crate) result: i32,
    pub(crate) flags: u32,
}

impl From<io_uring::cqueue::Entry> for Completion {
    fn from(entry: io_uring::cqueue::Entry) -> Self {
        Self { user_data: entry.user_data(), result: entry.result(), flags: entry.flags() }
    }
}

impl Completion {
    /// The name in the low 56 bits of the user data.
    pub(crate) fn name(self) -> Key {
        Key::from_bits(self.user_data)
    }

    /// Whether the operation stays armed.
    pub(crate) fn more(self) -> bool {
        io_uring::cqueue::more(self.flags)
    }

    /// The provided buffer that was filled.
    pub(crate) fn buffer(self) -> Option<u16> {
        io_uring::cqueue::buffer_select(self.flags)
    }
}

/// The outcome of a send's completion.
pub(crate) enum SendOutcome {
    /// The kernel accepted this many bytes, or none yet; the rest waits in it for the peer.
    Resumed { key: Key, bytes: usize },
    /// Nothing is in flight; the rest waits in this slot for the driver to try again.
    Full { key: Key, slot: u32 },
    /// Everything was accepted, or the send failed.
    Finished(Sent),
}

/// A send that has ended: its key, the bytes accepted since the last `Resumed`, zero or an error
/// number, and its segments unchanged.
pub(crate) struct Sent {
    pub(crate) key: Key,
    pub(crate) bytes: usize,
    pub(crate) errno: i32,
    pub(crate) segments: Vec<Segment>,
}
