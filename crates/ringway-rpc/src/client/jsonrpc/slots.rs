//! The calls of a connection that wait for their answer.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use ringway_wire::native::StreamId;

use crate::limits;

/// The calls, by the slots of their streams. A request's id is a number that is never used again: what comes late for
/// a call that was given up finds nothing. It counts the requests, as there are servers that keep ids in 32 bits.
#[derive(Debug, Default)]
pub(super) struct JsonSlots {
    slots: Vec<SentSlot>,
    free: Vec<u32>,
    /// The slots of the calls that have not ended, by their ids.
    by_number: HashMap<u64, u32, BuildHasherDefault<NumberHasher>>,
    /// The last id.
    sent: u64,
    /// The numbers of the batches that wait, with their slots. A hedged one may be here twice.
    batches: BTreeSet<(u64, u32)>,
    /// The number of subscriptions whose ids nobody waits for any more.
    given_up: usize,
}

#[derive(Debug)]
struct SentSlot {
    /// The stream that uses it, or the next one that will.
    stream: StreamId,
    /// The number of the call; 0 if there is none.
    number: u64,
    of: AwaitedCall,
}

/// What is to come for a call.
#[derive(Debug)]
pub(super) enum AwaitedCall {
    /// One reply.
    Unary,
    /// None.
    Notified,
    /// An array of replies, with the number of the batch in their ids.
    Batch(u64),
    /// The id of a subscription.
    Asked,
    /// The same, and it is stopped as soon as it is known.
    GivenUp,
    /// Messages.
    Subscribed(Subscriber),
}

/// A subscription, and what its reader has not read of it.
#[derive(Debug)]
pub(super) struct Subscriber {
    /// The id of the subscription, as the server writes it.
    pub(super) id: Box<str>,
    /// The bytes of each message that has not been read.
    lens: VecDeque<usize>,
    /// Their sum, and how much of it is too much.
    bytes: usize,
    bytes_max: usize,
}

impl Subscriber {
    /// A subscription whose messages have at most `text_max` bytes.
    pub(super) fn new(id: &str, text_max: usize) -> Self {
        let bytes_max = text_max.saturating_add(limits::JSONRPC_UNREAD_BYTES_MAX);
        Self { id: id.into(), lens: VecDeque::new(), bytes: 0, bytes_max }
    }

    /// Notes a message; false if too many have not been read.
    pub(super) fn add(&mut self, len: usize) -> bool {
        self.lens.push_back(len);
        self.bytes += len;
        self.lens.len() <= limits::JSONRPC_UNREAD_MESSAGES_MAX && self.bytes <= self.bytes_max
    }

    /// Notes that the first messages have been read.
    pub(super) fn read(&mut self, messages: usize) {
        let read = self.lens.drain(..messages.min(self.lens.len()));
        self.bytes -= read.sum::<usize>();
    }
}

impl JsonSlots {
    /// Adds a call. Returns its stream and the id of its request.
    #[inline]
    pub(super) fn insert(&mut self, of: AwaitedCall) -> (StreamId, u64) {
        let slot = self.free.pop().unwrap_or_else(|| {
            let slot = self.slots.len() as u32;
            let stream = StreamId::new(slot, StreamId::GENERATION_FIRST);
            self.slots.push(SentSlot { stream, number: 0, of: AwaitedCall::Unary });
            slot
        });
        self.sent += 1;
        let number = self.sent;
        self.by_number.insert(number, slot);
        let slot = &mut self.slots[slot as usize];
        if let AwaitedCall::Batch(batch) = of {
            self.batches.insert((batch, slot.stream.slot()));
        }
        (slot.number, slot.of) = (number, of);
        (slot.stream, number)
    }

    /// Finds the call whose request has this id.
    #[inline]
    pub(super) fn find(&mut self, number: u64) -> Option<(StreamId, &mut AwaitedCall)> {
        let slot = &mut self.slots[*self.by_number.get(&number)? as usize];
        Some((slot.stream, &mut slot.of))
    }

    /// Finds the call of a batch.
    pub(super) fn find_batch(&self, batch: u64) -> Option<StreamId> {
        let (_, slot) = self.batches.range((batch, 0)..=(batch, u32::MAX)).next()?;
        Some(self.slots[*slot as usize].stream)
    }

    #[inline]
    pub(super) fn get(&mut self, stream: StreamId) -> Option<&mut AwaitedCall> {
        let slot = self.slots.get_mut(stream.slot() as usize)?;
        (slot.stream == stream && slot.number != 0).then_some(&mut slot.of)
    }

    /// Removes a call; `None` if it was over.
    #[inline]
    pub(super) fn remove(&mut self, stream: StreamId) -> Option<AwaitedCall> {
        let removed = self.end(stream)?;
        self.free(stream);
        Some(removed)
    }

    /// Ends a call whose end is not told yet; `None` if it was over. Until its slot is [freed](Self::free), no
    /// other call gets it: the connection still has this one there.
    #[inline]
    pub(super) fn end(&mut self, stream: StreamId) -> Option<AwaitedCall> {
        let slot = self.slots.get_mut(stream.slot() as usize)?;
        if slot.stream != stream || slot.number == 0 {
            return None;
        }
        self.by_number.remove(&std::mem::take(&mut slot.number));
        let ended = std::mem::replace(&mut slot.of, AwaitedCall::Unary);
        match ended {
            AwaitedCall::Batch(batch) => drop(self.batches.remove(&(batch, stream.slot()))),
            AwaitedCall::GivenUp => self.given_up -= 1,
            _ => {}
        }
        Some(ended)
    }

    /// Notes that nobody waits for the id of a subscription any more; false if the call is no such one.
    pub(super) fn give_up(&mut self, stream: StreamId) -> bool {
        let Some(call @ AwaitedCall::Asked) = self.get(stream) else { return false };
        *call = AwaitedCall::GivenUp;
        self.given_up += 1;
        true
    }

    /// Notes the id of a subscription; false if the call was over.
    pub(super) fn subscribe(&mut self, stream: StreamId, subscriber: Subscriber) -> bool {
        let Some(call) = self.get(stream) else { return false };
        let former = std::mem::replace(call, AwaitedCall::Subscribed(subscriber));
        self.given_up -= usize::from(matches!(former, AwaitedCall::GivenUp));
        true
    }

    /// Frees the slot of a call that was [ended](Self::end), whose end is told now.
    #[inline]
    pub(super) fn free(&mut self, stream: StreamId) {
        let slot = &mut self.slots[stream.slot() as usize];
        debug_assert!(slot.stream == stream && slot.number == 0, "it was ended, and is told once");
        slot.stream = stream.next();
        self.free.push(stream.slot());
    }

    /// The number of subscriptions whose ids nobody waits for any more.
    pub(super) fn given_up(&self) -> usize {
        self.given_up
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The only call that waits for its answer, if it is one.
    pub(super) fn only_unanswered(&self) -> Option<StreamId> {
        let waits =
            |slot: &&SentSlot| slot.number != 0 && !matches!(slot.of, AwaitedCall::Subscribed(_));
        let mut waiting = self.slots.iter().filter(waits);
        let only = waiting.next()?;
        waiting.next().is_none().then_some(only.stream)
    }
}

/// Spreads numbers that this side has chosen, so that nobody can make them collide.
#[derive(Debug, Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        let spread = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ (spread >> 32); // the table uses the low bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_is_used_once_and_its_slot_again() {
        let mut slots = JsonSlots::default();
        let (first, number) = slots.insert(AwaitedCall::Asked);
        assert!(
            matches!(slots.find(number), Some((stream, AwaitedCall::Asked)) if stream == first)
        );
        assert!(slots.remove(first).is_some() && slots.remove(first).is_none());
        let (second, other) = slots.insert(AwaitedCall::Unary);
        assert_eq!((second.slot(), slots.len()), (first.slot(), 1));
        assert!(slots.find(number).is_none() && slots.get(first).is_none());
        assert!(
            matches!(slots.find(other), Some((stream, AwaitedCall::Unary)) if stream == second)
        );
        assert!(slots.find(0).is_none() && slots.find(u64::MAX).is_none());
    }

    #[test]
    fn ids_stay_small_and_find_their_slots() {
        const CALLS: u64 = 10_000;
        let mut slots = JsonSlots::default();
        let (kept, of_kept) = slots.insert(AwaitedCall::Asked);
        for most in [1, 3, 100] {
            let mut open = VecDeque::new();
            for _ in 0..CALLS {
                open.push_back(slots.insert(AwaitedCall::Unary));
                if open.len() == most {
                    let (stream, id) = open.pop_front().expect("one");
                    assert_eq!(slots.find(id).map(|found| found.0), Some(stream));
                    slots.remove(stream);
                }
            }
            open.iter().for_each(|(stream, _)| drop(slots.remove(*stream)));
        }
        assert_eq!(slots.find(of_kept).map(|found| found.0), Some(kept), "after all of them");
        assert_eq!((of_kept, slots.sent, slots.slots.len()), (1, 1 + 3 * CALLS, 101));
        assert_eq!(slots.by_number.len(), 1);
    }

    #[test]
    fn slot_of_a_call_whose_end_is_not_told_is_nobody_elses() {
        let mut slots = JsonSlots::default();
        let (first, number) = slots.insert(AwaitedCall::Notified);
        assert!(slots.end(first).is_some() && slots.end(first).is_none());
        assert!(slots.find(number).is_none() && slots.get(first).is_none());
        let (second, _) = slots.insert(AwaitedCall::Unary);
        assert!(second.slot() != first.slot() && slots.len() == 2);
        slots.free(first);
        assert_eq!(slots.len(), 1);
        assert_eq!(slots.insert(AwaitedCall::Unary).0, first.next());
    }

    #[test]
    fn batch_is_found_as_long_as_one_of_its_sendings_waits() {
        let mut slots = JsonSlots::default();
        let (first, _) = slots.insert(AwaitedCall::Batch(7));
        let (other, _) = slots.insert(AwaitedCall::Batch(6));
        let (second, _) = slots.insert(AwaitedCall::Batch(7));
        for found in [first, second] {
            assert_eq!(slots.find_batch(7), Some(found));
            assert!(slots.remove(found).is_some());
        }
        assert_eq!((slots.find_batch(7), slots.find_batch(6)), (None, Some(other)));
    }

    #[test]
    fn subscription_is_given_up_until_its_id_or_its_end_comes() {
        let mut slots = JsonSlots::default();
        let [(first, _), (second, _)] = [(); 2].map(|()| slots.insert(AwaitedCall::Asked));
        assert!(slots.give_up(first) && !slots.give_up(first) && slots.give_up(second));
        assert_eq!(slots.given_up(), 2);
        assert!(slots.subscribe(first, Subscriber::new("1", 0)));
        assert_eq!(slots.given_up(), 1);
        assert!(slots.remove(first).is_some() && slots.remove(second).is_some());
        assert_eq!(slots.given_up(), 0);
    }

    #[test]
    fn reader_that_always_has_one_message_left_has_not_fallen_behind() {
        let mut subscriber = Subscriber::new("1", 0);
        let len = limits::JSONRPC_UNREAD_BYTES_MAX / 4;
        assert!(subscriber.add(len));
        for _ in 0..10 {
            assert!(subscriber.add(len), "at most two are unread");
            subscriber.read(1);
        }
        assert!((0..3).all(|_| subscriber.add(len)) && !subscriber.add(1), "the fifth is too much");
        subscriber.read(usize::MAX);
        assert!(subscriber.add(len));
    }

    #[test]
    fn reader_of_messages_as_long_as_its_client_takes_has_not_fallen_behind() {
        let len = 2 * limits::JSONRPC_UNREAD_BYTES_MAX;
        let mut subscriber = Subscriber::new("1", len);
        for _ in 0..3 {
            // All of one turn, before the reader runs.
            assert!([1, len, 1].into_iter().all(|len| subscriber.add(len)));
            subscriber.read(3);
        }
        assert!(subscriber.add(len) && !subscriber.add(len), "it does not read");
    }

    #[test]
    fn only_one_may_be_meant_by_an_answer_without_an_id() {
        let mut slots = JsonSlots::default();
        assert_eq!(slots.only_unanswered(), None);
        let (batch, _) = slots.insert(AwaitedCall::Batch(7));
        slots.insert(AwaitedCall::Subscribed(Subscriber::new("1", 0)));
        assert_eq!(slots.only_unanswered(), Some(batch));
        assert_eq!((slots.find_batch(7), slots.find_batch(8)), (Some(batch), None));
        slots.insert(AwaitedCall::Unary);
        assert_eq!(slots.only_unanswered(), None);
    }
}
