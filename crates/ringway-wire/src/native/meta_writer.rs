//! Writing the metadata of a frame (section 4).

use super::{LoadReport, Tag, varint};

/// Appends metadata to a buffer.
///
/// The result must fit the limit of a frame, 65,535 bytes, and the limit in the peer's settings.
///
/// # Examples
///
/// ```
/// use ringway_wire::native::MetaWriter;
///
/// let mut meta = Vec::new();
/// MetaWriter::new(&mut meta).status_message("no such user").entry("shard", b"7");
/// assert_eq!(meta, b"\x04\x0cno such user\x00\x07\x05shard7");
/// ```
#[derive(Debug)]
pub struct MetaWriter<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> MetaWriter<'a> {
    /// Creates a writer that appends to `out`, after anything already in it.
    #[inline]
    #[must_use]
    pub const fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Adds the name of the method, `package.Service/Method`.
    pub fn method(&mut self, name: &str) -> &mut Self {
        self.piece(Tag::Method, name.as_bytes())
    }

    /// Adds a key and a value. Keys may repeat; the caller keeps to gRPC's rules for them.
    pub fn entry(&mut self, key: &str, value: &[u8]) -> &mut Self {
        let key_len = key.len() as u64;
        let len = varint::len(key_len) + key.len() + value.len();
        self.start(Tag::Entry, len);
        varint::push(key_len, self.out);
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(value);
        self
    }

    /// Adds the credentials of the call.
    pub fn authorization(&mut self, value: &[u8]) -> &mut Self {
        self.piece(Tag::Authorization, value)
    }

    /// Adds a timeout that the request head cannot hold, in microseconds.
    pub fn timeout_us(&mut self, timeout_us: u64) -> &mut Self {
        self.number(Tag::TimeoutUs, timeout_us)
    }

    /// Adds the status message, a text for people.
    pub fn status_message(&mut self, message: &str) -> &mut Self {
        self.piece(Tag::StatusMessage, message.as_bytes())
    }

    /// Adds the status details, for programs.
    pub fn status_details(&mut self, details: &[u8]) -> &mut Self {
        self.piece(Tag::StatusDetails, details)
    }

    /// Marks the call as not executed, so that it can be repeated safely.
    pub fn refused(&mut self) -> &mut Self {
        self.piece(Tag::Refused, &[])
    }

    /// Asks the client to wait before a retry, in milliseconds; −1 forbids a retry.
    pub fn pushback_ms(&mut self, pushback_ms: i64) -> &mut Self {
        self.number(Tag::Pushback, varint::zigzag(pushback_ms))
    }

    /// Adds the trace context of the call: trace id, span id and flags.
    pub fn traceparent(&mut self, parent: &[u8; 25]) -> &mut Self {
        self.piece(Tag::TraceParent, parent)
    }

    /// Adds the vendor-specific trace state.
    pub fn tracestate(&mut self, state: &[u8]) -> &mut Self {
        self.piece(Tag::TraceState, state)
    }

    /// Adds the load report of this server.
    pub fn load_report(&mut self, report: LoadReport) -> &mut Self {
        self.piece(Tag::LoadReport, &report.encode())
    }

    pub(super) fn piece(&mut self, tag: Tag, value: &[u8]) -> &mut Self {
        self.start(tag, value.len());
        self.out.extend_from_slice(value);
        self
    }

    fn number(&mut self, tag: Tag, value: u64) -> &mut Self {
        self.start(tag, varint::len(value));
        varint::push(value, self.out);
        self
    }

    fn start(&mut self, tag: Tag, len: usize) {
        self.out.push(tag.code());
        varint::push(len as u64, self.out);
    }
}

#[cfg(test)]
mod tests {
    use super::MetaWriter;
    use crate::native::{LoadReport, MetaReader, Tag};

    #[test]
    fn written_metadata_reads_back_the_same() {
        let long = vec![7; 300];
        let report = LoadReport { cpu: 1, queue: 2, service_us: 3 };
        let mut meta = vec![];
        MetaWriter::new(&mut meta)
            .method("echo.Echo/Say")
            .entry("key", &long)
            .authorization(b"token")
            .timeout_us(1 << 40)
            .status_message("message")
            .status_details(b"details")
            .refused()
            .pushback_ms(-1)
            .traceparent(&[9; 25])
            .tracestate(b"state")
            .load_report(report);

        let pieces: Vec<_> =
            MetaReader::new(&meta).map(|piece| piece.expect("well-formed")).collect();
        let (tags, values): (Vec<_>, Vec<_>) = pieces.into_iter().unzip();
        assert_eq!(
            tags,
            [
                Tag::Method,
                Tag::Entry,
                Tag::Authorization,
                Tag::TimeoutUs,
                Tag::StatusMessage,
                Tag::StatusDetails,
                Tag::Refused,
                Tag::Pushback,
                Tag::TraceParent,
                Tag::TraceState,
                Tag::LoadReport,
            ]
        );
        assert_eq!(values[0], b"echo.Echo/Say");
        assert_eq!(MetaReader::entry(values[1]), Ok((&b"key"[..], &long[..])));
        assert_eq!(values[2], b"token");
        assert_eq!(MetaReader::timeout_us(values[3]), Ok(1 << 40));
        assert_eq!(values[4..7], [&b"message"[..], b"details", b""]);
        assert_eq!(MetaReader::pushback_ms(values[7]), Ok(-1));
        assert_eq!(values[8..10], [&[9; 25][..], b"state"]);
        assert_eq!(LoadReport::decode(values[10]), Ok(report));
    }
}
