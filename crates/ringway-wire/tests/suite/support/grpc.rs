//! A server of gRPC under test, and a client of HTTP/2 that sends anything.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ringway_wire::grpc::{GrpcServer, RequestNames, ServerConfig, prefix};
use ringway_wire::http2::{
    Body, ErrorCode, Event, Http2Client, Http2Config, Key, Known, Line, NewRequest, Resolver,
    StreamHandle, Violation, Vocabulary,
};
use ringway_wire::native::{Outgoing, Piece, Reply, ServerEvent, StreamId};

use super::http2::{NOW, output};

pub(crate) const MESSAGE_MAX: u32 = 1 << 20;

/// Keeps the text of every field.
#[derive(Debug)]
pub(crate) struct AsText;

impl Resolver for AsText {
    fn key(&self, _name: &[u8]) -> Option<Key> {
        None
    }

    fn value(&self, _key: Key, _value: &[u8]) -> Known {
        Known { value: 0, keep: true }
    }
}

/// The events of one stream.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Came {
    pub(crate) head: Vec<String>,
    pub(crate) content: Vec<u8>,
    pub(crate) trailers: Vec<String>,
    pub(crate) has_ended: bool,
    pub(crate) reset: Option<ErrorCode>,
}

pub(crate) type Serve = fn(&mut GrpcServer, &ServerEvent<'_>);

pub(crate) struct Pair {
    pub(crate) client: Http2Client,
    pub(crate) server: GrpcServer,
    pub(crate) came: BTreeMap<u32, Came>,
    /// The events of the server.
    pub(crate) told: Vec<String>,
    pub(crate) ids: Vec<StreamId>,
    pub(crate) serve: Serve,
    pub(crate) now: Duration,
    /// Whether the client reads replies.
    pub(crate) reads: bool,
}

/// Answers each message of a request with itself.
pub(crate) fn echo(server: &mut GrpcServer, event: &ServerEvent<'_>) {
    match event {
        ServerEvent::Request { stream, message: Some(message), end: true, .. } => {
            let message = Some(Body::Copy(message));
            server.respond(*stream, Reply { status: 0, meta: &[], message });
        }
        ServerEvent::Request { stream, head, meta, message, end: false } => {
            server.await_rest(*stream, *head, meta, message.as_deref());
        }
        _ => {}
    }
}

pub(crate) fn nothing(_: &mut GrpcServer, _: &ServerEvent<'_>) {}

/// Answers each message of a stream with itself, and its end with success.
pub(crate) fn echo_stream(server: &mut GrpcServer, event: &ServerEvent<'_>) {
    let (stream, message, end) = match event {
        ServerEvent::Request { stream, message, end, .. } => (*stream, message.as_ref(), *end),
        ServerEvent::Message { stream, message, end } => (*stream, Some(message), *end),
        ServerEvent::End { stream } => (*stream, None, true),
        _ => return,
    };
    if let Some(message) = message {
        server.send(stream, &[], Body::Copy(message)).expect("open");
        server.taken(stream, 1);
    }
    if end {
        server.respond(stream, Reply { status: 0, meta: &[], message: None });
    }
}

impl Pair {
    pub(crate) fn new(serve: Serve) -> Self {
        let names = RequestNames::new([("/a.B/C", 1), ("/a.B/D", 2)]);
        let config =
            ServerConfig { http2: Http2Config::default().into(), max_message: MESSAGE_MAX };
        let server = GrpcServer::new(config, Arc::new(Vocabulary::new(names)), NOW);
        let text = Arc::new(Vocabulary::new(AsText));
        let client = Http2Client::new(Http2Config::client(), text, NOW);
        let (came, told, ids) = Default::default();
        Self { client, server, came, told, ids, serve, now: NOW, reads: true }
    }

    pub(crate) fn open(
        &mut self,
        fields: &[(&str, &str)],
        content: &[u8],
        end: bool,
    ) -> StreamHandle {
        let lines: Vec<Line<'_>> = fields
            .iter()
            .map(|(name, value)| Line::Once { name: name.as_bytes(), value: value.as_bytes() })
            .collect();
        let body = (!content.is_empty()).then_some(Body::Copy(content));
        self.client.open(NewRequest { head: &lines, prefix: &[], body, end }).expect("room")
    }

    /// A call of `/a.B/C` with these fields in addition.
    pub(crate) fn call(
        &mut self,
        more: &[(&str, &str)],
        content: &[u8],
        end: bool,
    ) -> StreamHandle {
        self.open(&[GOOD, more].concat(), content, end)
    }

    pub(crate) fn more(&mut self, stream: StreamHandle, content: &[u8], end: bool) {
        self.client.send(stream, &[], Body::Copy(content), end).expect("open");
    }

    pub(crate) fn run(&mut self) {
        self.run_cut(usize::MAX);
    }

    /// Moves bytes both ways until nothing moves, in pieces of so many bytes.
    pub(crate) fn run_cut(&mut self, len: usize) {
        while self.client.has_output() || self.server.has_output() || self.server.has_events() {
            let up = output(&mut self.client, usize::MAX);
            for piece in up.chunks(len) {
                self.receive(piece).expect("a good client");
            }
            self.receive(&[]).expect("a good client");
            let mut down = Vec::new();
            self.server.transmit(usize::MAX, &mut |out| match out {
                Outgoing::Copy(bytes) => down.extend_from_slice(bytes),
                Outgoing::Shared(bytes) => down.extend_from_slice(&bytes),
            });
            for piece in down.chunks(len) {
                self.listen(piece);
            }
        }
    }

    pub(crate) fn receive(&mut self, mut piece: &[u8]) -> Result<(), Violation> {
        while let Some(event) = self.server.receive(&mut piece, self.now)? {
            self.tell(&event);
            while let Some((stream, message)) = self.server.receive_message(&mut piece) {
                let message = Piece::Borrowed(message);
                self.tell(&ServerEvent::Message { stream, message, end: false });
            }
        }
        Ok(())
    }

    fn tell(&mut self, event: &ServerEvent<'_>) {
        self.told.push(text_of(event));
        if let ServerEvent::Request { stream, .. } = event {
            self.ids.push(*stream);
        }
        (self.serve)(&mut self.server, event);
    }

    pub(crate) fn listen(&mut self, mut piece: &[u8]) {
        while let Some(event) = self.client.receive(&mut piece, self.now).expect("a good server") {
            let fields = |client: &Http2Client| {
                let text = |(name, value): (&[u8], &[u8])| {
                    format!("{}: {}", name.escape_ascii(), value.escape_ascii())
                };
                client.fields().iter().map(text).collect::<Vec<_>>()
            };
            match event {
                Event::Head { stream, data, end } => {
                    let came = self.came.entry(stream.id()).or_default();
                    came.head = fields(&self.client);
                    came.content.extend_from_slice(&data);
                    came.has_ended = end;
                    self.client.taken(stream, if self.reads { data.len() } else { 0 });
                }
                Event::Data { stream, data, end } => {
                    let came = self.came.entry(stream.id()).or_default();
                    came.content.extend_from_slice(&data);
                    came.has_ended = end;
                    self.client.taken(stream, if self.reads { data.len() } else { 0 });
                }
                Event::Trailers { stream } => {
                    let came = self.came.entry(stream.id()).or_default();
                    (came.trailers, came.has_ended) = (fields(&self.client), true);
                }
                Event::Reset { stream, code } => {
                    self.came.entry(stream.id()).or_default().reset = Some(code);
                }
                _ => {}
            }
        }
    }

    #[track_caller]
    pub(crate) fn answer(&self, stream: StreamHandle) -> &Came {
        self.came.get(&stream.id()).expect("it was answered")
    }

    /// The status of a call, with its message.
    #[track_caller]
    pub(crate) fn status(&self, stream: StreamHandle) -> String {
        let came = self.answer(stream);
        assert!(came.has_ended, "{came:?}");
        let fields = || came.trailers.iter().chain(&came.head);
        let find = |name: &str| fields().find_map(|field| field.strip_prefix(name));
        let status = find("grpc-status: ").expect("a status");
        format!("{status} {}", find("grpc-message: ").unwrap_or_default()).trim().to_owned()
    }
}

pub(crate) const GOOD: &[(&str, &str)] = &[
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/a.B/C"),
    (":authority", "here"),
    ("content-type", "application/grpc"),
];

/// The good fields, with one of another value.
pub(crate) fn but(name: &str, value: &'static str) -> Vec<(&'static str, &'static str)> {
    let changed = |&(known, old): &(&'static str, &'static str)| {
        (known, if known == name { value } else { old })
    };
    GOOD.iter().map(changed).collect()
}

pub(crate) fn message(bytes: &[u8]) -> Vec<u8> {
    [&prefix(bytes.len() as u32, false)[..], bytes].concat()
}

pub(crate) fn text_of(event: &ServerEvent<'_>) -> String {
    let shown = |bytes: &[u8]| match bytes.len() {
        0..50 => bytes.escape_ascii().to_string(),
        len => format!("{len} bytes"),
    };
    let ended = |end: &bool| if *end { ", end" } else { "" };
    match event {
        ServerEvent::Request { head, message, end, .. } => {
            let message = message.as_ref().map(|message| shown(message));
            format!("request {}: {message:?}{}", head.method, ended(end))
        }
        ServerEvent::Message { message, end, .. } => {
            format!("message {}{}", shown(message), ended(end))
        }
        ServerEvent::End { .. } => "end".into(),
        ServerEvent::Cancelled { code, .. } => format!("cancelled {code}"),
        ServerEvent::Failed { code, .. } => format!("failed {code}"),
        ServerEvent::Writable { .. } => "writable".into(),
        other => format!("{other:?}"),
    }
}
