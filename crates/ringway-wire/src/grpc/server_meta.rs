//! Conversion between the header fields of gRPC and metadata in the native form, at a server.

use bytes::Bytes;

use super::call_names::CallHead;
use super::compression::accepted_names;
use super::metadata::{
    ValueRoom, binary_values, is_ascii_value, is_binary, is_metadata_name, is_reserved,
    parse_base64, put_base64,
};
use super::server::code;
use super::status::{encoded_len, put_status_message};
use crate::http2::{Fields, Line};
use crate::native::{MetaReader, MetaWriter, Tag};

/// The answer to a request with more metadata than is accepted.
pub(super) const TOO_LARGE: &str = "the request's metadata is longer than the server accepts";

/// Makes the metadata of a request.
pub(super) struct RequestMeta;

impl RequestMeta {
    /// Whether the head contains values that a request head has no room for: a timeout that is over
    /// before it begins, or a very long one.
    #[inline]
    pub(super) fn is_needed(head: &CallHead) -> bool {
        head.timeout
            .is_some_and(|timeout| timeout.is_zero() || timeout.as_micros() > u32::MAX.into())
    }

    /// Makes the metadata of a request from its head and fields. Fields that no metadata can hold are
    /// left out: proxies and browsers add them, and gRPC forbids to fail for them (PROTOCOL-HTTP2.md,
    /// "Custom-Metadata").
    ///
    /// # Errors
    ///
    /// Returns the status and the reason when a field is not in base64 but has to be, or holds too
    /// many values.
    pub(super) fn write(head: &CallHead, fields: &Fields) -> Result<Bytes, (u8, &'static str)> {
        let mut out = Vec::new();
        let mut meta = MetaWriter::new(&mut out);
        if Self::is_needed(head) {
            let timeout = head.timeout.unwrap_or_default().as_nanos().div_ceil(1_000);
            meta.timeout_us(u64::try_from(timeout).unwrap_or(u64::MAX));
        }
        let (mut bytes, mut room) = (Vec::new(), ValueRoom::of(fields));
        for (name, value) in fields.iter() {
            match name {
                b":path" => {
                    let path = value.strip_prefix(b"/").unwrap_or(value);
                    meta.method(&String::from_utf8_lossy(path));
                }
                b"authorization" if is_ascii_value(value) => _ = meta.authorization(value),
                b"authorization" => {}
                b"traceparent" => {
                    if let Some(parent) = trace_parent(value) {
                        meta.traceparent(&parent);
                    }
                }
                b"tracestate" if is_ascii_value(value) => _ = meta.tracestate(value),
                _ if !is_metadata_name(name) => {}
                _ if is_binary(name) => {
                    if !room.has_for(name, value) {
                        return Err((code::RESOURCE_EXHAUSTED, TOO_LARGE));
                    }
                    put_binary(name, value, &mut bytes, &mut meta)?;
                }
                _ if is_ascii_value(value) => put_entry(name, value, &mut meta),
                _ => {}
            }
        }
        Ok(out.into())
    }
}

/// Appends the values of a `-bin` field. `bytes` is a buffer for them.
fn put_binary(
    name: &[u8],
    value: &[u8],
    bytes: &mut Vec<u8>,
    meta: &mut MetaWriter<'_>,
) -> Result<(), (u8, &'static str)> {
    for value in binary_values(value) {
        bytes.clear();
        if !parse_base64(value, bytes) {
            return Err((code::INTERNAL, "binary metadata is not in base64"));
        }
        put_entry(name, bytes, meta);
    }
    Ok(())
}

/// Appends an entry whose name was checked.
fn put_entry(name: &[u8], value: &[u8], meta: &mut MetaWriter<'_>) {
    if let Ok(name) = str::from_utf8(name) {
        meta.entry(name, value);
    }
}

/// Parses `traceparent` into trace id, span id and flags; `None` if it is malformed.
fn trace_parent(text: &[u8]) -> Option<[u8; 25]> {
    let fields: Vec<&[u8]> = text.split(|&byte| byte == b'-').collect();
    let [version, trace, span, flags, rest @ ..] = &fields[..] else { return None };
    let lens = [version.len(), trace.len(), span.len(), flags.len()];
    if lens != [2, 32, 16, 2] || *version == b"ff" || *version == b"00" && !rest.is_empty() {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).filter(|_| !byte.is_ascii_uppercase());
    let mut digits = [trace, span, flags].into_iter().flat_map(|field| field.iter());
    let mut parent = [0; 25];
    for byte in &mut parent {
        let (high, low) = (digit(*digits.next()?)?, digit(*digits.next()?)?);
        *byte = (high * 16 + low) as u8;
    }
    Some(parent)
}

/// The header fields of a reply, made from its metadata.
#[derive(Debug, Default)]
pub(super) struct ReplyFields {
    /// Names and values, encoded for sending.
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    message: String,
    /// Whether the call was not executed.
    pub(super) is_refused: bool,
}

impl ReplyFields {
    /// Reads metadata up to the first malformed piece.
    pub(super) fn read(meta: &[u8]) -> Self {
        let mut reply = Self::default();
        for (tag, value) in MetaReader::new(meta).map_while(Result::ok) {
            match tag {
                Tag::StatusMessage => reply.set_message(&String::from_utf8_lossy(value)),
                Tag::StatusDetails => reply.push_entry(b"grpc-status-details-bin", value),
                Tag::Pushback => {
                    if let Ok(ms) = MetaReader::pushback_ms(value) {
                        reply.push(b"grpc-retry-pushback-ms", ms.to_string().into_bytes());
                    }
                }
                Tag::Refused => reply.is_refused = true,
                Tag::Authorization => reply.push(b"authorization", value.trim_ascii().to_vec()),
                Tag::Entry => {
                    if let Ok((name, value)) = MetaReader::entry(value)
                        && !is_reserved(name)
                    {
                        reply.push_entry(name, value);
                    }
                }
                _ => {}
            }
        }
        reply
    }

    /// Makes fields of a status message alone.
    pub(super) fn of_message(message: &str) -> Self {
        let mut out = Vec::new();
        MetaWriter::new(&mut out).status_message(message);
        Self::read(&out)
    }

    /// Makes fields of the status message alone, shortened to `size_max` bytes of fields.
    pub(super) fn shortened(&self, size_max: usize) -> Self {
        let mut short = Self::default();
        short.set_message(&self.message);
        short.shorten_message(size_max.saturating_sub(FIELD_OVERHEAD + MESSAGE.len()));
        short
    }

    /// Shortens the status message so that all fields take `size_max` bytes, or it alone if the others take more.
    pub(super) fn shorten_within(&mut self, size_max: usize) {
        let room = size_max.saturating_sub(FIELD_OVERHEAD + MESSAGE.len());
        let others = self.fields.iter().filter(|(name, _)| name != MESSAGE);
        let others: usize =
            others.map(|(name, value)| name.len() + value.len() + FIELD_OVERHEAD).sum();
        self.shorten_message(room.checked_sub(others).unwrap_or(room));
    }

    /// Shortens the status message to `len_max` bytes on the wire.
    pub(super) fn shorten_message(&mut self, len_max: usize) {
        let encoded = self.fields.iter().find(|(name, _)| name == MESSAGE);
        if encoded.is_none_or(|(_, encoded)| encoded.len() <= len_max) {
            return;
        }
        let mut left = len_max;
        let fits = |&(_, char): &(usize, char)| {
            left.checked_sub(encoded_len(char)).map(|rest| left = rest).is_some()
        };
        let len = self.message.char_indices().take_while(fits).last();
        let len = len.map_or(0, |(at, char)| at + char.len_utf8());
        let short = self.message[..len].to_owned();
        self.fields.retain(|(name, _)| name != MESSAGE);
        self.set_message(&short);
    }

    fn set_message(&mut self, message: &str) {
        let mut encoded = Vec::new();
        put_status_message(message, &mut encoded);
        self.push(MESSAGE, encoded);
        self.message = message.to_owned();
    }

    /// Adds the supported compressions.
    pub(super) fn push_accepted(&mut self, is_on: bool) {
        self.push(b"grpc-accept-encoding", accepted_names(is_on));
    }

    fn push(&mut self, name: &[u8], value: Vec<u8>) {
        self.fields.push((name.to_vec(), value));
    }

    fn push_entry(&mut self, name: &[u8], value: &[u8]) {
        let mut text = Vec::new();
        match is_binary(name) {
            true => put_base64(value, &mut text),
            false => text.extend_from_slice(value.trim_ascii()),
        }
        self.push(name, text);
    }

    /// Size of the fields in bytes, as HTTP/2 counts it.
    pub(super) fn size(&self) -> usize {
        let size = |(name, value): &(Vec<u8>, Vec<u8>)| name.len() + value.len() + FIELD_OVERHEAD;
        self.fields.iter().map(size).sum()
    }

    /// The fields in the form for sending.
    pub(super) fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        self.fields.iter().map(|(name, value)| match &name[..] {
            MESSAGE => super::lines::message(value),
            b"authorization" => Line::Secret { name, value },
            _ => Line::Once { name, value },
        })
    }
}

const MESSAGE: &[u8] = b"grpc-message";

/// Bytes that HTTP/2 adds to name and value when it counts a field.
pub(super) const FIELD_OVERHEAD: usize = 32;

#[cfg(test)]
mod tests {
    use super::super::names::{Accepted, Compression, ContentType};
    use super::*;

    #[test]
    fn a_trace_parent_is_parsed_as_w3c_specifies() {
        let text = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let parent = trace_parent(text).expect("well-formed");
        assert_eq!((parent[0], parent[15], parent[16], parent[24]), (0x0a, 0x9c, 0xb7, 1));
        for wrong in [
            &b""[..],
            b"00",
            b"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            b"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            b"00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
        ] {
            assert_eq!(trace_parent(wrong), None, "{:?}", wrong.escape_ascii().to_string());
        }
        assert!(trace_parent(&[&b"01"[..], &text[2..], b"-more"].concat()).is_some());
    }

    #[test]
    fn the_metadata_of_a_reply_becomes_fields() {
        let mut meta = Vec::new();
        MetaWriter::new(&mut meta)
            .status_message("50 % é")
            .status_details(&[1, 2])
            .pushback_ms(-1)
            .entry("shard", b" 7 ")
            .entry("raw-bin", &[0xff])
            .entry("grpc-status", b"0")
            .refused();
        let reply = ReplyFields::read(&meta);
        assert!(reply.is_refused);
        let text = |(name, value): &(Vec<u8>, Vec<u8>)| {
            format!("{}: {}", name.escape_ascii(), value.escape_ascii())
        };
        let fields: Vec<_> = reply.fields.iter().map(text).collect();
        assert_eq!(
            fields,
            [
                "grpc-message: 50 %25 %C3%A9",
                "grpc-status-details-bin: AQI",
                "grpc-retry-pushback-ms: -1",
                "shard: 7",
                "raw-bin: /w",
            ]
        );
        let short = reply.shortened(44 + 10);
        assert_eq!(short.fields[0].1, b"50 %25", "a blank at the end would take three bytes");
        assert!(short.size() <= 54 && !short.is_refused);
    }

    #[test]
    fn a_message_is_shortened_between_characters() {
        for (message, len_max, expected) in [
            ("abc", 3, "abc"),
            ("abc", 2, "ab"),
            ("a\u{e9}b", 6, "a"),
            ("a\u{e9}b", 7, "a%C3%A9"),
            ("a b", 2, "a"),
            ("100%", 5, "100"),
            ("x", 0, ""),
        ] {
            let mut fields = ReplyFields::of_message(message);
            fields.shorten_message(len_max);
            let encoded = str::from_utf8(&fields.fields[0].1).expect("ASCII");
            assert_eq!(encoded, expected, "{message}");
            assert!(encoded.len() <= len_max);
        }
    }

    #[test]
    fn a_timeout_of_nothing_is_told() {
        let head = CallHead { timeout: Some(std::time::Duration::ZERO), ..CALL };
        assert!(RequestMeta::is_needed(&head));
        let out = RequestMeta::write(&head, &Fields::new(1_000)).expect("well-formed");
        let mut pieces = MetaReader::new(&out).flatten();
        let (tag, value) = pieces.next().expect("the timeout");
        assert_eq!((tag, MetaReader::timeout_us(value)), (Tag::TimeoutUs, Ok(0)));
    }

    const CALL: CallHead = CallHead {
        method: Some(1),
        content_type: ContentType::Plain,
        timeout: None,
        compression: Compression::Identity,
        accepted: Accepted(0),
        attempts: 0,
    };
}
