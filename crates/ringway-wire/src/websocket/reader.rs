//! Frames become messages.

use super::close_code::CloseCode;
use super::deflate::Inflating;
use super::fault::FrameFault;
use super::head::{ControlKind, DataKind, FrameHead, HEAD_LEN_MAX, Opcode, Rules};
use super::mask;
use super::message::{Arrival, Closing, WebSocketMessage};
use crate::limits::WEBSOCKET_MESSAGE_EAGER;

/// Reads what a peer sends, from slices that are cut anywhere.
///
/// ```text
///   head ──► payload ──► head …      fragments gather in `message`, a control frame between them in `control`
/// ```
#[derive(Debug)]
pub struct MessageReader {
    rules: Rules,
    message_max: usize,
    head: PartialHead,
    payload: Option<Payload>,
    message: PartialMessage,
    /// What is there of a control frame; without memory between two.
    control: Vec<u8>,
    end: Option<Result<(), FrameFault>>,
}

/// The front of a head that a slice has ended in.
#[derive(Debug, Default)]
struct PartialHead {
    bytes: [u8; HEAD_LEN_MAX],
    len: usize,
}

/// A payload that is being read.
#[derive(Debug)]
struct Payload {
    opcode: Opcode,
    is_final: bool,
    mask: Option<[u8; 4]>,
    /// Bytes of it that were taken.
    taken: usize,
    /// Bytes of it that are to come.
    left: usize,
}

/// The fragments of a message until now.
#[derive(Debug, Default)]
struct PartialMessage {
    /// `None` between two messages; `bytes` has no memory then.
    kind: Option<DataKind>,
    is_compressed: bool,
    bytes: Vec<u8>,
    /// Bytes of a text that were found to be UTF-8; it ends at a character.
    checked: usize,
    /// The message before it, which has come whole and is not decompressed.
    unpacking: Option<Box<(DataKind, Inflating)>>,
}

impl MessageReader {
    /// The reader of a server, whose messages have `message_max` bytes at most.
    #[must_use]
    pub fn of_client(message_max: usize) -> Self {
        Self::new(true, message_max)
    }

    /// The reader of a client, whose messages have `message_max` bytes at most.
    #[must_use]
    pub fn of_server(message_max: usize) -> Self {
        Self::new(false, message_max)
    }

    fn new(is_of_client: bool, message_max: usize) -> Self {
        Self {
            rules: Rules { is_of_client, deflates: false },
            message_max,
            head: PartialHead::default(),
            payload: None,
            message: PartialMessage::default(),
            control: Vec::new(),
            end: None,
        }
    }

    /// Takes compressed messages as well: permessage-deflate was agreed on (RFC 7692), and that each message is
    /// compressed by itself (no context takeover).
    ///
    /// `message_max` holds for what they contain. Without the feature `compression` they are refused.
    #[must_use]
    pub fn with_deflate(mut self) -> Self {
        self.rules.deflates = true;
        self
    }

    /// Takes the next thing that is whole off the front of `input`, or all of `input` if nothing is. Behind a
    /// Close frame, everything is ignored.
    ///
    /// A long message that is compressed takes several calls, so that other work goes on between them: while it
    /// [is unpacking](Self::is_unpacking) one, `None` leaves `input` as it is, and asks to be called again.
    ///
    /// # Errors
    /// The first fault of the peer, again and again.
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Option<Arrival>, FrameFault> {
        if let Some(end) = self.end {
            *input = &[];
            return end.map(|()| None);
        }
        let arrival = self.read(input);
        match &arrival {
            Err(fault) => self.end = Some(Err(*fault)),
            Ok(Some(Arrival::Close(_))) => self.end = Some(Ok(())),
            Ok(_) => {}
        }
        if self.end.is_some() {
            (self.message, self.control) = Default::default();
        }
        arrival
    }

    /// Fast path: takes a server's text off the front of `input` without a copy. `None` if something else is
    /// next there, or not all of it, which [`next`](Self::next) then reads.
    #[inline]
    pub fn next_in_place<'i>(&mut self, input: &mut &'i [u8]) -> Option<&'i str> {
        let is_between = self.payload.is_none()
            && self.message.kind.is_none()
            && self.message.unpacking.is_none()
            && self.head.len == 0;
        if self.rules.is_of_client || self.end.is_some() || !is_between {
            return None;
        }
        let (head, begin) = FrameHead::read(input, self.rules).ok()??;
        let length = usize::try_from(head.length).ok().filter(|len| *len <= self.message_max)?;
        if !head.is_final || head.is_compressed || head.opcode != Opcode::Data(DataKind::Text) {
            return None;
        }
        let end = begin.checked_add(length)?;
        let text = std::str::from_utf8(input.get(begin..end)?).ok()?;
        *input = &input[end..];
        Some(text)
    }

    /// Whether a message has come whole, and is decompressed by the next calls of [`next`](Self::next), which need no
    /// input.
    #[inline]
    #[must_use]
    pub fn is_unpacking(&self) -> bool {
        self.message.unpacking.is_some()
    }

    /// Bytes of a message that has begun and is not whole, or not decompressed.
    #[must_use]
    pub fn unfinished(&self) -> Option<usize> {
        if let Some(unpacking) = &self.message.unpacking {
            return Some(unpacking.1.held());
        }
        let is_begun = self.message.kind.is_some()
            || matches!(&self.payload, Some(payload) if matches!(payload.opcode, Opcode::Data(_)));
        is_begun.then_some(self.message.bytes.len())
    }

    /// Memory that it holds besides itself, in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        let unpacking = self.message.unpacking.as_ref().map_or(0, |unpacking| unpacking.1.held());
        self.message.bytes.capacity() + self.control.capacity() + unpacking
    }

    fn read(&mut self, input: &mut &[u8]) -> Result<Option<Arrival>, FrameFault> {
        if let Some(unpacking) = self.message.unpacking.take() {
            return Ok(self.message.unpack(unpacking)?.map(Arrival::Message));
        }
        loop {
            let payload = match &mut self.payload {
                Some(payload) => payload,
                None => match self.head.take(input, self.rules)? {
                    Some(head) => self.payload.insert(self.message.begin(&head, self.message_max)?),
                    None => return Ok(None),
                },
            };
            let piece = input.split_off(..payload.left.min(input.len())).expect("within");
            let target = match payload.opcode {
                Opcode::Control(_) => &mut self.control,
                Opcode::Data(_) | Opcode::Continuation => {
                    let rest = payload.is_final.then_some(payload.left);
                    self.message.make_room(piece.len(), rest, self.message_max);
                    &mut self.message.bytes
                }
            };
            payload.take(piece, target);
            if payload.left > 0 {
                return Ok(None);
            }
            let (opcode, is_final) = (payload.opcode, payload.is_final);
            self.payload = None;
            let arrival = match opcode {
                Opcode::Control(kind) => Some(control(kind, std::mem::take(&mut self.control))?),
                _ => self.message.end_frame(is_final, self.message_max)?.map(Arrival::Message),
            };
            if arrival.is_some() || self.is_unpacking() {
                return Ok(arrival);
            }
        }
    }
}

impl PartialHead {
    /// The next head, taken off the front of `input`; `None` if it ends before.
    fn take(&mut self, input: &mut &[u8], rules: Rules) -> Result<Option<FrameHead>, FrameFault> {
        let known = self.len;
        if known == 0
            && let Some((head, len)) = FrameHead::read(input, rules)?
        {
            *input = &input[len..];
            return Ok(Some(head));
        }
        let more = input.len().min(HEAD_LEN_MAX - known);
        self.bytes[known..known + more].copy_from_slice(&input[..more]);
        match FrameHead::read(&self.bytes[..known + more], rules)? {
            Some((head, len)) => {
                *input = &input[len - known..];
                self.len = 0;
                Ok(Some(head))
            }
            None => {
                *input = &input[more..];
                self.len = known + more;
                Ok(None)
            }
        }
    }
}

impl Payload {
    fn take(&mut self, piece: &[u8], target: &mut Vec<u8>) {
        let begin = target.len();
        target.extend_from_slice(piece);
        if let Some(mask) = self.mask {
            mask::apply(&mut target[begin..], mask, self.taken);
        }
        self.taken += piece.len();
        self.left -= piece.len();
    }
}

impl PartialMessage {
    /// Begins a frame, whose head is right by itself, where the last one has ended.
    fn begin(&mut self, head: &FrameHead, max: usize) -> Result<Payload, FrameFault> {
        match (head.opcode, self.kind) {
            (Opcode::Continuation, None) => return Err(FrameFault::NothingToContinue),
            (Opcode::Data(_), Some(_)) => return Err(FrameFault::MessageInMessage),
            (Opcode::Data(kind), None) => {
                (self.kind, self.is_compressed) = (Some(kind), head.is_compressed);
            }
            (Opcode::Continuation, Some(_)) | (Opcode::Control(_), _) => {}
        }
        let room = match head.opcode {
            Opcode::Control(_) => usize::MAX, // its head was refused if it is too long
            _ => self.bytes_max(max) - self.bytes.len(),
        };
        let left = usize::try_from(head.length).ok().filter(|length| *length <= room);
        let left = left.ok_or(FrameFault::TooLong { max })?;
        let (opcode, is_final, mask) = (head.opcode, head.is_final, head.mask);
        Ok(Payload { opcode, is_final, mask, taken: 0, left })
    }

    /// The bytes that may come of a message of at most `max` bytes: compression makes some a little longer.
    fn bytes_max(&self, max: usize) -> usize {
        if self.is_compressed { max.saturating_add(max / 1024 + 64) } else { max }
    }

    /// Makes room for a piece. `rest` is what the message still lacks with it, if that is known. What is
    /// reserved beyond the piece is bounded by what has come, so that announcing costs more than it takes.
    fn make_room(&mut self, piece: usize, rest: Option<usize>, max: usize) {
        let len = self.bytes.len();
        if self.bytes.capacity() - len >= piece {
            return;
        }
        let spare = match rest {
            Some(rest) => rest.min(piece.max(len).max(WEBSOCKET_MESSAGE_EAGER)),
            None => piece.max(len).min(self.bytes_max(max) - len),
        };
        self.bytes.reserve_exact(spare);
    }

    fn end_frame(
        &mut self,
        is_final: bool,
        max: usize,
    ) -> Result<Option<WebSocketMessage>, FrameFault> {
        if !is_final {
            if self.kind == Some(DataKind::Text) && !self.is_compressed {
                self.check()?;
            }
            return Ok(None);
        }
        let Self { kind, is_compressed, bytes, .. } = std::mem::take(self);
        let kind = kind.expect("begun with the frame");
        match is_compressed {
            true => self.unpack(Box::new((kind, Inflating::new(bytes, max)))),
            false => whole(kind, bytes).map(Some),
        }
    }

    /// Does a part of the work to decompress a message, and keeps it if there is more to do.
    fn unpack(
        &mut self,
        mut unpacking: Box<(DataKind, Inflating)>,
    ) -> Result<Option<WebSocketMessage>, FrameFault> {
        match unpacking.1.step()? {
            Some(bytes) => whole(unpacking.0, bytes).map(Some),
            None => {
                self.unpacking = Some(unpacking);
                Ok(None)
            }
        }
    }

    /// Checks what is new of a text; its last character may be cut.
    fn check(&mut self) -> Result<(), FrameFault> {
        match std::str::from_utf8(&self.bytes[self.checked..]) {
            Ok(_) => self.checked = self.bytes.len(),
            Err(error) if error.error_len().is_none() => self.checked += error.valid_up_to(),
            Err(_) => return Err(FrameFault::NotUtf8),
        }
        Ok(())
    }
}

fn whole(kind: DataKind, bytes: Vec<u8>) -> Result<WebSocketMessage, FrameFault> {
    Ok(match kind {
        DataKind::Binary => WebSocketMessage::Binary(bytes.into()),
        DataKind::Text => {
            WebSocketMessage::Text(String::from_utf8(bytes).map_err(|_| FrameFault::NotUtf8)?)
        }
    })
}

fn control(kind: ControlKind, payload: Vec<u8>) -> Result<Arrival, FrameFault> {
    Ok(match kind {
        ControlKind::Ping => Arrival::Ping(payload),
        ControlKind::Pong => Arrival::Pong(payload),
        ControlKind::Close => Arrival::Close(closing(&payload)?),
    })
}

/// RFC 6455 section 5.5.1.
fn closing(payload: &[u8]) -> Result<Closing, FrameFault> {
    let Some((code, reason)) = payload.split_first_chunk() else {
        return match payload {
            [] => Ok(Closing { code: CloseCode::NONE, reason: String::new() }),
            _ => Err(FrameFault::CloseLength),
        };
    };
    let code = CloseCode::from(u16::from_be_bytes(*code));
    if !code.may_be_sent() {
        return Err(FrameFault::CloseCode(code));
    }
    let reason = std::str::from_utf8(reason).map_err(|_| FrameFault::NotUtf8)?;
    Ok(Closing { code, reason: reason.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::websocket::{WebSocketMessage, put_binary, put_ping, put_text};

    #[test]
    fn whole_text_is_read_in_place_and_all_else_is_left() {
        let mut text = Vec::new();
        put_text("h\u{fc}llo", None, &mut text);
        for cut in 0..text.len() {
            let mut reader = MessageReader::of_server(10);
            let mut input = &text[..cut];
            assert_eq!(reader.next_in_place(&mut input), None);
            assert_eq!(input.len(), cut);
            assert_eq!(reader.next(&mut input), Ok(None));
            // Behind the front of a frame, nothing stands alone.
            let mut input = &text[cut..];
            assert_eq!(reader.next_in_place(&mut input).is_some(), cut == 0);
            let rest = (cut > 0).then(|| Arrival::Message(WebSocketMessage::from("h\u{fc}llo")));
            assert_eq!(reader.next(&mut input), Ok(rest));
        }
        let two = [&text[..], &text].concat();
        let (mut reader, mut input) = (MessageReader::of_server(10), &two[..]);
        assert_eq!(reader.next_in_place(&mut input), Some("h\u{fc}llo"));
        assert_eq!(input, &text[..]);
        let mut others = [const { Vec::new() }; 4];
        put_binary(b"a", None, &mut others[0]);
        put_ping(b"a", None, &mut others[1]);
        put_text("12345678901", None, &mut others[2]);
        others[3].extend_from_slice(b"\x01\x01a\x80\x01b");
        for other in &others {
            let mut input = &other[..];
            assert_eq!(MessageReader::of_server(10).next_in_place(&mut input), None);
            assert_eq!(input, &other[..]);
        }
        for wrong in [&b"\x81\x01\xff"[..], b"\xc1\x01a", b"\x81\x81abcde"] {
            assert_eq!(MessageReader::of_server(10).next_in_place(&mut &*wrong), None);
        }
        assert_eq!(MessageReader::of_client(10).next_in_place(&mut &text[..]), None);
    }
}
