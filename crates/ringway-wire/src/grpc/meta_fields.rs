//! Conversion between metadata in the native form and the header fields of gRPC, at a client.

use super::metadata::{
    ValueRoom, binary_values, is_ascii_value, is_binary, is_metadata_name, is_reserved,
    parse_base64, put_base64,
};
use super::status::parse_status_message;
use crate::http2::{Fields, Line};
use crate::native::{MetaReader, MetaWriter, Tag};

/// Appends the metadata in `fields`, without fields that have a meaning of their own and without
/// those that no metadata can hold. `false` if fields with too many values are missing.
pub(super) fn put_meta(fields: &Fields, out: &mut Vec<u8>) -> bool {
    let mut meta = MetaWriter::new(out);
    let (mut bytes, mut room, mut is_whole) = (Vec::new(), ValueRoom::of(fields), true);
    for (name, value) in fields.iter() {
        match name {
            b"grpc-message" => {
                meta.status_message(&parse_status_message(value));
            }
            b"grpc-status-details-bin" => {
                bytes.clear();
                if parse_base64(value, &mut bytes) {
                    meta.status_details(&bytes);
                }
            }
            b"authorization" if is_ascii_value(value) => {
                meta.authorization(value);
            }
            b"authorization" => {}
            _ if is_binary(name) && !room.has_for(name, value) => is_whole = false,
            _ => put_entry(name, value, &mut meta, &mut bytes),
        }
    }
    is_whole
}

fn put_entry(name: &[u8], value: &[u8], meta: &mut MetaWriter<'_>, bytes: &mut Vec<u8>) {
    let Ok(key) = str::from_utf8(name) else { return };
    if !is_metadata_name(name) {
        return;
    }
    if !is_binary(name) {
        if is_ascii_value(value) {
            meta.entry(key, value);
        }
        return;
    }
    for value in binary_values(value) {
        bytes.clear();
        if parse_base64(value, bytes) {
            meta.entry(key, bytes);
        }
    }
}

/// Fields to send, in memory that is reused.
#[derive(Debug, Default)]
pub(super) struct FieldTexts {
    texts: Vec<u8>,
    /// Lengths of name and value, and whether the field is secret.
    lens: Vec<(usize, usize, bool)>,
}

impl FieldTexts {
    pub(super) fn clear(&mut self) {
        self.texts.clear();
        self.lens.clear();
    }

    pub(super) fn push(&mut self, name: &[u8], value: impl FnOnce(&mut Vec<u8>), is_secret: bool) {
        self.texts.extend_from_slice(name);
        let start = self.texts.len();
        value(&mut self.texts);
        self.lens.push((name.len(), self.texts.len() - start, is_secret));
    }

    /// Adds the metadata for which gRPC has a field.
    pub(super) fn push_meta(&mut self, meta: &[u8]) {
        for (tag, value) in MetaReader::new(meta).flatten() {
            match tag {
                Tag::Entry => self.push_entry(value),
                Tag::Authorization => {
                    let value = value.trim_ascii();
                    self.push(b"authorization", |out| out.extend_from_slice(value), true);
                }
                Tag::TraceParent => {
                    self.push(b"traceparent", |out| put_traceparent(value, out), false);
                }
                Tag::TraceState => {
                    let value = value.trim_ascii();
                    self.push(b"tracestate", |out| out.extend_from_slice(value), false);
                }
                _ => {}
            }
        }
    }

    /// Adds an entry, without reserved names and blanks at the ends of its value. These make a
    /// request malformed (RFC 9113, sections 8.2.1 and 8.2.2), and a peer may close the connection
    /// after too many.
    fn push_entry(&mut self, entry: &[u8]) {
        let Ok((name, value)) = MetaReader::entry(entry) else { return };
        match is_binary(name) {
            _ if is_reserved(name) => {}
            true => self.push(name, |out| put_base64(value, out), false),
            false => self.push(name, |out| out.extend_from_slice(value.trim_ascii()), false),
        }
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        let mut rest = &self.texts[..];
        self.lens.iter().map(move |&(name, value, is_secret)| {
            let (text, behind) = rest.split_at(name + value);
            rest = behind;
            let (name, value) = text.split_at(name);
            if is_secret { Line::Secret { name, value } } else { Line::Once { name, value } }
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lens.is_empty()
    }

    /// Size of the fields in bytes, with 32 added for each.
    pub(super) fn size(&self) -> usize {
        self.texts.len() + 32 * self.lens.len()
    }
}

/// Appends the 16, 8 and 1 bytes of a trace context as `00-trace-span-flags` in hexadecimal (W3C
/// Trace Context).
fn put_traceparent(parent: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(b"00");
    for (at, byte) in parent.iter().enumerate() {
        if matches!(at, 0 | 16 | 24) {
            out.push(b'-');
        }
        out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_make_a_request_malformed_are_not_sent() {
        let mut meta = Vec::new();
        let mut writer = MetaWriter::new(&mut meta);
        let own = ["connection", "te", "content-length", "transfer-encoding", "upgrade", "host"];
        for name in own.into_iter().chain(["content-type", "keep-alive", "grpc-status"]) {
            writer.entry(name, b"close");
        }
        writer.entry("one", b" 1").entry("two", b"2\t").entry("blank", b" ");
        writer.authorization(b" Bearer x ").tracestate(b" a=b");
        let mut texts = FieldTexts::default();
        texts.push_meta(&meta);
        let lines: Vec<_> = texts.lines().collect();
        let once = |name: &'static str, value| Line::Once { name: name.as_bytes(), value };
        assert_eq!(
            lines,
            [
                once("one", b"1"),
                once("two", b"2"),
                once("blank", b""),
                Line::Secret { name: b"authorization", value: b"Bearer x" },
                once("tracestate", b"a=b"),
            ]
        );
    }

    #[test]
    fn metadata_becomes_fields() {
        let mut meta = Vec::new();
        MetaWriter::new(&mut meta)
            .entry("shard", b"7")
            .entry("key-bin", b"\xff\xfe")
            .authorization(b"Bearer x")
            .traceparent(&[0xab; 25])
            .tracestate(b"a=b")
            .refused();
        let mut texts = FieldTexts::default();
        texts.push_meta(&meta);
        let trace = format!("00-{}-{}-ab", "ab".repeat(16), "ab".repeat(8));
        let lines: Vec<_> = texts.lines().collect();
        let once = |name: &'static str, value| Line::Once { name: name.as_bytes(), value };
        assert_eq!(
            lines,
            [
                once("shard", b"7"),
                once("key-bin", b"//4"),
                Line::Secret { name: b"authorization", value: b"Bearer x" },
                once("traceparent", trace.as_bytes()),
                once("tracestate", b"a=b"),
            ]
        );
        assert_eq!(texts.size(), 5 * 32 + 6 + 10 + 21 + 11 + trace.len() + 13);
        texts.clear();
        assert!(texts.is_empty() && texts.lines().next().is_none());
    }
}
