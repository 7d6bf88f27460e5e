//! Texts as contents of HTTP/1.1 (RFC 9112): a POST, then its answer.
//!
//! The whole of a connection is this one exchange over and over, so the driver of all connections carries it, and
//! hyper's parser reads the heads.

use std::borrow::Cow;
use std::time::Duration;

use ringway_wire::grpc::TimeoutText;
use ringway_wire::native::{MetaReader, Open, StreamId, Tag};

use super::violation::JsonServerViolation;
use crate::call::json::{self, OURS_FIELD};
use crate::call::trace::TraceContext;
use crate::limits;

/// One end of the exchanges of a connection.
#[derive(Debug)]
pub(super) struct Post {
    /// The head of each request up to its length.
    head: Box<[u8]>,
    /// Bytes of the longest answer, its head included.
    answer_max: usize,
    /// The front of an answer.
    part: Vec<u8>,
    /// What is known of it: nothing is read twice, however small the pieces are that it comes in.
    begun: Option<AnswerHead>,
    chunks: ChunkedContent,
    /// What the answer is for that is under way.
    pub(super) waits: Option<AwaitedAnswer>,
    /// Whether there is no further exchange.
    pub(super) is_closing: bool,
    /// Whether the server keeps the connection behind an answer.
    keeps: Keeps,
}

/// What is known of a server beyond its first answer: many close the connection behind it without saying so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Keeps {
    Unknown,
    /// Nothing is sent until then, so that a request that meets the end was not sent.
    KnownAt(Duration),
    Yes,
}

/// What an answer is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AwaitedAnswer {
    Ping,
    Call(StreamId),
}

/// A whole answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct PostAnswer<'i> {
    pub(super) status: u16,
    pub(super) content: Cow<'i, [u8]>,
    pub(super) end: AnswerEnd,
    /// Whether it comes from one of our servers.
    pub(super) is_ours: bool,
}

/// What an answer says of the connection behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AnswerEnd {
    Stays,
    /// It says nothing, so the connection should stay.
    Unsaid,
    Closes,
}

impl Post {
    pub(super) fn new(authority: &str, path: &str, text_max: usize) -> Self {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {authority}\r\ncontent-type: application/json\r\n\
             accept: application/json\r\naccept-encoding: identity\r\ncontent-length: "
        );
        Self {
            head: head.into_bytes().into(),
            answer_max: text_max + limits::JSONRPC_HTTP_HEAD_BYTES,
            part: Vec::new(),
            begun: None,
            chunks: ChunkedContent::default(),
            waits: None,
            is_closing: false,
            keeps: Keeps::Unknown,
        }
    }

    /// Until when nothing is sent.
    pub(super) fn held_until(&self) -> Option<Duration> {
        match self.keeps {
            Keeps::KnownAt(at) => Some(at),
            Keeps::Unknown | Keeps::Yes => None,
        }
    }

    /// Sends what waits, as the connection has stayed for so long.
    pub(super) fn release(&mut self, now: Duration) {
        if self.held_until().is_some_and(|at| at <= now) {
            self.keeps = Keeps::Yes;
        }
    }

    /// Notes what an answer says of the connection.
    pub(super) fn learn(&mut self, answer: &PostAnswer<'_>, now: Duration) {
        if self.keeps == Keeps::Unknown {
            self.keeps = match answer.is_ours || answer.end == AnswerEnd::Stays {
                true => Keeps::Yes,
                false => Keeps::KnownAt(now.saturating_add(limits::JSONRPC_POST_HOLD)),
            };
        }
    }

    /// Whether it may send another request.
    pub(super) fn is_free(&self) -> bool {
        self.waits.is_none() && !self.is_closing
    }

    /// Appends a request with the deadline, the trace and the metadata of a call as its header fields, which mean
    /// nothing to other servers.
    pub(super) fn put(&self, text: &[u8], call: &Open<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        out.extend_from_slice(text.len().to_string().as_bytes());
        out.extend_from_slice(b"\r\n");
        if let Some(timeout) = call.timeout {
            let timeout = TimeoutText::new(timeout);
            out.extend_from_slice(b"ringway-timeout: ");
            out.extend_from_slice(timeout.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        put_fields(call.meta, out);
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(text);
    }

    /// Takes an answer off the front of `input`, or all of `input` if it is not whole.
    ///
    /// # Errors
    /// When it is none that a server may give, or too long.
    pub(super) fn next<'i>(
        &mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<PostAnswer<'i>>, JsonServerViolation> {
        if self.part.is_empty()
            && let Some((answer, len)) = parse(input)?
        {
            *input = &input[len..];
            return Ok(Some(answer));
        }
        let before = self.part.len();
        self.part.extend_from_slice(input);
        let Some((answer, len)) = self.parse_part()? else {
            *input = &[];
            return match self.part.len() > self.answer_max {
                true => Err(JsonServerViolation::TextTooLong { max: self.answer_max }),
                false => Ok(None),
            };
        };
        *input = &input[len - before..];
        (self.part, self.begun, self.chunks) = (Vec::new(), None, ChunkedContent::default());
        Ok(Some(answer))
    }

    /// The answer at the front of the part with its length; `None` if it is not whole.
    fn parse_part(&mut self) -> Result<Option<(PostAnswer<'static>, usize)>, JsonServerViolation> {
        if self.begun.is_none() {
            self.begun = parse_head(&self.part)?;
        }
        let Some(head) = self.begun else { return Ok(None) };
        let body = &self.part[head.len..];
        let found = match head.length {
            ContentLength::Bytes(length) => body.get(..length).map(|body| (body.to_vec(), length)),
            ContentLength::Chunks => {
                let len = self.chunks.advance(body)?;
                len.map(|len| (std::mem::take(&mut self.chunks.content), len))
            }
            ContentLength::ToTheEnd => None,
        };
        Ok(found.map(|(content, len)| (head.answer(Cow::Owned(content)), head.len + len)))
    }

    /// The answer that the end of the connection has made whole, if that is what it waits for.
    pub(super) fn end(&mut self) -> Option<PostAnswer<'static>> {
        let head = self.begun.filter(|head| head.length == ContentLength::ToTheEnd)?;
        self.begun = None;
        let content = std::mem::take(&mut self.part).split_off(head.len);
        Some(head.answer(Cow::Owned(content)))
    }
}

/// Appends the metadata of a call as header fields, without those that would change the request.
fn put_fields(meta: &[u8], out: &mut Vec<u8>) {
    const OURS: [&[u8]; 11] = [
        b"host",
        b"content-type",
        b"content-length",
        b"transfer-encoding",
        b"connection",
        b"accept",
        b"accept-encoding",
        b"ringway-timeout",
        b"upgrade",
        b"expect",
        b"te",
    ];
    for (tag, value) in MetaReader::new(meta).map_while(Result::ok) {
        let (key, value) = match tag {
            Tag::Authorization => (&b"authorization"[..], Cow::Borrowed(value)),
            Tag::TraceParent => match TraceContext::from_bytes(value) {
                Some(trace) => (&b"traceparent"[..], Cow::Owned(trace.to_string().into_bytes())),
                None => continue,
            },
            Tag::Entry => match MetaReader::entry(value) {
                Ok((key, value)) => (key, Cow::Borrowed(value)),
                Err(_) => continue,
            },
            _ => continue,
        };
        let is_text = |byte: &u8| matches!(byte, b'\t' | b' '..=b'~');
        let start = out.len();
        out.extend_from_slice(key);
        out.extend_from_slice(b": ");
        match key.ends_with(b"-bin") {
            true => {
                let mut quoted = Vec::new();
                json::put_bytes(&value, &mut quoted);
                out.extend_from_slice(&quoted[1..quoted.len() - 1]);
            }
            false => out.extend_from_slice(&value),
        }
        if OURS.contains(&key) || !out[start..].iter().all(is_text) {
            out.truncate(start);
            continue;
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// An answer at the front of `bytes` with its length; `None` if it is not whole.
fn parse(bytes: &[u8]) -> Result<Option<(PostAnswer<'_>, usize)>, JsonServerViolation> {
    let Some(head) = parse_head(bytes)? else { return Ok(None) };
    let body = &bytes[head.len..];
    let found = match head.length {
        ContentLength::Bytes(length) => {
            body.get(..length).map(|body| (Cow::Borrowed(body), length))
        }
        ContentLength::Chunks => {
            let mut chunks = ChunkedContent::default();
            chunks.advance(body)?.map(|len| (Cow::Owned(chunks.content), len))
        }
        ContentLength::ToTheEnd => None,
    };
    Ok(found.map(|(content, len)| (head.answer(content), head.len + len)))
}

/// What the head of an answer says.
#[derive(Clone, Copy, Debug)]
struct AnswerHead {
    status: u16,
    end: AnswerEnd,
    is_ours: bool,
    length: ContentLength,
    /// Bytes of the head itself, with those of interim answers before it.
    len: usize,
}

/// How the end of a content is found (RFC 9112, section 6.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ContentLength {
    Bytes(usize),
    Chunks,
    /// It is all that comes until the connection ends.
    ToTheEnd,
}

impl AnswerHead {
    fn answer(self, content: Cow<'_, [u8]>) -> PostAnswer<'_> {
        PostAnswer { status: self.status, content, end: self.end, is_ours: self.is_ours }
    }
}

/// The head at the front of `bytes`; `None` if it is not whole.
fn parse_head(bytes: &[u8]) -> Result<Option<AnswerHead>, JsonServerViolation> {
    let mut begin = 0;
    loop {
        let mut fields = [httparse::EMPTY_HEADER; limits::JSONRPC_HTTP_FIELDS];
        let mut response = httparse::Response::new(&mut fields);
        match response.parse(&bytes[begin..]) {
            Ok(httparse::Status::Complete(len)) => begin += len,
            Ok(httparse::Status::Partial) if bytes.len() > limits::JSONRPC_HTTP_HEAD_BYTES => {
                return Err(wrong("its head is too long"));
            }
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(error) => return Err(wrong(&error.to_string())),
        }
        if begin > limits::JSONRPC_HTTP_HEAD_BYTES {
            return Err(wrong("its head is too long"));
        }
        let status = response.code.unwrap_or_default();
        if (100..200).contains(&status) {
            if status == 101 {
                return Err(wrong("it upgrades a connection that did not ask for it"));
            }
            continue; // interim, as 103; the bytes bound how many
        }
        let version = response.version.unwrap_or_default();
        return head_of(status, version, response.headers, begin).map(Some);
    }
}

fn head_of(
    status: u16,
    version: u8,
    fields: &[httparse::Header<'_>],
    len: usize,
) -> Result<AnswerHead, JsonServerViolation> {
    let (mut length, mut is_chunked) = (None, false);
    let (mut closes, mut stays, mut is_ours) = (false, false, false);
    for field in fields {
        let value = field.value.trim_ascii();
        if field.name.eq_ignore_ascii_case("content-length") {
            let parsed = str::from_utf8(value).ok().filter(|text| !text.starts_with('+'));
            let parsed = parsed.and_then(|text| text.parse::<usize>().ok());
            match (parsed, length) {
                (Some(parsed), None) => length = Some(parsed),
                (Some(parsed), Some(known)) if parsed == known => {}
                _ => return Err(wrong("its content-length is not one number")),
            }
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            if is_chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(wrong("its transfer-encoding is not chunked"));
            }
            is_chunked = true;
        } else if field.name.eq_ignore_ascii_case("connection") {
            for token in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                closes |= token.eq_ignore_ascii_case(b"close");
                stays |= token.eq_ignore_ascii_case(b"keep-alive");
            }
        } else if field.name.eq_ignore_ascii_case(OURS_FIELD) {
            is_ours = true;
        }
    }
    let length = match (length, is_chunked) {
        _ if matches!(status, 204 | 304) => ContentLength::Bytes(0),
        (Some(_), true) => return Err(wrong("it has both a length and chunks")),
        (None, true) => ContentLength::Chunks,
        (Some(length), false) => ContentLength::Bytes(length),
        (None, false) => ContentLength::ToTheEnd,
    };
    let end = match closes || length == ContentLength::ToTheEnd || version == 0 && !stays {
        true => AnswerEnd::Closes,
        false if stays => AnswerEnd::Stays,
        false => AnswerEnd::Unsaid,
    };
    Ok(AnswerHead { status, end, is_ours, length, len })
}

/// A content in chunks, as far as it has come.
#[derive(Default, Debug)]
struct ChunkedContent {
    content: Vec<u8>,
    /// Bytes of the chunks that are in the content.
    at: usize,
}

impl ChunkedContent {
    /// Reads on in `bytes`, which begin where they have begun before. Returns the length there once all is read.
    fn advance(&mut self, bytes: &[u8]) -> Result<Option<usize>, JsonServerViolation> {
        loop {
            let rest = &bytes[self.at..];
            let (line, size) = match httparse::parse_chunk_size(rest) {
                Ok(httparse::Status::Complete(found)) => found,
                Ok(httparse::Status::Partial) => return partial(rest),
                Err(_) => return Err(wrong("the size of a chunk is not a number")),
            };
            let size = usize::try_from(size).map_err(|_| wrong("a chunk is too long"))?;
            if size == 0 {
                let mut fields = [httparse::EMPTY_HEADER; limits::JSONRPC_HTTP_FIELDS];
                return match httparse::parse_headers(&rest[line..], &mut fields) {
                    Ok(httparse::Status::Complete((len, _))) => Ok(Some(self.at + line + len)),
                    Ok(httparse::Status::Partial) => partial(rest),
                    Err(error) => Err(wrong(&error.to_string())),
                };
            }
            let end = line.checked_add(size).and_then(|end| end.checked_add(2));
            let Some(chunk) = end.and_then(|end| rest.get(line..end)) else { return Ok(None) };
            let Some(chunk) = chunk.strip_suffix(b"\r\n") else {
                return Err(wrong("a chunk does not end where it should"));
            };
            self.content.extend_from_slice(chunk);
            self.at += line + size + 2;
        }
    }
}

/// A line of a chunk or the fields behind all that are not whole yet.
fn partial(rest: &[u8]) -> Result<Option<usize>, JsonServerViolation> {
    match rest.len() > limits::JSONRPC_HTTP_HEAD_BYTES {
        true => Err(wrong("what stands around a chunk is too long")),
        false => Ok(None),
    }
}

#[cold]
fn wrong(why: &str) -> JsonServerViolation {
    JsonServerViolation::Http(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    use AnswerEnd::{Closes, Stays, Unsaid};

    const WHOLE: [(&[u8], u16, &[u8], AnswerEnd); 7] = [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", 200, b"{}", Unsaid),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1;x=y\r\n}\r\n0\r\na: b\r\n\r\n", 200, b"{}", Unsaid),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", Unsaid),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n7", 200, b"7", Unsaid),
        (b"HTTP/1.1 503 No\r\nConnection: x, Close\r\ncontent-length: 0\r\n\r\n", 503, b"", Closes),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n", 200, b"", Closes),
        (b"HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\ncontent-length: 0\r\n\r\n", 200, b"", Stays),
    ];

    const TO_THE_END: [(&[u8], u16, &[u8]); 3] = [
        (b"HTTP/1.0 200 OK\r\n\r\n{}", 200, b"{}"),
        (b"HTTP/1.1 500 No\r\nconnection: keep-alive\r\n\r\n", 500, b""),
        (b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", 200, b"HTTP/1.1 200 OK\r\n\r\n"),
    ];

    #[test]
    fn answer_without_a_length_ends_with_its_connection() {
        for (bytes, status, content) in TO_THE_END {
            let content = Cow::Borrowed(content);
            let expected = PostAnswer { status, content, end: Closes, is_ours: false };
            for cut in 0..=bytes.len() {
                let mut post = Post::new("a:1", "/", 100);
                for mut part in [&bytes[..cut], &bytes[cut..]] {
                    assert_eq!(post.next(&mut part).expect("a right answer"), None);
                    assert!(part.is_empty());
                }
                assert_eq!(post.end(), Some(expected.clone()), "cut at {cut}");
                assert_eq!(post.end(), None);
            }
        }
        for (bytes, ..) in WHOLE {
            let mut post = Post::new("a:1", "/", 100);
            post.next(&mut &bytes[..bytes.len() - 1]).expect("so far");
            assert_eq!(post.end(), None, "it was cut off");
        }
        let mut post = Post::new("a:1", "/", 100);
        post.next(&mut &b"HTTP/1.1 200 OK\r\n\r\n"[..]).expect("so far");
        let endless = [b' '; 100 + limits::JSONRPC_HTTP_HEAD_BYTES];
        assert!(post.next(&mut &endless[..]).is_err(), "a content without an end");
    }

    #[test]
    fn answer_is_read_wherever_it_is_cut() {
        for (bytes, status, content, end) in WHOLE {
            let content = Cow::Borrowed(content);
            let expected = PostAnswer { status, content, end, is_ours: false };
            for cut in 0..=bytes.len() {
                let mut post = Post::new("a:1", "/", 100);
                let (mut first, mut second) = bytes.split_at(cut);
                let early = post.next(&mut first).expect("a right answer");
                assert!(first.is_empty());
                let answer = match early {
                    Some(answer) => answer,
                    None => post.next(&mut second).expect("right").expect("whole"),
                };
                assert_eq!(answer, expected, "cut at {cut}");
            }
        }
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for (bytes, said) in [
            (&b"{}"[..], "invalid"),
            (b"HTTP/1.1 101 Up\r\n\r\n", "upgrades"),
            (b"HTTP/1.1 200 OK\r\ncontent-length: +2\r\n\r\n{}", "not one number"),
            (
                b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n",
                "not one number",
            ),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n", "both"),
            (b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n", "not chunked"),
            (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\n", "not a number"),
            (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nab\r\n", "does not end"),
        ] {
            let error = parse(bytes).expect_err("it is wrong").to_string();
            assert!(error.contains(said), "{error}");
        }
        let mut post = Post::new("a:1", "/", 100);
        let endless = [b'a'; limits::JSONRPC_HTTP_HEAD_BYTES];
        post.next(&mut &b"HTTP/1.1 200 OK\r\nx: "[..]).expect("so far");
        assert!(post.next(&mut &endless[..]).is_err(), "an endless head");
    }

    #[test]
    fn answer_in_tiny_chunks_and_pieces_is_read_once() {
        let size = 64 << 10;
        let mut answer = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
        answer.extend_from_slice(&b"1\r\nx\r\n".repeat(size));
        answer.extend_from_slice(b"0\r\n\r\n");
        let mut post = Post::new("a:1", "/", 1 << 20);
        // To read all of it again with each byte would take minutes.
        let found = answer.iter().find_map(|byte| {
            post.next(&mut std::slice::from_ref(byte)).expect("so far").map(|it| it.content.len())
        });
        assert_eq!(found, Some(size));
    }

    #[test]
    fn what_stands_around_chunks_has_an_end() {
        let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        for begin in [&b"1;"[..], b"0\r\na: "] {
            let mut post = Post::new("a:1", "/", 1 << 20);
            post.next(&mut &[&head[..], begin].concat()[..]).expect("so far");
            let mut endless = &[b'a'; limits::JSONRPC_HTTP_HEAD_BYTES + 1][..];
            let error = post.next(&mut endless).expect_err("an endless line").to_string();
            assert!(error.contains("around a chunk"), "{error}");
        }
        let interim = b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(1_000);
        assert!(Post::new("a:1", "/", 1 << 20).next(&mut &interim[..]).is_err(), "endless heads");
    }

    #[test]
    fn metadata_does_not_change_the_request() {
        let mut meta = Vec::new();
        let mut writer = ringway_wire::native::MetaWriter::new(&mut meta);
        writer
            .entry("x", b"1")
            .entry("content-length", b"9")
            .entry("y", b"a\r\nb")
            .entry("z-bin", b"a");
        let mut out = Vec::new();
        let timeout = Some(Duration::from_millis(250));
        let call = Open { timeout, meta: &meta, ..Open::default() };
        Post::new("a:1", "/rpc", 100).put(b"{}", &call, &mut out);
        assert_eq!(
            String::from_utf8(out).expect("text"),
            "POST /rpc HTTP/1.1\r\nhost: a:1\r\ncontent-type: application/json\r\naccept: application/json\r\n\
             accept-encoding: identity\r\ncontent-length: 2\r\nringway-timeout: 250000u\r\nx: 1\r\nz-bin: YQ==\r\n\r\n{}"
        );
    }
}
