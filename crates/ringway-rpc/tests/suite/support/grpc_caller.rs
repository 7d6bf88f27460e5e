//! A gRPC client made of an HTTP/2 machine and a blocking socket.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringway_wire::grpc::prefix;
use ringway_wire::http2::{
    Body, ErrorCode, Event, Http2Client, Http2Config, Key, Known, Line, NewRequest, Outgoing,
    Resolver, StreamHandle, Vocabulary,
};

use super::{LIMIT, open_sockets};

/// A vocabulary that keeps the text of every field.
#[derive(Debug)]
struct AsText;

impl Resolver for AsText {
    fn key(&self, _name: &[u8]) -> Option<Key> {
        None
    }

    fn value(&self, _key: Key, _value: &[u8]) -> Known {
        Known { value: 0, keep: true }
    }
}

/// The received parts of a reply.
#[derive(Debug, Default, Clone)]
pub(crate) struct Came {
    /// The fields of the head and of the trailers.
    pub fields: Vec<(String, String)>,
    pub content: Vec<u8>,
    pub has_ended: bool,
    pub reset: Option<ErrorCode>,
}

impl Came {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let field = self.fields.iter().find(|(known, _)| known == name);
        field.map(|(_, value)| &value[..])
    }

    /// Returns the complete messages.
    pub(crate) fn messages(&self) -> Vec<Bytes> {
        let (mut rest, mut messages) = (&self.content[..], Vec::new());
        while let Some((head, behind)) = rest.split_first_chunk::<5>() {
            let [_, a, b, c, d] = *head;
            let len = u32::from_be_bytes([a, b, c, d]) as usize;
            let Some((message, behind)) = behind.split_at_checked(len) else { break };
            messages.push(Bytes::copy_from_slice(message));
            rest = behind;
        }
        messages
    }

    /// Returns the status and its message.
    #[track_caller]
    pub(crate) fn status(&self) -> (u8, &str) {
        let status = self.field("grpc-status").unwrap_or_else(|| panic!("no status: {self:?}"));
        (status.parse().expect("a number"), self.field("grpc-message").unwrap_or_default())
    }
}

/// One connection.
pub(crate) struct GrpcCaller {
    pub machine: Http2Client,
    pub came: BTreeMap<u32, Came>,
    /// Whether read content is reported, so that more may arrive.
    pub reads: bool,
    /// Whether what is sent is collected until the next read.
    pub collects: bool,
    /// Whether the server has sent GOAWAY.
    pub is_left: bool,
    socket: Arc<TcpStream>,
    origin: Instant,
}

impl GrpcCaller {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let socket = open_sockets::connect(address);
        let (came, origin) = (BTreeMap::new(), Instant::now());
        Self {
            machine: machine(),
            came,
            reads: true,
            collects: false,
            is_left: false,
            socket,
            origin,
        }
    }

    /// Opens a call of a method by name, with additional fields.
    pub(crate) fn open_with(
        &mut self,
        name: &str,
        fields: &[(&str, &str)],
        content: &[u8],
        end: bool,
    ) -> StreamHandle {
        let path = format!("/{name}");
        let usual = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", &path),
            (":authority", "test"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ];
        let all = usual.into_iter().filter(|(name, _)| fields.iter().all(|(own, _)| own != name));
        let (pseudo, regular): (Vec<_>, Vec<_>) =
            all.chain(fields.iter().copied()).partition(|(name, _)| name.starts_with(':'));
        let lines: Vec<Line<'_>> = pseudo
            .iter()
            .chain(&regular)
            .map(|(name, value)| Line::Once { name: name.as_bytes(), value: value.as_bytes() })
            .collect();
        let body = (!content.is_empty()).then_some(Body::Copy(content));
        let request = NewRequest { head: &lines, prefix: &[], body, end };
        let stream = self.machine.open(request).expect("room for one more call");
        self.flush();
        stream
    }

    /// Opens a call with its only message.
    pub(crate) fn open(&mut self, name: &str, message: &[u8]) -> StreamHandle {
        self.open_with(name, &[], &framed(message), true)
    }

    pub(crate) fn send(&mut self, stream: StreamHandle, message: &[u8], end: bool) {
        let prefix = prefix(message.len() as u32, false);
        self.machine.send(stream, &prefix, Body::Copy(message), end).expect("the call goes on");
        self.flush();
    }

    /// Sends a part of a request's content as it is.
    pub(crate) fn put(&mut self, stream: StreamHandle, content: &[u8], end: bool) {
        self.machine.send(stream, &[], Body::Copy(content), end).expect("the request goes on");
        self.flush();
    }

    pub(crate) fn finish(&mut self, stream: StreamHandle) {
        self.machine.finish(stream, &[]).expect("the call goes on");
        self.flush();
    }

    pub(crate) fn reset(&mut self, stream: StreamHandle) {
        self.machine.reset(stream, ErrorCode::CANCEL);
        self.flush();
    }

    /// Returns what has arrived of a call so far.
    pub(crate) fn seen(&self, stream: StreamHandle) -> Came {
        self.came.get(&stream.id()).cloned().unwrap_or_default()
    }

    /// Waits for the end of a call.
    #[track_caller]
    pub(crate) fn answer(&mut self, stream: StreamHandle) -> Came {
        self.until("the call ends", |came| {
            came.get(&stream.id()).is_some_and(|it| it.has_ended || it.reset.is_some())
        });
        self.seen(stream)
    }

    #[track_caller]
    pub(crate) fn call(&mut self, name: &str, message: &[u8]) -> Came {
        let stream = self.open(name, message);
        self.answer(stream)
    }

    /// Reads until a condition holds, or fails.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, is_so: impl Fn(&BTreeMap<u32, Came>) -> bool) {
        while !is_so(&self.came) {
            assert!(self.read(), "the connection has ended: {what}");
        }
    }

    /// Reads until the server has said that it leaves.
    #[track_caller]
    pub(crate) fn until_left(&mut self) {
        while !self.is_left {
            assert!(self.read(), "the connection has ended");
        }
    }

    /// Receives once; returns false at the end of the connection.
    pub(crate) fn read(&mut self) -> bool {
        self.collects = false;
        self.flush();
        self.socket.set_read_timeout(Some(LIMIT)).expect("a timeout");
        let mut buffer = vec![0; 64 << 10];
        let len = (&*self.socket).read(&mut buffer).expect("something in time");
        let mut input = &buffer[..len];
        let now = self.origin.elapsed();
        while let Some(event) = self.machine.receive(&mut input, now).expect("a good server") {
            let (stream, data, end) = match event {
                Event::Head { stream, data, end } => (stream, Some((true, data)), end),
                Event::Data { stream, data, end } => (stream, Some((false, data)), end),
                Event::Trailers { stream } => (stream, None, true),
                Event::Reset { stream, code } => {
                    self.came.entry(stream.id()).or_default().reset = Some(code);
                    continue;
                }
                Event::Leaving { .. } => {
                    self.is_left = true;
                    continue;
                }
                _ => continue,
            };
            let came = self.came.entry(stream.id()).or_default();
            if data.as_ref().is_none_or(|(is_head, _)| *is_head) {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let fields = self.machine.fields().iter();
                came.fields.extend(fields.map(|(name, value)| (text(name), text(value))));
            }
            if let Some((_, data)) = data {
                came.content.extend_from_slice(&data);
                if self.reads {
                    self.machine.taken(stream, data.len());
                }
            }
            came.has_ended = end;
        }
        self.flush();
        len > 0
    }

    pub(crate) fn flush(&mut self) {
        if self.collects {
            return;
        }
        let mut wire = Vec::new();
        self.machine.transmit(usize::MAX, &mut |out| match out {
            Outgoing::Copy(bytes) => wire.extend_from_slice(bytes),
            Outgoing::Shared(bytes) => wire.extend_from_slice(&bytes),
        });
        // A closed connection is noticed by the next read.
        let _may_be_closed = (&*self.socket).write_all(&wire);
    }
}

/// Makes a machine that keeps the text of every field.
pub(crate) fn machine() -> Http2Client {
    let vocabulary = Arc::new(Vocabulary::new(AsText));
    Http2Client::new(Http2Config::client(), vocabulary, Duration::ZERO)
}

/// Makes a message with its prefix.
pub(crate) fn framed(message: &[u8]) -> Vec<u8> {
    [&prefix(message.len() as u32, false)[..], message].concat()
}
