//! Sessions of two machines of gRPC, recorded as frames, and changes of them.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ringway_wire::grpc::{
    ClientConfig, GrpcClient, GrpcServer, PREFIX_LEN, RequestNames, ServerConfig, prefix,
};
use ringway_wire::http2::{Http2Config, Vocabulary};

use super::changes::{Changes, change};
use super::mutation::{NOISE, len, talk};
use super::random::Random;

const PREFACE_LEN: usize = 24;
const HEADER_LEN: usize = 9;

/// The output of the clients of a few dozen sessions, the same in each run.
pub(crate) static GRPC_SESSIONS: LazyLock<Vec<Vec<Vec<u8>>>> =
    LazyLock::new(|| (0..48).map(|seed| record(&mut Random::new(seed))).collect());

fn record(random: &mut Random) -> Vec<Vec<u8>> {
    let names = ["/a.B/C0", "/a.B/C1", "/a.B/C2", "/a.B/C3"].map(|name| (name, 1));
    let vocabulary = Arc::new(Vocabulary::new(RequestNames::new(names)));
    let config = ServerConfig { http2: Http2Config::default().into(), max_message: 4 << 20 };
    let ends = (
        GrpcClient::new(ClientConfig::new("here"), Duration::ZERO),
        GrpcServer::new(config, vocabulary, Duration::ZERO),
    );
    split(&talk(ends, random).up)
}

/// The preface and the frames of a client's output.
fn split(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (preface, rest) = bytes.split_at(PREFACE_LEN.min(bytes.len()));
    let mut parts = vec![preface.to_vec()];
    parts.extend(frames(rest));
    parts
}

/// The frames of an output.
pub(crate) fn frames(mut rest: &[u8]) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    while let Some(&[a, b, c]) = rest.first_chunk() {
        let len = HEADER_LEN + u32::from_be_bytes([0, a, b, c]) as usize;
        let (frame, behind) = rest.split_at(len.min(rest.len()));
        parts.push(frame.to_vec());
        rest = behind;
    }
    parts
}

/// Changes a session a little, or a lot.
pub(crate) fn mutate(frames: &mut Vec<Vec<u8>>, others: &[Vec<u8>], random: &mut Random) {
    change(&CHANGES, frames, others, random);
}

/// In addition to headers of frames: the beginning of a message, and the first fields of a block.
const CHANGES: Changes = Changes {
    fields: &[(0, 3), (3, 1), (4, 1), (5, 4), (5, 4), (9, 1), (9, 4), (10, 4), (11, 4), (14, 2)],
    is_big_endian: true,
    settings,
    own,
};

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Settings at the borders of their ranges.
fn settings(random: &mut Random) -> Vec<u8> {
    let mut payload = Vec::new();
    for _ in 0..random.below(4) {
        let (id, values) = [
            (1_u16, [0_u32, 4_096, u32::MAX]),
            (2, [0, 1, 2]),
            (3, [0, 1, u32::MAX]),
            (4, [0, i32::MAX as u32, 1 << 31]),
            (5, [16_384, (1 << 24) - 1, 1 << 24]),
            (6, [0, 100, 1_000]),
            (8, [0, 1, u32::MAX]),
        ][random.below(7)];
        payload.extend(id.to_be_bytes());
        payload.extend(values[random.below(3)].to_be_bytes());
    }
    frame(4, random.below(8) as u8 / 7, 0, &payload)
}

/// A frame of a few streams that a session may have.
fn own(random: &mut Random) -> Vec<u8> {
    let stream = [1, 3, 5, 7, 99, 101, 0, 2][random.below(8)];
    let ends = random.below(2) as u8;
    let number = [0_u32, 1, 8, 70_000, i32::MAX as u32, u32::MAX][random.below(6)];
    match random.below(12) {
        0..=2 => frame(1, 4 | ends, 101 + 2 * random.below(4) as u32, &block(random)),
        3 => frame(1, [0, 4, 5, 0x2c][random.below(4)], stream, &block(random)),
        4 => frame(9, [0, 4][random.below(2)], stream, &block(random)),
        5 | 6 => frame(0, ends, stream, &messages(random)),
        7 => frame(0, 8 | ends, stream, &[&[random.below(9) as u8][..], &[0; 6]].concat()),
        8 => frame(3, 0, stream, &number.to_be_bytes()),
        9 => frame(8, 0, stream, &number.to_be_bytes()),
        10 => frame(6, random.below(2) as u8, 0, &[7; 8]),
        _ => {
            let kind = [2, 5, 7, 12, 200][random.below(5)];
            frame(kind, 0, stream, &[0; 8][..[5, 8][random.below(2)]])
        }
    }
}

/// The head of a call or of another request, with some fields that are rare or forbidden.
fn block(random: &mut Random) -> Vec<u8> {
    let path = PATHS[random.below(PATHS.len())];
    let (method, kind) = match random.below(3) {
        0 => (METHODS[random.below(METHODS.len())], TYPES[random.below(TYPES.len())]),
        _ => ("POST", "application/grpc"),
    };
    let mut fields = vec![
        (":method", method),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("content-type", kind),
    ];
    if random.below(16) == 0 {
        fields.remove(random.below(fields.len()));
    }
    for _ in 0..random.below(4) {
        fields.push(FIELDS[random.below(FIELDS.len())]);
    }
    let mut block = Vec::new();
    for (name, value) in fields {
        block.extend([0, name.len() as u8]);
        block.extend(name.as_bytes());
        block.push(value.len() as u8);
        block.extend(value.as_bytes());
    }
    block
}

const PATHS: [&str; 9] = [
    "/a.B/C0",
    "/a.B/C1",
    "/a.B/C2",
    "/a.B/C3",
    "/a.B/No",
    "/",
    "/rpc",
    "/metrics",
    "/a.B/C0?connect=v1&encoding=json&message=1",
];

const METHODS: [&str; 6] = ["POST", "GET", "HEAD", "OPTIONS", "CONNECT", "no token"];

const TYPES: [&str; 6] = [
    "application/json",
    "application/octet-stream",
    "application/connect+octet-stream",
    "application/grpc-web+octet-stream",
    "application/grpc-web-text",
    "text/plain",
];

const FIELDS: [(&str, &str); 19] = [
    ("host", "localhost"),
    ("host", "elsewhere"),
    ("cookie", "a=b"),
    ("grpc-timeout", "1m"),
    ("grpc-timeout", "99999999H"),
    ("grpc-timeout", "0n"),
    ("grpc-timeout", "soon"),
    ("grpc-encoding", "gzip"),
    ("grpc-encoding", "zstd"),
    ("grpc-encoding", "no"),
    ("grpc-accept-encoding", "gzip, zstd,identity"),
    ("content-length", "5"),
    ("content-length", "0"),
    ("key-bin", "AAAA,AA=="),
    ("key-bin", "?"),
    ("te", "trailers"),
    ("grpc-previous-rpc-attempts", "300"),
    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ("connection", "close"),
];

/// Messages, whole or cut, compressed or said to be.
fn messages(random: &mut Random) -> Vec<u8> {
    let mut content = Vec::new();
    for _ in 0..random.below(5) {
        let len = len(random).min(10_000);
        content.extend(prefix(len as u32, random.below(8) == 0));
        content.extend(&NOISE[..len]);
    }
    if random.below(3) == 0 {
        content.truncate(content.len().saturating_sub(1 + random.below(2 * PREFIX_LEN)));
    }
    content
}
