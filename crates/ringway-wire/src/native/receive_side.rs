//! What one stream receives: fragments into messages, and the credit for them (section 6).

use std::collections::VecDeque;

use bytes::Bytes;

use super::frame::cost;
use super::too_large::TooLarge;
use super::window::Window;
use super::{FrameKind, Piece, RequestHead, StreamId, Violation};
use crate::limits::{NATIVE_COSTS_KEPT, NATIVE_MESSAGE_LEAST};

/// A message of which fragments have come.
#[derive(Debug)]
struct Assembly {
    bytes: Vec<u8>,
    /// Bytes of the whole message, if its sender said so.
    announced: Option<u32>,
    /// Credit that it used up and that was not returned, as another message is in front.
    unreturned: u32,
}

/// What a fragment amounts to.
#[derive(Debug)]
pub(super) enum Assembled<'i> {
    /// The message goes on.
    Partial,
    Message(Piece<'i>),
    /// The message is longer than this end takes.
    TooLarge(TooLarge),
    /// Nobody reads it.
    Ignored,
}

/// A fragment, as its header describes it.
#[derive(Debug)]
pub(super) struct IncomingFragment<'i> {
    pub(super) stream: StreamId,
    pub(super) payload: Piece<'i>,
    /// The message continues in another frame.
    pub(super) has_more: bool,
    /// `aux` of the frame: on a first fragment the length of the message, if it is not 0.
    pub(super) announced: u32,
    pub(super) message_max: u32,
}

/// A request that is kept until nothing of it is missing.
#[derive(Debug)]
pub(super) struct Unready {
    pub(super) head: RequestHead,
    /// In memory of its own: nothing else is kept alive by it.
    pub(super) meta: Bytes,
    /// Its message, where the end is missing.
    pub(super) message: Option<Bytes>,
    /// It takes one message and the end; otherwise the message alone.
    pub(super) is_single: bool,
}

impl Unready {
    fn len(&self) -> usize {
        self.meta.len() + self.message.as_ref().map_or(0, Bytes::len)
    }
}

/// The receiving half of a stream.
#[derive(Debug, Default)]
pub(super) struct ReceiveSide {
    pub(super) window: Window,
    /// Messages handed out that the reader has not taken.
    untaken: usize,
    /// What the first of them cost.
    front: u32,
    /// What those behind it cost.
    costs: VecDeque<u32>,
    assembly: Option<Assembly>,
    /// A REQUEST of which something is missing.
    pub(super) request: Option<Unready>,
    /// Something has come that is the first from its sender, so metadata of what follows is not the
    /// initial one.
    pub(super) has_begun: bool,
    pub(super) has_ended: bool,
    /// Nobody reads what comes.
    is_ignored: bool,
}

impl ReceiveSide {
    /// Ready for another stream.
    pub(super) fn reset(&mut self, window: u32) {
        self.costs.clear();
        self.costs.shrink_to(NATIVE_COSTS_KEPT);
        let (window, costs) = (Window::new(window), std::mem::take(&mut self.costs));
        *self = Self { window, costs, ..Self::default() };
    }

    /// Bytes of the buffers that wait for another stream.
    pub(super) fn spare(&self) -> usize {
        self.costs.capacity() * size_of::<u32>()
    }

    /// Drops what was assembled; nothing of this stream is delivered any more.
    pub(super) fn abandon(&mut self) {
        self.assembly = None;
        self.request = None;
        self.has_ended = true;
        self.hand_over();
    }

    /// What comes from now on is dropped, and returns no credit.
    pub(super) fn ignore(&mut self) {
        self.assembly = None;
        self.is_ignored = true;
        self.hand_over();
    }

    /// Nobody will tell that messages were taken.
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

    /// Bytes of memory for what is not whole: a message, the rest of its request.
    #[inline]
    pub(super) fn assembled(&self) -> usize {
        let message = self.assembly.as_ref().map_or(0, |assembly| assembly.bytes.capacity());
        message + self.request.as_ref().map_or(0, Unready::len)
    }

    /// Whether something is not whole.
    #[inline]
    pub(super) fn is_unready(&self) -> bool {
        self.assembly.is_some() || self.request.is_some()
    }

    /// By how much that grows with such a fragment, if the message goes on behind it.
    pub(super) fn auto_tune(&self, fragment: &IncomingFragment<'_>) -> usize {
        let more = fragment.payload.len();
        match &self.assembly {
            None => capacity(more, fragment.announced()),
            Some(assembly) => {
                let needed = assembly.bytes.len() + more;
                let now = assembly.bytes.capacity();
                if needed <= now { 0 } else { capacity(needed, assembly.announced) - now }
            }
        }
    }

    /// Whether nothing has come of it yet.
    pub(super) fn is_untouched(&self) -> bool {
        !self.has_begun && self.assembly.is_none() && self.window.delivered() == 0
    }

    pub(super) fn is_assembling(&self) -> bool {
        self.assembly.is_some()
    }

    /// Takes one fragment.
    ///
    /// # Errors
    ///
    /// When it exceeds the credit, or contradicts the announced length.
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

    /// Takes a message of one frame, if there is credit for it and it is not part of another.
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
        assembly.append(&fragment.payload);
        check_length(&fragment, len, assembly.announced)?;
        if fragment.has_more {
            return Ok(Assembled::Partial);
        }
        let unreturned = assembly.unreturned;
        let bytes = Bytes::from(std::mem::take(&mut assembly.bytes));
        self.assembly = None;
        // The one in front has returned its credit, so this is only what it takes up.
        self.deliver(if self.untaken > 0 { unreturned } else { self::cost(bytes.len()) });
        Ok(Assembled::Message(Piece::Owned(bytes)))
    }

    /// Counts a complete message: the first in the queue has returned its credit on arrival.
    #[inline]
    fn deliver(&mut self, cost: u32) {
        if self.untaken > 0 {
            self.costs.push_back(cost);
        } else {
            self.front = cost;
        }
        self.untaken += 1;
    }

    /// The reader took messages: as many behind the first of them return their credit. What they
    /// took up is the answer.
    #[inline]
    pub(super) fn taken(&mut self, messages: usize) -> u32 {
        let messages = messages.min(self.untaken);
        self.untaken -= messages;
        // The last that returns its credit is in front now, unless all are gone.
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

    /// The cost of the message that comes in front, and all costs up to it.
    fn pop_costs(&mut self, messages: usize) -> (u32, u32) {
        let known = messages.min(self.costs.len());
        let front = if known == messages { self.costs[known - 1] } else { 0 };
        (front, self.costs.drain(..known).sum())
    }
}

/// A message is as long as its first fragment said.
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
    /// Appends `piece`.
    fn append(&mut self, piece: &[u8]) {
        let needed = self.bytes.len() + piece.len();
        if needed > self.bytes.capacity() {
            // Not `reserve`, which may double what is there although the message needs less.
            self.bytes.reserve_exact(capacity(needed, self.announced) - self.bytes.len());
        }
        self.bytes.extend_from_slice(piece);
    }
}

/// Memory for the `needed` bytes that came of a message. It follows these by a factor of two at most.
fn capacity(needed: usize, announced: Option<u32>) -> usize {
    let wanted = NATIVE_MESSAGE_LEAST.max(needed * 2);
    announced.map_or(wanted, |total| wanted.min(total as usize)).max(needed)
}
