//! Machines of HTTP/2 under test, and frames made by hand.

use std::sync::Arc;
use std::time::Duration;

use ringway_wire::http2::{
    Calling, Connection, ErrorCode, Event, Http2Client, Http2Config, Http2Server, Key, Known, Line,
    Outgoing, Resolver, Role, Serving, Vocabulary,
};

pub(crate) const NOW: Duration = Duration::ZERO;

/// Knows paths, a timeout and a status.
#[derive(Debug)]
pub(crate) struct Names;

impl Resolver for Names {
    fn key(&self, name: &[u8]) -> Option<Key> {
        match name {
            b"content-type" => Some(Key::own(0)),
            b"grpc-status" => Some(Key::own(1)),
            _ => None,
        }
    }

    fn value(&self, key: Key, value: &[u8]) -> Known {
        let is_type = key == Key::own(0);
        let is_grpc = u64::from(value == b"application/grpc");
        let number = value.first().map_or(0, |digit| u64::from(digit.wrapping_sub(b'0')));
        let value = match key {
            Key::PATH => value.len() as u64,
            _ if is_type => is_grpc,
            _ if key == Key::own(1) => number,
            _ => 0,
        };
        Known { value, keep: false }
    }
}

pub(crate) fn vocabulary() -> Arc<Vocabulary> {
    Arc::new(Vocabulary::new(Names))
}

pub(crate) fn server() -> Http2Server {
    Connection::<Serving>::new(Http2Config::default(), vocabulary(), NOW)
}

pub(crate) fn client() -> Http2Client {
    Connection::<Calling>::new(Http2Config::client(), vocabulary(), NOW)
}

/// The output of a machine, up to `budget` bytes.
pub(crate) fn output<R: Role>(machine: &mut Connection<R>, budget: usize) -> Vec<u8> {
    let mut wire = Vec::new();
    machine.transmit(budget, &mut |out| match out {
        Outgoing::Copy(bytes) => wire.extend_from_slice(bytes),
        Outgoing::Shared(bytes) => wire.extend_from_slice(&bytes),
    });
    wire
}

/// `:method POST`, `:scheme http`, a path.
pub(crate) const REQUEST: &[Line<'static>] = &[
    Line::Static(3),
    Line::Static(6),
    Line::Fixed { id: 0, name: b":path", value: b"/a.B/C" },
    Line::Fixed { id: 1, name: b"te", value: b"trailers" },
    Line::Fixed { id: 2, name: b"content-type", value: b"application/grpc" },
];

/// `:status 200`, content-type.
pub(crate) const RESPONSE: &[Line<'static>] =
    &[Line::Static(8), Line::Fixed { id: 0, name: b"content-type", value: b"application/grpc" }];

pub(crate) const TRAILERS: &[Line<'static>] =
    &[Line::Fixed { id: 1, name: b"grpc-status", value: b"0" }];

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const PADDED: u8 = 8;

/// A frame made by hand.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// A block of literals that enter no table.
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            assert!(text.len() < 127, "a length of one byte");
            block.push(text.len() as u8);
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// The fields of a good request.
pub(crate) const GOOD: &[(&str, &str)] =
    &[(":method", "POST"), (":scheme", "http"), (":path", "/a.B/C")];

/// HEADERS with a good request.
pub(crate) fn request(stream: u32, flags: u8) -> Vec<u8> {
    frame(HEADERS, flags | END_HEADERS, stream, &block(GOOD))
}

pub(crate) fn setting(id: u16, value: u32) -> Vec<u8> {
    let mut payload = id.to_be_bytes().to_vec();
    payload.extend_from_slice(&value.to_be_bytes());
    payload
}

/// Frames of a machine's output: type, flags, stream, payload.
pub(crate) fn frames(wire: &[u8]) -> Vec<(u8, u8, u32, Vec<u8>)> {
    let mut rest = wire.strip_prefix(PREFACE).unwrap_or(wire);
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let len = u32::from_be_bytes([0, rest[0], rest[1], rest[2]]) as usize;
        let stream = u32::from_be_bytes([rest[5], rest[6], rest[7], rest[8]]);
        frames.push((rest[3], rest[4], stream, rest[9..9 + len].to_vec()));
        rest = &rest[9 + len..];
    }
    frames
}

/// The resets and the GOAWAY in a machine's output.
pub(crate) fn ends(wire: &[u8]) -> Vec<(u32, ErrorCode)> {
    let number = |bytes: &[u8]| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let end = |(kind, _, stream, payload): (u8, u8, u32, Vec<u8>)| match kind {
        RST_STREAM => Some((stream, ErrorCode(number(&payload)))),
        GOAWAY => Some((0, ErrorCode(number(&payload[4..])))),
        _ => None,
    };
    frames(wire).into_iter().filter_map(end).collect()
}

/// An event as text, without its bytes' whereabouts.
pub(crate) fn told(event: &Event<'_>) -> String {
    match event {
        Event::Head { stream, data, end } => {
            format!("head {} {:?} {end}", stream.id(), String::from_utf8_lossy(data))
        }
        Event::Data { stream, data, end } => {
            format!("data {} {:?} {end}", stream.id(), String::from_utf8_lossy(data))
        }
        Event::Trailers { stream } => format!("trailers {}", stream.id()),
        Event::Reset { stream, code } => format!("reset {} {code}", stream.id()),
        Event::Failed { stream, code } => format!("failed {} {code}", stream.id()),
        Event::Writable { stream } => format!("writable {}", stream.id()),
        Event::Leaving { code, last, .. } => format!("leaving {code} {last}"),
        Event::Capacity | Event::DrainOver | Event::Pong { .. } => format!("{event:?}"),
    }
}
