//! The messages of one call, between what its client speaks and what its method takes.

use std::rc::Rc;

use bytes::Bytes;
use ringway_http::http::header::HeaderMap;
use ringway_wire::grpc::{
    Accepted, Compression, InflateError, accepted_names, compress, decompress,
};

use super::protocol::{CompressionFields, Framing, Label};
use crate::call::codec;
use crate::call::json::mark_len;
use crate::call::status::Status;
use crate::server::core::ServerCore;
use crate::server::json_forms::JsonForms;
use crate::server::machine::Translation;

/// Decodes requests and encodes replies of one call.
pub(super) struct Coder {
    core: Rc<ServerCore>,
    method_index: usize,
    label: Label,
    /// The compression of requests that are compressed.
    requests: Compression,
    /// The compression of replies of `reply_min` bytes and more.
    replies: Compression,
    reply_min: usize,
}

impl Coder {
    /// Reads which compression the headers name in `fields`.
    ///
    /// # Errors
    /// UNIMPLEMENTED when it is not accepted, with what is.
    pub(super) fn new(
        core: &Rc<ServerCore>,
        method_index: usize,
        label: Label,
        headers: &HeaderMap,
        fields: CompressionFields,
    ) -> Result<Self, Status> {
        let named = headers.get(fields.encoding).map(|value| value.as_bytes());
        let accepted = headers.get(fields.accept).map(|value| value.as_bytes());
        Self::with(core, method_index, label, named, accepted)
    }

    /// The same for a compression that is `named` and those that are `accepted`.
    pub(super) fn with(
        core: &Rc<ServerCore>,
        method_index: usize,
        label: Label,
        named: Option<&[u8]>,
        accepted: Option<&[u8]>,
    ) -> Result<Self, Status> {
        let named = named.filter(|named| !named.is_empty()).map(coding_names);
        let requests = named.as_deref().map_or(Compression::Identity, Compression::parse);
        let (number, settings) = (method_index as u32 + 1, core.compression());
        let takes = settings.is_some_and(|settings| settings.takes(number, requests));
        if requests != Compression::Identity && !takes {
            return Err(not_taken(settings.is_some()));
        }
        // Who does not say what they accept accepts what they send.
        let accepted = accepted.map(coding_names).or(named).unwrap_or_default();
        let accepted = Accepted::parse(&accepted);
        let (replies, reply_min) = match settings {
            Some(settings) => (settings.of_reply(number, accepted), settings.reply_min()),
            None => (Compression::Identity, 0),
        };
        Ok(Self { core: Rc::clone(core), method_index, label, requests, replies, reply_min })
    }

    /// Whether a message of a unary call is compressed.
    pub(super) fn is_compressed(&self) -> bool {
        self.requests != Compression::Identity
    }

    /// The codec under which the call is admitted: the method's own where its messages can be translated.
    pub(super) fn codec(&self, framing: Option<Framing>) -> u8 {
        let own = self.core.entry(self.method_index).codec_in();
        let is_grpc = matches!(framing, Some(Framing::GrpcWeb | Framing::GrpcWebText));
        match self.label {
            Label::Json => own,
            // As over HTTP/2, where most clients label everything as protobuf.
            Label::Proto if is_grpc && own != codec::JSON => own,
            Label::Proto => codec::PROTOBUF,
            Label::Raw => codec::RAW,
        }
    }

    /// How the one message of a call becomes what its method takes, if it is not that already.
    pub(super) fn translation(self: &Rc<Self>, is_compressed: bool) -> Option<Translation> {
        if self.label != Label::Json && !is_compressed {
            return None;
        }
        let coder = Rc::clone(self);
        Some(Translation::new(move |message| coder.decode(is_compressed, message)))
    }

    /// The request that a client has sent.
    ///
    /// # Errors
    /// When it cannot be decompressed, or is no JSON of the message.
    pub(super) fn decode(&self, is_compressed: bool, message: Bytes) -> Result<Bytes, Status> {
        let message = match is_compressed {
            true => self.inflate(message)?,
            false => message,
        };
        match self.label {
            Label::Json => self.json_forms().request(message.slice(mark_len(&message)..)),
            Label::Proto | Label::Raw => Ok(message),
        }
    }

    /// gRPC's compression.md: "If the Compressed-Flag is set and the Message-Encoding header is missing or identity, the RPC
    /// fails with INTERNAL"; Connect's protocol has the same.
    fn inflate(&self, message: Bytes) -> Result<Bytes, Status> {
        if self.requests == Compression::Identity {
            return Err(Status::internal("a message is compressed, and no header says how"));
        }
        if message.is_empty() {
            return Ok(message);
        }
        if !self.core.budget().may_inflate() {
            let text = "the server holds too many unread bytes to decompress more messages";
            return Err(Status::resource_exhausted(text));
        }
        decompress(self.requests, &message, self.message_bytes_max()).map_err(|error| match error {
            InflateError::TooLong => Status::resource_exhausted(error.to_string()),
            InflateError::Broken => Status::invalid_argument(error.to_string()),
            InflateError::Unknown => Status::unimplemented(error.to_string()),
        })
    }

    /// A reply for the client, and the label that fits it.
    ///
    /// # Errors
    /// When the method's message cannot be written as JSON.
    pub(super) fn encode(&self, message: Bytes) -> Result<(Bytes, Label), Status> {
        if self.label == Label::Json {
            let (message, codec) = self.json_forms().reply(message)?;
            let label = if codec == codec::JSON { Label::Json } else { Label::Raw };
            return Ok((message, label));
        }
        let label = match self.core.entry(self.method_index).codec_out() {
            codec::JSON => Label::Json,
            codec::PROTOBUF => Label::Proto,
            _ => Label::Raw,
        };
        Ok((message, label))
    }

    /// A reply as JSON with the names of the .proto file, without members that have their default.
    ///
    /// # Errors
    /// When the method's message cannot be written as JSON.
    pub(super) fn encode_as_named(&self, message: Bytes) -> Result<Bytes, Status> {
        self.json_forms().named_reply(message).map(|(message, _)| message)
    }

    /// The shorter form of a reply, where it is compressed.
    pub(super) fn compress(&self, message: &[u8]) -> Option<Bytes> {
        if self.replies == Compression::Identity || message.len() < self.reply_min {
            return None;
        }
        compress(self.replies, message).map(Bytes::from)
    }

    /// The compression of replies, where there is one.
    pub(super) fn reply_encoding(&self) -> Option<&'static str> {
        let name = str::from_utf8(self.replies.name()).ok();
        name.filter(|_| self.replies != Compression::Identity)
    }

    pub(super) fn message_bytes_max(&self) -> usize {
        self.core.settings().native.settings.max_message as usize
    }

    fn json_forms(&self) -> &JsonForms {
        let entry = self.core.entry(self.method_index);
        entry.json_forms(self.core.shared().service(entry.method().service()))
    }
}

fn not_taken(is_on: bool) -> Status {
    let taken = String::from_utf8_lossy(&accepted_names(is_on)).replace(',', ", ");
    Status::unimplemented(format!("the compression of the message is not taken here, only {taken}"))
}

/// The names of a list of codings in lower case, whose items may have weights; without those that are not wanted at all.
/// RFC 9110, section 8.4.1: "All content codings are case-insensitive", and section 8.4.1.3: "A recipient SHOULD consider
/// "x-gzip" to be equivalent to "gzip"".
fn coding_names(list: &[u8]) -> Vec<u8> {
    let list = list.to_ascii_lowercase();
    let names = list.split(|byte| *byte == b',').filter_map(|item| {
        let mut parts = item.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let name = parts.next()?;
        let is_refused =
            parts.any(|part| matches!(part, b"q=0" | b"q=0.0" | b"q=0.00" | b"q=0.000"));
        (!is_refused).then_some(if name == b"x-gzip" { b"gzip" } else { name })
    });
    names.collect::<Vec<_>>().join(&b',')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_codings_lose_their_weights_and_case() {
        let names = |list: &str| String::from_utf8(coding_names(list.as_bytes())).expect("ASCII");
        assert_eq!(names("gzip, deflate;q=0.5 ,br; q=1.0, zstd;q=0"), "gzip,deflate,br");
        assert_eq!(names("X-GZip, Identity;Q=0, ZSTD"), "gzip,zstd");
        assert_eq!(names(""), "");
    }
}
