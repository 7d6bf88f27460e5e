//! A client machine and a server machine, joined by two byte strings that are cut anywhere.

use std::time::Duration;

use ringway_wire::native::{
    Body, Client, ClientEvent, Config, MetaWriter, Open, Outgoing, Piece, RequestHead, Server,
    ServerEvent, StreamId, Violation,
};

/// A server's event that outlives its input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asked {
    Request {
        stream: StreamId,
        head: RequestHead,
        meta: Vec<u8>,
        message: Option<Vec<u8>>,
        end: bool,
    },
    Named(u32, Vec<u8>),
    Message {
        stream: StreamId,
        message: Vec<u8>,
        end: bool,
    },
    End(StreamId),
    Cancelled(StreamId, u8, String),
    Failed(StreamId, u8),
    Writable(StreamId),
    Leaving(u32, String),
}

/// A client's event that outlives its input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    Initial(StreamId, Vec<u8>),
    Message(StreamId, Vec<u8>),
    Response { stream: StreamId, status: u8, meta: Vec<u8>, message: Option<Vec<u8>> },
    Writable(StreamId),
    Capacity,
    Leaving { code: u32, drain_ms: u32, accepted: u32, reason: String },
}

/// The places at which each direction's bytes are cut.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cut {
    Nowhere,
    /// Once, before this byte.
    At(usize),
    /// Into pieces of so many bytes.
    Every(usize),
}

/// One direction. It counts the bytes sent so far, so that a cut has a place.
#[derive(Debug)]
struct Way {
    cut: Cut,
    passed: usize,
}

impl Way {
    fn pieces<'b>(&mut self, bytes: &'b [u8]) -> Vec<&'b [u8]> {
        let pieces = match self.cut {
            Cut::Every(len) if !bytes.is_empty() => bytes.chunks(len).collect(),
            Cut::Nowhere | Cut::Every(_) => vec![bytes],
            Cut::At(at) => {
                let (head, tail) = bytes.split_at(at.saturating_sub(self.passed).min(bytes.len()));
                vec![head, tail]
            }
        };
        self.passed += bytes.len();
        pieces
    }
}

pub(crate) struct Pair {
    pub(crate) client: Client,
    pub(crate) server: Server,
    pub(crate) now: Duration,
    up: Way,
    down: Way,
    pub(crate) asked: Vec<Asked>,
    pub(crate) told: Vec<Told>,
    /// Bytes that went up and down.
    pub(crate) upward: usize,
    pub(crate) downward: usize,
}

impl Pair {
    pub(crate) fn new(cut: Cut) -> Self {
        Self::with(cut, Config::default(), Config::default())
    }

    pub(crate) fn with(cut: Cut, client: Config, server: Config) -> Self {
        Self {
            client: Client::new(client, Duration::ZERO),
            server: Server::new(server, Duration::ZERO),
            now: Duration::ZERO,
            up: Way { cut, passed: 0 },
            down: Way { cut, passed: 0 },
            asked: Vec::new(),
            told: Vec::new(),
            upward: 0,
            downward: 0,
        }
    }

    /// Moves the client's output. The server's events go to `handler` and are kept.
    pub(crate) fn up(
        &mut self,
        handler: &mut dyn FnMut(&mut Server, &Asked),
    ) -> Result<(), Violation> {
        let bytes = drain(|out| self.client.transmit(usize::MAX, out));
        self.upward += bytes.len();
        for mut piece in self.up.pieces(&bytes) {
            while let Some(event) = self.server.receive(&mut piece, self.now)? {
                let asked = Asked::from(event);
                handler(&mut self.server, &asked);
                self.asked.push(asked);
            }
            assert!(piece.is_empty(), "no event: the input is used up");
        }
        Ok(())
    }

    /// Moves the server's output.
    pub(crate) fn down(&mut self) -> Result<(), Violation> {
        let bytes = drain(|out| self.server.transmit(usize::MAX, out));
        self.downward += bytes.len();
        for mut piece in self.down.pieces(&bytes) {
            while let Some(event) = self.client.receive(&mut piece, self.now)? {
                let told = Told::from(event);
                if let Told::Message(stream, _) = &told {
                    self.client.taken(*stream, 1);
                }
                self.told.push(told);
            }
            assert!(piece.is_empty(), "no event: the input is used up");
        }
        Ok(())
    }

    /// Moves bytes both ways until neither side has any.
    pub(crate) fn settle(&mut self, handler: &mut dyn FnMut(&mut Server, &Asked)) {
        for _ in 0..10_000 {
            if !self.client.has_output() && !self.server.has_output() && !self.has_events() {
                return;
            }
            self.up(handler).expect("the client keeps to the protocol");
            self.down().expect("the server keeps to the protocol");
        }
        panic!("the machines never come to rest");
    }

    fn has_events(&self) -> bool {
        self.client.has_events() || self.server.has_events()
    }

    /// Opens a call of one message.
    pub(crate) fn unary(&mut self, message: &[u8]) -> StreamId {
        let message = Some(Body::Copy(message));
        let call = Open { method: 7, name: "test.Test/Do", message, end: true, ..Open::default() };
        self.client.open(call).expect("room")
    }

    /// The last RESPONSE of a call.
    pub(crate) fn response(&self, stream: StreamId) -> Option<(u8, Option<&[u8]>)> {
        self.told.iter().rev().find_map(|told| match told {
            Told::Response { stream: id, status, message, .. } if *id == stream => {
                Some((*status, message.as_deref()))
            }
            _ => None,
        })
    }

    /// Messages that came down a stream.
    pub(crate) fn messages(&self, stream: StreamId) -> Vec<&[u8]> {
        let of_stream = self.told.iter().filter_map(|told| match told {
            Told::Message(id, message) if *id == stream => Some(&message[..]),
            _ => None,
        });
        of_stream.collect()
    }
}

/// All bytes that `transmit` hands out.
pub(crate) fn drain(transmit: impl FnOnce(&mut dyn FnMut(Outgoing<'_>))) -> Vec<u8> {
    let mut bytes = Vec::new();
    transmit(&mut |out| match out {
        Outgoing::Copy(part) => bytes.extend_from_slice(part),
        Outgoing::Shared(part) => bytes.extend_from_slice(&part),
    });
    bytes
}

/// A handler that does nothing.
pub(crate) fn idle(_: &mut Server, _: &Asked) {}

fn text(piece: &Piece<'_>) -> String {
    String::from_utf8_lossy(piece).into_owned()
}

impl From<ServerEvent<'_>> for Asked {
    fn from(event: ServerEvent<'_>) -> Self {
        match event {
            ServerEvent::Request { stream, head, meta, message, end } => Asked::Request {
                stream,
                head,
                meta: meta.to_vec(),
                message: message.map(|message| message.to_vec()),
                end,
            },
            ServerEvent::Message { stream, message, end } => {
                Asked::Message { stream, message: message.to_vec(), end }
            }
            ServerEvent::Named { method, meta } => Asked::Named(method, meta.to_vec()),
            ServerEvent::End { stream } => Asked::End(stream),
            ServerEvent::Cancelled { stream, code, reason } => {
                Asked::Cancelled(stream, code, text(&reason))
            }
            ServerEvent::Failed { stream, code } => Asked::Failed(stream, code),
            ServerEvent::Writable { stream } => Asked::Writable(stream),
            ServerEvent::PeerLeaving { code, reason } => Asked::Leaving(code, text(&reason)),
            ServerEvent::Guest { .. } => panic!("not in this protocol"),
        }
    }
}

impl From<ClientEvent<'_>> for Told {
    fn from(event: ClientEvent<'_>) -> Self {
        match event {
            ClientEvent::Initial { stream, meta } => Told::Initial(stream, meta.to_vec()),
            ClientEvent::Message { stream, message } => Told::Message(stream, message.to_vec()),
            ClientEvent::Response { stream, status, meta, message } => Told::Response {
                stream,
                status,
                meta: meta.to_vec(),
                message: message.map(|message| message.to_vec()),
            },
            ClientEvent::Failed { stream, status, text, .. } => {
                let mut meta = Vec::new();
                MetaWriter::new(&mut meta).status_message(&text);
                Told::Response { stream, status, meta, message: None }
            }
            ClientEvent::Writable { stream } => Told::Writable(stream),
            ClientEvent::Capacity => Told::Capacity,
            ClientEvent::Leaving { code, drain_ms, accepted, reason } => {
                Told::Leaving { code, drain_ms, accepted, reason: text(&reason) }
            }
        }
    }
}
