//! Operations whose memory the kernel reads: gathered sends and connects, owned here meanwhile.

use std::os::fd::RawFd;

use io_uring::opcode;
use io_uring::types::Fd;
use socket2::SockAddr;

use super::message::MessageHeader;
use super::{Completion, Ring};
use crate::buf::Segment;
use crate::driver::{Key, SendBatch};

/// `MSG_WAITALL` lets the kernel finish a long send by itself; short ones still happen.
const SEND_FLAGS: i32 = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;

/// Memory lent to a ring for reading, by slot. The last slot freed is the next one used.
#[derive(Default)]
pub(crate) struct SendTable {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

/// The slots are boxed where the kernel holds a pointer, so that a growing table moves nothing.
#[derive(Default)]
struct Slot {
    /// `None` while free.
    key: Option<Key>,
    fd: RawFd,
    batch: SendBatch,
    done: usize,
    total: usize,
    /// Kept from use to use; the kernel reads it while a gathered send is in flight.
    header: Option<Box<MessageHeader>>,
    connecting_to: Option<Box<SockAddr>>,
}

/// What a completion meant for a send.
pub(crate) enum Progress {
    /// The kernel took a part; the rest is on its way again.
    Resumed,
    /// All accepted, or failed: the bytes that were accepted, an error number or zero, and the
    /// emptied segment list.
    Finished {
        key: Key,
        bytes: usize,
        errno: i32,
        spare: Vec<Segment>,
    },
}

impl SendTable {
    /// Starts a send. `user_data` gets the slot's index in its low 32 bits.
    pub(crate) fn send(
        &mut self,
        ring: &mut Ring,
        key: Key,
        fd: RawFd,
        batch: SendBatch,
        user_data: u64,
    ) {
        debug_assert!(!batch.segments.is_empty());
        let index = self.take_slot();
        let slot = &mut self.slots[index as usize];
        slot.key = Some(key);
        slot.fd = fd;
        slot.done = 0;
        slot.total = batch
            .segments
            .iter()
            .map(|segment| segment.as_slice().len())
            .sum();
        slot.batch = batch;
        slot.submit(ring, user_data | u64::from(index));
    }

    /// Whose send or connect is in slot `index`.
    pub(crate) fn owner(&self, index: u32) -> Option<Key> {
        self.slots[index as usize].key
    }

    /// Takes in the completion of a send; what is left of it goes out again if that is `wanted`.
    pub(crate) fn complete(
        &mut self,
        ring: &mut Ring,
        completion: Completion,
        wanted: bool,
    ) -> Progress {
        let Completion {
            user_data, result, ..
        } = completion;
        let index = user_data as u32;
        let slot = &mut self.slots[index as usize];
        let key = slot.key.expect("a completion names a slot in use");
        slot.done += result.max(0) as usize;
        let unfinished = (result > 0 && slot.done < slot.total) || result == -libc::EINTR;
        if unfinished && wanted {
            slot.submit(ring, user_data);
            return Progress::Resumed;
        }
        let mut spare = std::mem::take(&mut slot.batch.segments);
        spare.clear();
        slot.batch.to = None;
        slot.key = None;
        let bytes = slot.done;
        let nothing_taken = result == 0 && bytes < slot.total;
        let errno = if nothing_taken {
            libc::EPIPE
        } else {
            (-result).max(0)
        };
        self.free.push(index);
        Progress::Finished {
            key,
            bytes,
            errno,
            spare,
        }
    }

    /// Starts to connect; the completion is told to `connected`.
    pub(crate) fn connect(
        &mut self,
        ring: &mut Ring,
        key: Key,
        fd: RawFd,
        address: &SockAddr,
        data: u64,
    ) {
        let index = self.take_slot();
        let slot = &mut self.slots[index as usize];
        slot.key = Some(key);
        let address = slot.connecting_to.insert(Box::new(address.clone()));
        let entry = opcode::Connect::new(Fd(fd), address.as_ptr().cast(), address.len()).build();
        ring.push(entry.user_data(data | u64::from(index)));
    }

    /// Gives back the slot of a connect that has completed, and tells whose it was.
    pub(crate) fn connected(&mut self, index: u32) -> Option<Key> {
        let slot = &mut self.slots[index as usize];
        slot.connecting_to = None;
        self.free.push(index);
        slot.key.take()
    }

    fn take_slot(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        })
    }
}

impl Slot {
    fn submit(&mut self, ring: &mut Ring, user_data: u64) {
        let fd = Fd(self.fd);
        let entry = match self.batch.segments.as_slice() {
            [only] if self.batch.to.is_none() => {
                let rest = &only.as_slice()[self.done..];
                opcode::Send::new(fd, rest.as_ptr(), rest.len() as u32)
                    .flags(SEND_FLAGS)
                    .build()
            }
            _ => {
                let header = self
                    .header
                    .get_or_insert_with(|| Box::new(MessageHeader::empty()));
                header.describe(&self.batch, self.done);
                opcode::SendMsg::new(fd, header.as_ptr())
                    .flags(SEND_FLAGS as u32)
                    .build()
            }
        };
        ring.push(entry.user_data(user_data));
    }
}
