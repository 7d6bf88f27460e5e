//! Operations whose memory the kernel reads: gathered sends and connects, owned here meanwhile.

use std::os::fd::RawFd;

use io_uring::opcode;
use io_uring::types::Fd;
use socket2::SockAddr;

use super::Ring;
use super::message::MessageHeader;
use crate::driver::uring::{Completion, How, SendOutcome, Sent, kind, tag};
use crate::driver::{Key, SendBatch};
use crate::limits;

/// Memory lent to a ring for reading, by slot. The last slot freed is the next one used.
///
/// The user data of an operation names its slot and the slot's generation, which each submission
/// counts up: a completion that nobody waits for any more finds nothing.
#[derive(Default)]
pub(crate) struct SendTable {
    slots: Vec<SendSlot>,
    free: Vec<u32>,
    /// Sends submitted at once whose enter has not been settled.
    unsettled: Vec<u32>,
    /// Those of them that were longer than one submission takes, and are to go out again.
    unfinished: Vec<u32>,
}

/// The slots are boxed where the kernel holds a pointer, so that a growing table moves nothing.
#[derive(Default)]
struct SendSlot {
    /// `None` while free.
    key: Option<Key>,
    generation: u32,
    fd: RawFd,
    batch: SendBatch,
    done: usize,
    /// How much of that its owner has been told of.
    told: usize,
    total: usize,
    /// Bytes of the operation under way.
    asked: usize,
    /// Submitted at once, and no completion has said otherwise.
    at_once: bool,
    /// The kernel could not tell when there is room: the peer's end looks like it.
    eager: bool,
    /// Kept from use to use; the kernel reads it while a gathered send is in flight.
    header: Option<Box<MessageHeader>>,
    connecting_to: Option<Box<SockAddr>>,
}

impl SendTable {
    /// Starts a send. Whether one submission takes all of it: otherwise the next enter must not
    /// sleep, since nothing tells that it is time for the rest.
    pub(crate) fn send(&mut self, ring: &mut Ring, key: Key, fd: RawFd, batch: SendBatch) -> bool {
        debug_assert!(!batch.segments.is_empty());
        let index = self.take_slot();
        let slot = &mut self.slots[index as usize];
        slot.key = Some(key);
        slot.fd = fd;
        (slot.done, slot.told, slot.eager) = (0, 0, false);
        slot.total = batch.segments.iter().map(|segment| segment.as_slice().len()).sum();
        slot.batch = batch;
        slot.submit(ring, index, How::AtOnce);
        self.unsettled.push(index);
        slot.asked == slot.total
    }

    /// Ends the sends that were submitted at once and of which no completion came, one a call; what
    /// is left of one goes out again if its owner `wants` that. Only to be called when the kernel
    /// has taken every submission and every completion was taken in.
    pub(crate) fn settle(&mut self, ring: &mut Ring, wants: impl Fn(Key) -> bool) -> Option<Sent> {
        while let Some(index) = self.unsettled.pop() {
            let slot = &mut self.slots[index as usize];
            if !std::mem::take(&mut slot.at_once) {
                continue;
            }
            slot.done += slot.asked;
            let unfinished = slot.done < slot.total;
            if unfinished && slot.key.is_some_and(&wants) {
                // Not before the list is empty: where an enter was not settled, it may name a slot twice.
                self.unfinished.push(index);
                continue;
            }
            self.free.push(index);
            return Some(slot.vacate(if unfinished { libc::ECANCELED } else { 0 }));
        }
        for index in self.unfinished.drain(..) {
            self.slots[index as usize].submit(ring, index, How::AtOnce);
            self.unsettled.push(index);
        }
        None
    }

    /// Whether `settle` has something to do.
    pub(crate) fn is_unsettled(&self) -> bool {
        !self.unsettled.is_empty()
    }

    /// Takes in the completion of a send; what is left of it goes out again if its owner `wants`
    /// that. `None` for a completion that belongs to no send.
    pub(crate) fn complete(
        &mut self,
        ring: &mut Ring,
        completion: Completion,
        mut wants: impl FnMut(Key) -> bool,
    ) -> Option<SendOutcome> {
        let (index, slot) = find(&mut self.slots, completion.name())?;
        let result = completion.result;
        let would_block = std::mem::take(&mut slot.at_once) && result == -libc::EAGAIN;
        slot.done += result.max(0) as usize;
        let goes_on = result > 0 && slot.done < slot.total;
        let key = slot.key.filter(|&key| wants(key));
        if (goes_on || would_block || result == -libc::EINTR)
            && let Some(key) = key
        {
            slot.submit(ring, index, if slot.eager { How::Eager } else { How::Patient });
            return Some(SendOutcome::Resumed { key, bytes: slot.tell() });
        }
        let is_full = result == -libc::EAGAIN && slot.batch.to.is_none();
        if let Some(key) = key.filter(|_| is_full) {
            slot.eager = true;
            return Some(SendOutcome::Full { key, slot: index });
        }
        let errno = match (-result).max(0) {
            0 if goes_on => libc::ECANCELED,
            0 if slot.done < slot.total => libc::EPIPE,
            errno => errno,
        };
        self.free.push(index);
        Some(SendOutcome::Finished(slot.vacate(errno)))
    }

    /// Tries again what was `Full`.
    pub(crate) fn retry(&mut self, ring: &mut Ring, index: u32) {
        self.slots[index as usize].submit(ring, index, How::Eager);
    }

    /// Ends what was `Full`.
    pub(crate) fn give_up(&mut self, index: u32) -> Sent {
        self.free.push(index);
        self.slots[index as usize].vacate(libc::ECANCELED)
    }

    /// Starts to connect; the completion is told to `connected`.
    pub(crate) fn connect(&mut self, ring: &mut Ring, key: Key, fd: RawFd, address: &SockAddr) {
        let index = self.take_slot();
        let slot = &mut self.slots[index as usize];
        slot.key = Some(key);
        let data = slot.next_name(kind::CONNECT, index);
        let address = slot.connecting_to.insert(Box::new(address.clone()));
        let entry = opcode::Connect::new(Fd(fd), address.as_ptr().cast(), address.len()).build();
        ring.push(entry.user_data(data));
    }

    /// Gives back the slot of a connect that has completed, and tells whose it was.
    pub(crate) fn connected(&mut self, completion: Completion) -> Option<Key> {
        let (index, slot) = find(&mut self.slots, completion.name())?;
        slot.connecting_to = None;
        self.free.push(index);
        slot.key.take()
    }

    fn take_slot(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(SendSlot::default());
            self.slots.len() as u32 - 1
        })
    }
}

/// The slot whose last submission has this name.
fn find(slots: &mut [SendSlot], name: Key) -> Option<(u32, &mut SendSlot)> {
    let index = name.index() as u32;
    let slot = slots.get_mut(name.index())?;
    let is_current = slot.key.is_some() && Key::new(index, slot.generation) == name;
    is_current.then_some((index, slot))
}

impl SendSlot {
    /// The user data of the slot's next submission.
    fn next_name(&mut self, kind: u8, index: u32) -> u64 {
        self.generation = self.generation.wrapping_add(1);
        tag(kind, Key::new(index, self.generation).bits())
    }

    /// Submits as much of what is left as one submission takes; a datagram leaves whole.
    fn submit(&mut self, ring: &mut Ring, index: u32, how: How) {
        self.at_once = how == How::AtOnce;
        let (flags, priority, quiet) = how.asks();
        let data = self.next_name(kind::SEND, index);
        let fd = Fd(self.fd);
        let entry = match self.batch.segments.as_slice() {
            [only] if self.batch.to.is_none() => {
                let rest = &only.as_slice()[self.done..];
                self.asked = rest.len().min(limits::SUBMISSION_BYTES_MAX);
                let send = opcode::Send::new(fd, rest.as_ptr(), self.asked as u32);
                send.flags(flags).ioprio(priority).build()
            }
            _ => {
                let header = self.header.get_or_insert_with(|| Box::new(MessageHeader::empty()));
                self.asked = header.describe(&self.batch, self.done);
                let send = opcode::SendMsg::new(fd, header.as_ptr());
                send.flags(flags as u32).ioprio(priority).build()
            }
        };
        ring.push(entry.user_data(data).flags(quiet));
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
