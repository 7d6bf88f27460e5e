//! The metadata of a request.

use std::time::Duration;

use ringway_wire::native::{MetaReader, Tag};

use crate::call::metadata::Metadata;
use crate::call::status::Status;
use crate::call::trace::TraceContext;

/// The request metadata that the server itself uses, and the caller's own entries.
#[derive(Debug, Default)]
pub(super) struct RequestMeta {
    pub(super) metadata: Metadata,
    /// The call's timeout, counted from the arrival of the request, if it was too long for the request's
    /// head.
    pub(super) timeout: Option<Duration>,
    pub(super) trace: Option<TraceContext>,
}

impl RequestMeta {
    /// Parses the metadata of a request.
    ///
    /// # Errors
    /// The status to answer when the metadata is malformed.
    #[cold]
    pub(super) fn read(meta: &[u8]) -> Result<Self, Status> {
        let mut said = Self::default();
        for piece in MetaReader::new(meta) {
            let (tag, value) = piece?;
            match tag {
                Tag::TimeoutUs => {
                    said.timeout = Some(Duration::from_micros(MetaReader::timeout_us(value)?));
                }
                Tag::TraceParent => said.trace = TraceContext::from_bytes(value),
                Tag::Unknown(code) => {
                    let message = format!("the request has metadata of an unknown kind, {code:#x}");
                    return Err(Status::unimplemented(message));
                }
                tag => said.metadata.read(tag, value)?,
            }
        }
        Ok(said)
    }
}

/// The name of the method, if the metadata contains it.
pub(super) fn method_name(meta: &[u8]) -> Option<&str> {
    let mut pieces = MetaReader::new(meta).map_while(Result::ok);
    let (_, name) = pieces.find(|(tag, _)| *tag == Tag::Method)?;
    str::from_utf8(name).ok()
}

#[cfg(test)]
mod tests {
    use ringway_wire::native::MetaWriter;

    use super::*;

    fn written(write: impl FnOnce(&mut MetaWriter<'_>)) -> Vec<u8> {
        let mut meta = Vec::new();
        write(&mut MetaWriter::new(&mut meta));
        meta
    }

    #[test]
    fn pieces_are_told_apart() {
        let trace = TraceContext::root(true);
        let meta = written(|meta| {
            meta.method("a.B/C").timeout_us(1 << 40).entry("tenant", b"blue");
            meta.traceparent(&trace.to_bytes()).authorization(b"token");
        });
        assert_eq!(method_name(&meta), Some("a.B/C"));
        let request = RequestMeta::read(&meta).expect("well-formed");
        assert_eq!(request.timeout, Some(Duration::from_micros(1 << 40)));
        assert_eq!(request.trace, Some(trace));
        assert_eq!(request.metadata.get("tenant"), Some("blue"));
        assert_eq!(request.metadata.get("authorization"), Some("token"));
        assert_eq!(request.metadata.len(), 2);
    }

    #[test]
    fn what_makes_no_sense_is_a_status() {
        let torn = RequestMeta::read(b"\x04\x09no").expect_err("torn");
        assert!(!torn.message().is_empty());
        let unknown = RequestMeta::read(b"\x70\x01x").expect_err("unknown");
        assert!(unknown.is_unimplemented());
        let bad = written(|meta| _ = meta.entry("no good", b"x"));
        assert!(RequestMeta::read(&bad).expect_err("a bad key").is_invalid_argument());
        assert_eq!(method_name(b"\x01\x02\xff\xff"), None);
    }
}
