//! The frames of replies: Connect's envelopes, and those of gRPC-Web.

use std::collections::VecDeque;

use bytes::Bytes;
use ringway_wire::grpc::{put_status_message, status_text};
use ringway_wire::web::{CONNECT_END, GRPC_WEB_TRAILERS, envelope, put_padded};

use super::failure::end_json;
use super::fields::texts;
use super::protocol::Framing;
use crate::call::metadata::Metadata;
use crate::call::status::{Code, Status};
use crate::limits;

/// Frames that are written and not taken yet.
#[derive(Debug)]
pub(super) struct Frames {
    framing: Framing,
    /// Small frames, one behind another.
    gathered: Vec<u8>,
    chunks: VecDeque<Bytes>,
}

impl Frames {
    pub(super) fn new(framing: Framing) -> Self {
        Self { framing, gathered: Vec::new(), chunks: VecDeque::new() }
    }

    /// Writes a message, which shares its memory if it is long.
    pub(super) fn put_message(&mut self, message: Bytes, is_compressed: bool) {
        let Ok(len) = u32::try_from(message.len()) else {
            unreachable!("messages are shorter than {}", limits::MESSAGE_BYTES_MAX);
        };
        self.gathered.extend_from_slice(&envelope(u8::from(is_compressed), len));
        if message.len() <= limits::REPLY_COPY_MAX || self.framing == Framing::GrpcWebText {
            self.gathered.extend_from_slice(&message);
        } else {
            self.close_chunk();
            self.chunks.push_back(message);
        }
    }

    /// Writes the last frame, which says how the call has ended.
    pub(super) fn put_end(&mut self, outcome: &Result<Metadata, Status>) {
        let (flags, end) = match self.framing {
            Framing::Connect => (CONNECT_END, end_json(outcome).to_string().into_bytes()),
            Framing::GrpcWeb | Framing::GrpcWebText => (GRPC_WEB_TRAILERS, trailer_lines(outcome)),
        };
        self.gathered.extend_from_slice(&envelope(flags, end.len() as u32));
        self.gathered.extend_from_slice(&end);
    }

    /// Bytes that wait.
    pub(super) fn len(&self) -> usize {
        self.gathered.len() + self.chunks.iter().map(Bytes::len).sum::<usize>()
    }

    /// Whether the next chunk is the only one.
    pub(super) fn is_one_chunk(&self) -> bool {
        self.chunks.len() + usize::from(!self.gathered.is_empty()) == 1
    }

    /// The next bytes to send.
    pub(super) fn take_chunk(&mut self) -> Option<Bytes> {
        self.close_chunk();
        self.chunks.pop_front()
    }

    fn close_chunk(&mut self) {
        if self.gathered.is_empty() {
            return;
        }
        let bytes = std::mem::take(&mut self.gathered);
        self.chunks.push_back(match self.framing {
            Framing::Connect | Framing::GrpcWeb => bytes.into(),
            Framing::GrpcWebText => {
                let mut text = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
                put_padded(&bytes, &mut text);
                text.into()
            }
        });
    }
}

/// Status and trailers as gRPC-Web has them in its last frame: header fields of HTTP/1.
fn trailer_lines(outcome: &Result<Metadata, Status>) -> Vec<u8> {
    let mut lines = Vec::new();
    for (name, value) in trailer_fields(outcome) {
        lines.extend_from_slice(name.as_bytes());
        lines.extend_from_slice(b": ");
        lines.extend_from_slice(value.as_bytes());
        lines.extend_from_slice(b"\r\n");
    }
    lines
}

/// Status and trailers of gRPC, as names and values.
pub(super) fn trailer_fields(outcome: &Result<Metadata, Status>) -> Vec<(String, String)> {
    let (code, metadata) = match outcome {
        Ok(trailers) => (Code::Ok, trailers),
        Err(status) => (status.code(), status.metadata()),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut fields = vec![("grpc-status".to_owned(), text(status_text(code.number())))];
    if let Err(status) = outcome {
        let mut message = Vec::new();
        put_status_message(status.message(), &mut message);
        if !message.is_empty() {
            fields.push(("grpc-message".to_owned(), text(&message)));
        }
        if !status.details().is_empty() {
            let mut details = Vec::new();
            ringway_wire::grpc::put_base64(status.details(), &mut details);
            fields.push(("grpc-status-details-bin".to_owned(), text(&details)));
        }
    }
    fields.extend(texts(metadata).map(|(key, value)| (key.to_owned(), value)));
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(framing: Framing, write: impl FnOnce(&mut Frames)) -> Vec<Bytes> {
        let mut frames = Frames::new(framing);
        write(&mut frames);
        std::iter::from_fn(|| frames.take_chunk()).collect()
    }

    #[test]
    fn small_messages_leave_together_and_long_ones_are_not_copied() {
        let long = Bytes::from(vec![7; limits::REPLY_COPY_MAX + 1]);
        let chunks = chunks(Framing::Connect, |frames| {
            frames.put_message(Bytes::from_static(b"a"), false);
            frames.put_message(Bytes::from_static(b"b"), true);
            frames.put_message(long.clone(), false);
            frames.put_end(&Ok(Metadata::new()));
        });
        assert_eq!(&chunks[0][..], b"\0\0\0\0\x01a\x01\0\0\0\x01b\0\0\0\x10\x01");
        assert_eq!(chunks[1].as_ptr(), long.as_ptr());
        assert_eq!((&chunks[2][..], chunks.len()), (&b"\x02\0\0\0\x02{}"[..], 3));
    }

    #[test]
    fn the_last_frame_of_grpc_web_holds_header_fields() {
        let mut trailers = Metadata::new();
        trailers.append("cost-bin", [255]).expect("an entry");
        let failed = Status::not_found("50 % é\r\n").with_metadata(trailers);
        let sent = chunks(Framing::GrpcWeb, |frames| frames.put_end(&Err(failed)));
        let lines = "grpc-status: 5\r\ngrpc-message: 50 %25 %C3%A9%0D%0A\r\ncost-bin: /w\r\n";
        assert_eq!((sent[0][0], usize::from(sent[0][4])), (0x80, lines.len()));
        assert_eq!(&sent[0][5..], lines.as_bytes());
        let text = chunks(Framing::GrpcWebText, |frames| frames.put_end(&Ok(Metadata::new())));
        assert_eq!(&text[0][..], b"gAAAABBncnBjLXN0YXR1czogMA0K");
    }
}
