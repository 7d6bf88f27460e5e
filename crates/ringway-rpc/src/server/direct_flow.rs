//! The messages of a stream between the code that calls and the handler that serves it.

use std::collections::VecDeque;

use bytes::Bytes;
use ringway_wire::native::{Body, Gone, Side, StreamId, UNSENT_MARK};

use super::direct::{DirectMachine, DirectReply, Said, SlotState};
use crate::call::status::Status;
use crate::limits;

/// What one stream has under way.
#[derive(Debug, Default)]
pub(super) struct DirectFlow {
    /// What each message costs that the handler has not taken.
    unread: VecDeque<usize>,
    pub(super) unread_len: usize,
    replies: VecDeque<Bytes>,
    unsent_len: usize,
    pub(super) initial: Option<Vec<u8>>,
    /// Whether the caller waits for room.
    is_awaited: bool,
    /// Whether the handler has dropped its reader.
    is_ignored: bool,
}

impl DirectMachine {
    /// Passes a message of the caller on to the handler.
    pub(super) fn push(&mut self, stream: StreamId, message: Bytes) {
        let Some(flow) = self.slot(stream).map(|slot| &mut slot.flow) else { return };
        if flow.is_ignored {
            return;
        }
        let cost = message.len() + limits::DIRECT_MESSAGE_COST;
        flow.unread.push_back(cost);
        flow.unread_len += cost;
        self.unread += cost;
        self.said.push_back((stream, Said::Message(message)));
    }

    /// The caller sends no more messages.
    pub(super) fn push_end(&mut self, stream: StreamId) {
        if self.slot(stream).is_some() {
            self.said.push_back((stream, Said::End));
        }
    }

    /// Whether the caller may push another message. If not, it will be woken.
    pub(super) fn may_push(&mut self, stream: StreamId) -> bool {
        let Some(slot) = self.slot(stream) else { return true };
        slot.flow.is_awaited = slot.flow.unread_len >= limits::DIRECT_WINDOW;
        !slot.flow.is_awaited
    }

    /// The handler has taken so many messages.
    pub(super) fn take_messages(&mut self, stream: StreamId, messages: usize) {
        let Some(flow) = self.slot(stream).map(|slot| &mut slot.flow) else { return };
        let count = messages.min(flow.unread.len());
        let freed: usize = flow.unread.drain(..count).sum();
        flow.unread_len -= freed;
        let has_room = flow.is_awaited && flow.unread_len < limits::DIRECT_WINDOW;
        self.unread -= freed;
        self.has_news |= has_room;
    }

    /// The handler takes no more messages: those that come are dropped.
    pub(super) fn ignore_messages(&mut self, stream: StreamId) {
        let Some(slot) = self.slot(stream) else { return };
        slot.flow.is_ignored = true;
        let messages = slot.flow.unread.len();
        self.take_messages(stream, messages);
        self.said.retain(|(of, said)| *of != stream || !matches!(said, Said::Message(_)));
    }

    pub(super) fn send_reply(
        &mut self,
        stream: StreamId,
        meta: &[u8],
        message: Body<'_>,
    ) -> Result<bool, Gone> {
        let slot = self.slot(stream).filter(|slot| slot.state == SlotState::Running).ok_or(Gone)?;
        if !meta.is_empty() {
            slot.flow.initial = Some(meta.to_vec());
        }
        let message = match message {
            Body::Copy(bytes) => Bytes::copy_from_slice(bytes),
            Body::Shared(bytes) => bytes,
        };
        let cost = message.len() + limits::DIRECT_MESSAGE_COST;
        slot.flow.unsent_len += cost;
        slot.flow.replies.push_back(message);
        self.unsent += cost;
        Ok(self.may_send(stream))
    }

    /// Whether the handler may send another message.
    pub(super) fn may_send(&self, stream: StreamId) -> bool {
        let slot = self.slots.get(stream.slot() as usize).filter(|slot| slot.stream == stream);
        slot.is_none_or(|slot| slot.flow.unsent_len < UNSENT_MARK)
    }

    /// Takes the metadata that goes before the messages, once.
    pub(super) fn take_initial(&mut self, stream: StreamId) -> Option<Vec<u8>> {
        self.slot(stream)?.flow.initial.take()
    }

    /// Takes the next message of the handler.
    pub(super) fn take_message(&mut self, stream: StreamId) -> Option<Bytes> {
        let flow = &mut self.slot(stream)?.flow;
        let message = flow.replies.pop_front()?;
        let (cost, before) = (message.len() + limits::DIRECT_MESSAGE_COST, flow.unsent_len);
        flow.unsent_len -= cost;
        let has_room = before >= UNSENT_MARK && flow.unsent_len < UNSENT_MARK;
        self.unsent -= cost;
        if has_room {
            self.writable.push_back(stream);
        }
        Some(message)
    }

    /// Answers a call in place of its handler, which is dropped.
    pub(super) fn fail(&mut self, stream: StreamId, status: &Status) {
        let slot = self.slot(stream).filter(|slot| slot.state == SlotState::Running);
        let Some(slot) = slot else { return };
        slot.state = SlotState::Answered(DirectReply::failed(status));
        self.clear_flow(stream);
        self.said.retain(|(of, said)| *of != stream || matches!(said, Said::Begin { .. }));
        self.failed.push_back((stream, status.code()));
        self.has_news = true;
    }

    /// The stream that keeps the most, and how many bytes.
    pub(super) fn largest(&self, side: Side) -> Option<(usize, StreamId)> {
        let running = self.slots.iter().filter(|slot| slot.state == SlotState::Running);
        let kept = running.map(|slot| match side {
            Side::Unread => (slot.flow.unread_len, slot.stream),
            Side::Unsent => (slot.flow.unsent_len, slot.stream),
        });
        kept.max().filter(|(len, _)| *len > 0)
    }

    /// Forgets what a stream has under way.
    pub(super) fn clear_flow(&mut self, stream: StreamId) {
        let Some(slot) = self.slots.get_mut(stream.slot() as usize) else { return };
        let flow = std::mem::take(&mut slot.flow);
        self.unread -= flow.unread_len;
        self.unsent -= flow.unsent_len;
        self.discarded.extend(flow.replies);
        self.writable.retain(|of| *of != stream);
    }

    /// Gives up the messages that no caller will take.
    pub(super) fn discard_replies(&mut self) {
        for slot in &mut self.slots {
            self.unsent -= std::mem::take(&mut slot.flow.unsent_len);
            self.discarded.extend(slot.flow.replies.drain(..));
        }
    }
}
