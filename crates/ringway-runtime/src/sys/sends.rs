//! Operations whose memory the kernel reads: gathered sends and connects, owned here meanwhile.

use std::os::fd::RawFd;

use io_uring::opcode;
use io_uring::squeue::Flags;
use io_uring::types::Fd;
use socket2::SockAddr;

use super::message::MessageHeader;
use super::{Completion, Ring};
use crate::buf::Segment;
use crate::driver::{Key, SendBatch};

/// `MSG_WAITALL`: a send that is cut short counts as failed, or is finished by the kernel itself.
const PATIENT: i32 = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;

/// With `MSG_DONTWAIT` the kernel answers within the enter that submits: it takes everything, or
/// fails. So the completion of a success says nothing new and is left out.
const AT_ONCE: i32 = PATIENT | libc::MSG_DONTWAIT;

/// Memory lent to a ring for reading, by slot. The last slot freed is the next one used.
#[derive(Default)]
pub(crate) struct SendTable {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Sends submitted with `AT_ONCE` whose enter has not been settled.
    unsettled: Vec<u32>,
    /// Those of them that were longer than one call takes, on their way again.
    resubmitted: Vec<u32>,
}

/// The slots are boxed where the kernel holds a pointer, so that a growing table moves nothing.
#[derive(Default)]
struct Slot {
    /// `None` while free.
    key: Option<Key>,
    fd: RawFd,
    batch: SendBatch,
    done: usize,
    /// How much of that its owner has been told of.
    told: usize,
    total: usize,
    /// Bytes of the operation under way.
    asked: usize,
    /// Submitted with `AT_ONCE`, and no completion has said otherwise.
    at_once: bool,
    /// Kept from use to use; the kernel reads it while a gathered send is in flight.
    header: Option<Box<MessageHeader>>,
    connecting_to: Option<Box<SockAddr>>,
}

/// What a completion meant for a send.
pub(crate) enum Outcome {
    /// The kernel took this many bytes, or none yet; the rest waits inside for the peer.
    Resumed { key: Key, bytes: usize },
    /// All accepted, or failed.
    Finished(Sent),
}

/// A send that has ended: whose it was, the bytes accepted since the last `Resumed`, an error
/// number or zero, and its segments as they were.
pub(crate) struct Sent {
    pub(crate) key: Key,
    pub(crate) bytes: usize,
    pub(crate) errno: i32,
    pub(crate) segments: Vec<Segment>,
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
        slot.told = 0;
        slot.total = batch.segments.iter().map(|segment| segment.as_slice().len()).sum();
        slot.batch = batch;
        slot.at_once = true;
        slot.submit(ring, user_data | u64::from(index), AT_ONCE);
        self.unsettled.push(index);
    }

    /// Ends the sends that were submitted `AT_ONCE` and of which no completion came, one a call.
    /// Only to be called when the kernel has taken every submission and every completion was taken
    /// in.
    pub(crate) fn settle(&mut self, ring: &mut Ring, user_data: u64) -> Option<Sent> {
        while let Some(index) = self.unsettled.pop() {
            let slot = &mut self.slots[index as usize];
            if !slot.at_once {
                continue;
            }
            slot.done += slot.asked;
            if slot.done < slot.total {
                slot.submit(ring, user_data | u64::from(index), AT_ONCE);
                self.resubmitted.push(index);
                continue;
            }
            slot.at_once = false;
            self.free.push(index);
            return Some(slot.vacate(0));
        }
        std::mem::swap(&mut self.unsettled, &mut self.resubmitted);
        None
    }

    /// Whether `settle` has something to do.
    pub(crate) fn is_unsettled(&self) -> bool {
        !self.unsettled.is_empty()
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
    ) -> Outcome {
        let Completion { user_data, result, .. } = completion;
        let index = user_data as u32;
        let slot = &mut self.slots[index as usize];
        let would_block = std::mem::take(&mut slot.at_once) && result == -libc::EAGAIN;
        slot.done += result.max(0) as usize;
        let cut_short = result > 0 && slot.done < slot.total;
        if (cut_short || would_block || result == -libc::EINTR) && wanted {
            slot.submit(ring, user_data, PATIENT);
            let key = slot.key.expect("a slot in use has an owner");
            return Outcome::Resumed { key, bytes: slot.tell() };
        }
        let nothing_taken = result == 0 && slot.done < slot.total;
        let errno = if nothing_taken { libc::EPIPE } else { (-result).max(0) };
        self.free.push(index);
        Outcome::Finished(slot.vacate(errno))
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
    fn submit(&mut self, ring: &mut Ring, user_data: u64, flags: i32) {
        let fd = Fd(self.fd);
        let entry = match self.batch.segments.as_slice() {
            [only] if self.batch.to.is_none() => {
                let rest = &only.as_slice()[self.done..];
                self.asked = rest.len();
                opcode::Send::new(fd, rest.as_ptr(), rest.len() as u32).flags(flags).build()
            }
            _ => {
                let header = self.header.get_or_insert_with(|| Box::new(MessageHeader::empty()));
                self.asked = header.describe(&self.batch, self.done);
                opcode::SendMsg::new(fd, header.as_ptr()).flags(flags as u32).build()
            }
        };
        let quiet = if self.at_once { Flags::SKIP_SUCCESS } else { Flags::empty() };
        ring.push(entry.user_data(user_data).flags(quiet));
    }

    /// The bytes that the owner has not been told of.
    fn tell(&mut self) -> usize {
        self.done - std::mem::replace(&mut self.told, self.done)
    }

    /// Empties the slot.
    fn vacate(&mut self, errno: i32) -> Sent {
        let bytes = self.tell();
        self.batch.to = None;
        let segments = std::mem::take(&mut self.batch.segments);
        let key = self.key.take().expect("a slot in use has an owner");
        Sent { key, bytes, errno, segments }
    }
}
