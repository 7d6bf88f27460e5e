//! The receiving side of one stream: assembles fragments into messages and returns credit (section
//! 6).

use std::collections::VecDeque;

use bytes::Bytes;

use super::frame::cost;
use super::too_large::TooLarge;
use super::window::Window;
use super::{FrameKind, Piece, RequestHead, StreamId, Violation};
use crate::limits::{NATIVE_COSTS_KEPT, NATIVE_MESSAGE_LEAST};

/// A message that has arrived in part.
#[derive(Debug)]
struct Assembly {
    bytes: Vec<u8>,
    /// Length of the whole message, if its sender announced it.
    announced: Option<u32>,
    /// Credit that it used and that is not returned yet, because another message is in front.
    unreturned: u32,
}

/// The result of receiving a fragment.
#[derive(Debug)]
pub(super) enum Assembled<'i> {
    /// The message is not complete yet.
    Partial,
    Message(Piece<'i>),
    /// The message is longer than this end accepts.
    TooLarge(TooLarge),
    /// The message is dropped because nobody reads it.
    Ignored,
}

/// A received fragment, with the fields of its frame.
#[derive(Debug)]
pub(super) struct IncomingFragment<'i> {
    pub(super) stream: StreamId,
    pub(super) payload: Piece<'i>,
    /// The message continues in another frame.
    pub(super) has_more: bool,
    /// The `aux` field of the frame: on a first fragment the length of the message, or 0 if
    /// unknown.
    pub(super) announced: u32,
    pub(super) message_max: u32,
}

/// A request that is held back until it is complete.
#[derive(Debug)]
pub(super) struct Unready {
    pub(super) head: RequestHead,
    /// The metadata, in memory of its own so that it keeps nothing else alive.
    pub(super) meta: Bytes,
    /// The message, if only the end is missing.
    pub(super) message: Option<Bytes>,
    /// The request must consist of one message and the end; otherwise only its message is awaited.
    pub(super) is_single: bool,
}

impl Unready {
    fn len(&self) -> usize {
        self.meta.len() + self.message.as_ref().map_or(0, Bytes::len)
    }
}

/// The receiving side of a stream.
#[derive(Debug, Default)]
pub(super) struct ReceiveSide {
    pub(super) window: Window,
    /// Number of delivered messages that the reader has not taken.
    untaken: usize,
    /// The cost of the first of these messages.
    front: u32,
    /// The costs of the messages behind the first.
    costs: VecDeque<u32>,
    assembly: Option<Assembly>,
    /// An incomplete REQUEST.
    pub(super) request: Option<Unready>,
    /// Whether something has arrived, so that metadata in later frames is not the initial one.
    pub(super) has_begun: bool,
    pub(super) has_ended: bool,
    /// Whether the reader is gone, so that input is dropped.
    is_ignored: bool,
}

impl ReceiveSide {
    /// Resets the state for another stream.
    pub(super) fn reset(&mut self, window: u32) {
        self.costs.clear();
        self.costs.shrink_to(NATIVE_COSTS_KEPT);
        let (window, costs) = (Window::new(window), std::mem::take(&mut self.costs));
        *self = Self { window, costs, ..Self::default() };
    }

    /// Memory, in bytes, of buffers that stay for the next stream.
    pub(super) fn spare(&self) -> usize {
        self.costs.capacity() * size_of::<u32>()
    }

    /// Drops incomplete data and delivers nothing more of this stream.
    pub(super) fn abandon(&mut self) {
        self.assembly = None;
        self.request = None;
        self.has_ended = true;
        self.hand_over();
    }

    /// Drops all further input, and returns no credit for it.
    pub(super) fn ignore(&mut self) {
        self.assembly = None;
        self.is_ignored = true;
        self.hand_over();
    }

    /// Forgets delivered messages, because the reader will not report them as taken.
    pub(super) fn hand_over(&mut self) {
        self.untaken = 0;
        self.front = 0;
        self.costs.clear();
    }

    /// Bytes of messages that the reader has not taken.
    pub(super) fn untaken(&self) -> usize {
        if self.untaken == 0 {
            return 0;
        }
        let assembling = self.assembly.as_ref().map_or(0, |assembly| assembly.unreturned);
        self.front as usize + (self.window.waiting() - assembling) as usize
    }

    /// Memory, in bytes, of an incomplete message and the request that waits for it.
    #[inline]
    pub(super) fn assembled(&self) -> usize {
        let message = self.assembly.as_ref().map_or(0, |assembly| assembly.bytes.capacity());
        message + self.request.as_ref().map_or(0, Unready::len)
    }

    /// Whether a message or the request is incomplete.
    #[inline]
    pub(super) fn is_unready(&self) -> bool {
        self.assembly.is_some() || self.request.is_some()
    }

    /// By how many bytes [`assembled`](Self::assembled) grows with this fragment, if the message
    /// continues after it.
    pub(super) fn growth(&self, fragment: &IncomingFragment<'_>) -> usize {
        let (held, now, announced) = match &self.assembly {
            None => (0, 0, fragment.announced()),
            Some(assembly) => (assembly.bytes.len(), assembly.bytes.capacity(), assembly.announced),
        };
        let needed = held + fragment.payload.len();
        // A message that is too long by itself is rejected for that, and nothing of it is kept.
        if needed <= now || needed > fragment.message_max as usize {
            return 0;
        }
        capacity(needed, announced.unwrap_or(fragment.message_max)) - now
    }

    /// Whether nothing has been received yet.
    pub(super) fn is_untouched(&self) -> bool {
        !self.has_begun && self.assembly.is_none() && self.window.delivered() == 0
    }

    pub(super) fn is_assembling(&self) -> bool {
        self.assembly.is_some()
    }

    /// Receives one fragment.
    ///
    /// # Errors
    ///
    /// Fails when it exceeds the credit or contradicts the announced length.
    pub(super) fn fragment<'i>(
        &mut self,
        fragment: IncomingFragment<'i>,
    ) -> Result<Assembled<'i>, Violation> {
        let cost = cost(fragment.payload.len());
        if !self.window.spend(cost) {
            let by = u64::from(cost - self.window.granted());
            return Err(Violation::CreditExceeded { stream: fragment.stream, by });
        }
        if self.is_ignored {
            return Ok(Assembled::Ignored);
        }
        if self.untaken == 0 {
            self.window.add_pending(cost);
        }
        if self.assembly.is_none() && !fragment.has_more {
            if fragment.payload.len() > fragment.message_max as usize {
                let (len, max) = (fragment.payload.len(), fragment.message_max);
                return Ok(Assembled::TooLarge(TooLarge::Message { len, max }));
            }
            self.deliver(cost);
            return Ok(Assembled::Message(fragment.payload));
        }
        self.assemble(fragment, cost)
    }

    /// Receives a single-frame message if there is credit for it and no other message is
    /// incomplete.
    #[inline]
    pub(super) fn whole(&mut self, cost: u32) -> bool {
        let is_closed = self.has_ended | self.is_ignored | self.request.is_some();
        if self.assembly.is_some() || is_closed || !self.window.spend(cost) {
            return false;
        }
        if self.untaken == 0 {
            self.window.add_pending(cost);
        }
        self.deliver(cost);
        true
    }

    fn assemble<'i>(
        &mut self,
        fragment: IncomingFragment<'i>,
        cost: u32,
    ) -> Result<Assembled<'i>, Violation> {
        let announced = fragment.announced();
        let assembly = self.assembly.get_or_insert_with(|| Assembly {
            bytes: Vec::new(),
            announced,
            unreturned: 0,
        });
        let len = assembly.bytes.len() + fragment.payload.len();
        if len.max(assembly.announced.unwrap_or(0) as usize) > fragment.message_max as usize {
            let max = fragment.message_max;
            return Ok(Assembled::TooLarge(match assembly.announced {
                Some(len) => TooLarge::Message { len: len as usize, max },
                None => TooLarge::Unannounced { max },
            }));
        }
        if self.untaken > 0 {
            assembly.unreturned += cost;
        }
        assembly.append(&fragment.payload, fragment.message_max);
        check_length(&fragment, len, assembly.announced)?;
        if fragment.has_more {
            return Ok(Assembled::Partial);
        }
        let unreturned = assembly.unreturned;
        let bytes = Bytes::from(std::mem::take(&mut assembly.bytes));
        self.assembly = None;
        // The message in front has returned its credit, so only the cost of this one counts.
        self.deliver(if self.untaken > 0 { unreturned } else { self::cost(bytes.len()) });
        Ok(Assembled::Message(Piece::Owned(bytes)))
    }

    /// Counts a complete message; the first in the queue returned its credit on arrival.
    #[inline]
    fn deliver(&mut self, cost: u32) {
        if self.untaken > 0 {
            self.costs.push_back(cost);
        } else {
            self.front = cost;
        }
        self.untaken += 1;
    }

    /// Records that the reader took messages, returns credit for as many behind the first, and
    /// returns how many bytes were freed.
    #[inline]
    pub(super) fn taken(&mut self, messages: usize) -> u32 {
        let messages = messages.min(self.untaken);
        self.untaken -= messages;
        // The last message that returns its credit is now in front, unless all are gone.
        let (front, returned) = match messages {
            0 => return 0,
            1 => self.costs.pop_front().map_or((0, 0), |next| (next, next)),
            _ => self.pop_costs(messages),
        };
        let gone = std::mem::replace(&mut self.front, front) + returned - front;
        self.window.add_pending(returned);
        if self.untaken == 0
            && let Some(assembly) = &mut self.assembly
        {
            self.window.add_pending(std::mem::take(&mut assembly.unreturned));
        }
        gone
    }

    /// The cost of the message that is now in front, and the sum of the costs up to it.
    fn pop_costs(&mut self, messages: usize) -> (u32, u32) {
        let known = messages.min(self.costs.len());
        let front = if known == messages { self.costs[known - 1] } else { 0 };
        (front, self.costs.drain(..known).sum())
    }
}

/// Checks the length of a message against what its first fragment announced.
fn check_length(
    fragment: &IncomingFragment<'_>,
    len: usize,
    announced: Option<u32>,
) -> Result<(), Violation> {
    let Some(announced) = announced else {
        return Ok(());
    };
    let stream = fragment.stream;
    if len > announced as usize {
        return Err(Violation::LongerThanAnnounced { stream, announced });
    }
    if (len == announced as usize) == fragment.has_more {
        return Err(Violation::OutOfOrder { kind: FrameKind::Data, stream });
    }
    Ok(())
}

impl IncomingFragment<'_> {
    fn announced(&self) -> Option<u32> {
        (self.announced != 0).then_some(self.announced)
    }
}

impl Assembly {
    /// Appends `piece` to a message that may have `message_max` bytes.
    fn append(&mut self, piece: &[u8], message_max: u32) {
        let needed = self.bytes.len() + piece.len();
        if needed > self.bytes.capacity() {
            // `reserve` could double the capacity although the message needs less.
            let most = self.announced.unwrap_or(message_max);
            self.bytes.reserve_exact(capacity(needed, most) - self.bytes.len());
        }
        self.bytes.extend_from_slice(piece);
    }
}

/// Capacity for `needed` received bytes of a message: at most twice as much, and no more than the
/// `most` bytes that the message can have.
fn capacity(needed: usize, most: u32) -> usize {
    NATIVE_MESSAGE_LEAST.max(needed * 2).min(most as usize).max(needed)
}
