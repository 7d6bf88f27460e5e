//! A client made of the machine and a blocking socket.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringway_rpc::Code;
use ringway_wire::native::{
    Body, Client, ClientEvent, Config, MetaReader, Open, Outgoing, StreamId, Tag,
};

use super::{LIMIT, open_sockets};

/// One connection.
pub(crate) struct Caller {
    pub machine: Client,
    socket: Arc<TcpStream>,
    origin: Instant,
    heard: VecDeque<Heard>,
}

/// An event from a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Heard {
    Message(StreamId, Bytes),
    Response(StreamId, Answer),
    Leaving(u32),
}

/// The outcome of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    pub code: Code,
    pub text: String,
    pub refused: bool,
    pub body: Option<Bytes>,
    /// The trailers' entries.
    pub trailers: Vec<(String, String)>,
}

impl Answer {
    #[track_caller]
    pub(crate) fn ok(self) -> Bytes {
        assert_eq!(self.code, Code::Ok, "{self:?}");
        self.body.unwrap_or_default()
    }

    fn read(&mut self, (tag, value): (Tag, &[u8])) {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        match tag {
            Tag::StatusMessage => self.text = text(value),
            Tag::Refused => self.refused = true,
            Tag::Entry => {
                let (key, value) = MetaReader::entry(value).expect("a good entry");
                self.trailers.push((text(key), text(value)));
            }
            _ => {}
        }
    }
}

impl Caller {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let socket = open_sockets::connect(address);
        Self {
            machine: Client::new(Config::default(), Duration::ZERO),
            socket,
            origin: Instant::now(),
            heard: VecDeque::new(),
        }
    }

    /// Opens a call by name; `change` may modify its fields.
    pub(crate) fn open_with<'a>(
        &mut self,
        name: &'a str,
        message: Option<&'a [u8]>,
        end: bool,
        change: impl FnOnce(&mut Open<'a>),
    ) -> StreamId {
        let mut open = Open { name, message: message.map(Body::Copy), end, ..Open::default() };
        change(&mut open);
        let stream = self.machine.open(open).expect("room for one more call");
        self.flush();
        stream
    }

    /// Opens a call with its only message.
    pub(crate) fn open(&mut self, name: &str, message: &[u8]) -> StreamId {
        self.open_with(name, Some(message), true, |_| {})
    }

    /// Makes a call and waits for its end.
    #[track_caller]
    pub(crate) fn call(&mut self, name: &str, message: &[u8]) -> Answer {
        let stream = self.open(name, message);
        self.answer(stream)
    }

    pub(crate) fn send(&mut self, stream: StreamId, message: &[u8], end: bool) {
        self.machine.send(stream, Body::Copy(message), end).expect("the call goes on");
        self.flush();
    }

    pub(crate) fn finish(&mut self, stream: StreamId) {
        self.machine.finish(stream);
        self.flush();
    }

    pub(crate) fn cancel(&mut self, stream: StreamId, reason: &str) {
        self.machine.cancel(stream, Code::Cancelled as u8, reason);
        self.flush();
    }

    /// Waits for the end of a call, and keeps events of other calls.
    #[track_caller]
    pub(crate) fn answer(&mut self, stream: StreamId) -> Answer {
        let found = self.wait_for(|heard| matches!(heard, Heard::Response(of, _) if *of == stream));
        let Heard::Response(_, answer) = found else { unreachable!("it was found by its kind") };
        answer
    }

    /// Waits for the next message of a stream, or its end.
    #[track_caller]
    pub(crate) fn message(&mut self, stream: StreamId) -> Result<Bytes, Answer> {
        let found = self.wait_for(|heard| match heard {
            Heard::Message(of, _) | Heard::Response(of, _) => *of == stream,
            Heard::Leaving(_) => false,
        });
        match found {
            Heard::Message(_, message) => {
                self.machine.taken(stream, 1);
                self.flush();
                Ok(message)
            }
            Heard::Response(_, answer) => Err(answer),
            Heard::Leaving(_) => unreachable!("it was found by its kind"),
        }
    }

    /// Waits for the next event.
    #[track_caller]
    pub(crate) fn next(&mut self) -> Heard {
        self.wait_for(|_| true)
    }

    #[track_caller]
    pub(crate) fn wait_for(&mut self, wanted: impl Fn(&Heard) -> bool) -> Heard {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(at) = self.heard.iter().position(&wanted) {
                return self.heard.remove(at).expect("it was found there");
            }
            assert!(self.receive(deadline), "the server has closed the connection");
        }
    }

    /// Waits until the server has closed the connection.
    #[track_caller]
    pub(crate) fn closed(&mut self) {
        let deadline = Instant::now() + LIMIT;
        while self.receive(deadline) {}
    }

    /// Receives once; returns false at the end of the connection.
    #[track_caller]
    fn receive(&mut self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        assert!(!left.is_zero(), "nothing has come in time");
        self.socket.set_read_timeout(Some(left)).expect("a time above zero");
        let mut buffer = [0; 64 * 1024];
        let count = match (&*self.socket).read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => 0,
            Err(error) => panic!("cannot receive: {error}"),
        };
        let mut input = &buffer[..count];
        let now = self.origin.elapsed();
        while let Some(event) = self.machine.receive(&mut input, now).expect("a good server") {
            self.heard.extend(heard(event));
        }
        self.flush();
        count > 0
    }

    pub(crate) fn flush(&mut self) {
        self.send_some(usize::MAX);
    }

    /// Sends about so many bytes of what waits to be sent.
    pub(crate) fn send_some(&mut self, bytes: usize) {
        let mut out = Vec::new();
        self.machine.transmit(bytes, &mut |outgoing| match outgoing {
            Outgoing::Copy(bytes) => out.extend_from_slice(bytes),
            Outgoing::Shared(bytes) => out.extend_from_slice(&bytes),
        });
        // The server may have closed its end: the next read notices.
        let _ = (&*self.socket).write_all(&out);
    }
}

fn heard(event: ClientEvent<'_>) -> Option<Heard> {
    Some(match event {
        ClientEvent::Message { stream, message } => Heard::Message(stream, message.into_bytes()),
        ClientEvent::Response { stream, status, meta, message } => {
            let body = message.map(|message| message.into_bytes());
            let mut answer = Answer {
                code: Code::from_wire(status),
                text: String::new(),
                refused: false,
                body,
                trailers: Vec::new(),
            };
            for piece in MetaReader::new(&meta) {
                answer.read(piece.expect("well-formed metadata"));
            }
            Heard::Response(stream, answer)
        }
        ClientEvent::Failed { stream, status, text, .. } => {
            let (code, text) = (Code::from_wire(status), text.into_owned());
            let answer = Answer { code, text, refused: false, body: None, trailers: Vec::new() };
            Heard::Response(stream, answer)
        }
        ClientEvent::Leaving { code, .. } => Heard::Leaving(code),
        ClientEvent::Initial { .. } | ClientEvent::Writable { .. } | ClientEvent::Capacity => {
            return None;
        }
    })
}
