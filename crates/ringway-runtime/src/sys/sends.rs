//! Operations whose memory the kernel reads, and which own it meanwhile: gathered sends and
//! connects.

use std::os::fd::RawFd;

use io_uring::opcode;
use io_uring::types::Fd;
use socket2::SockAddr;

use super::Ring;
use super::message::MessageHeader;
use crate::driver::uring::{Completion, How, SendOutcome, Sent, kind, tag};
use crate::driver::{Key, SendBatch};
use crate::limits;

/// Memory lent to a ring for reading, by slot. The slot freed last is the first one reused.
///
/// The user data of an operation contains its slot and the slot's generation, which each submission
/// increments: a stale completion finds nothing.
#[derive(Default)]
pub(crate) struct SendTable {
    slots: Vec<SendSlot>,
    free: Vec<u32>,
    /// Sends submitted at once whose enter has not been settled.
    unsettled: Vec<u32>,
    /// Sends among them that were longer than one submission accepts, and must be submitted again.
    unfinished: Vec<u32>,
}

/// A send or connect. Parts to which the kernel points are boxed, so a growing table moves none.
#[derive(Default)]
struct SendSlot {
    /// The owner; `None` while the slot is free.
    key: Option<Key>,
    generation: u32,
    fd: RawFd,
    batch: SendBatch,
    done: usize,
    /// How many of those bytes were reported to the owner.
    told: usize,
    total: usize,
    /// Number of bytes in the current operation.
    asked: usize,
    /// Whether it was submitted at once and no completion has said otherwise.
    at_once: bool,
    /// Whether the kernel cannot tell when there is room, because the peer's end looks the same.
    eager: bool,
    /// Kept for reuse; the kernel reads it while a gathered send is in flight.
    header: Option<Box<MessageHeader>>,
    connecting_to: Option<Box<SockAddr>>,
}

impl SendTable {
    /// Starts a send. Returns whether one submission accepts all of it: otherwise the next enter
    /// must not sleep, since nothing reports when the rest can be sent.
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

    /// Ends a send that was submitted at once without a completion, one per call; its rest is
    /// submitted again if its owner `wants` that. Call it only when the kernel has taken every
    /// submission and every completion was handled.
    pub(crate) fn settle(&mut self, ring: &mut Ring, wants: impl Fn(Key) -> bool) -> Option<Sent> {
        while let Some(index) = self.unsettled.pop() {
            let slot = &mut self.slots[index as usize];
            if !std::mem::take(&mut slot.at_once) {
                continue;
            }
            slot.done += slot.asked;
            let unfinished = slot.done < slot.total;
            if unfinished && slot.key.is_some_and(&wants) {
                // Not before the list is empty: if an enter was not settled, it may contain a
                // slot twice.
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

    /// Whether [`settle`](Self::settle) has something to do.
    pub(crate) fn is_unsettled(&self) -> bool {
        !self.unsettled.is_empty()
    }

    /// Handles the completion of a send; its rest is submitted again if its owner `wants` that.
    /// `None` for a completion that belongs to no send.
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

    /// Retries a send that was `Full`.
    pub(crate) fn retry(&mut self, ring: &mut Ring, index: u32) {
        self.slots[index as usize].submit(ring, index, How::Eager);
    }

    /// Ends a send that was `Full`.
    pub(crate) fn give_up(&mut self, index: u32) -> Sent {
        self.free.push(index);
        self.slots[index as usize].vacate(libc::ECANCELED)
    }

    /// Starts to connect; the completion is to be passed to [`connected`](Self::connected).
    pub(crate) fn connect(&mut self, ring: &mut Ring, key: Key, fd: RawFd, address: &SockAddr) {
        let index = self.take_slot();
        let slot = &mut self.slots[index as usize];
        slot.key = Some(key);
        let data = slot.next_name(kind::CONNECT, index);
        let address = slot.connecting_to.insert(Box::new(address.clone()));
        let entry = opcode::Connect::new(Fd(fd), address.as_ptr().cast(), address.len()).build();
        ring.push(entry.user_data(data));
    }

    /// Frees the slot of a completed connect, and returns its key.
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

    /// Submits as much of the rest as one submission accepts; a datagram is sent whole.
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

    /// Takes the bytes that were not reported to the owner yet.
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
