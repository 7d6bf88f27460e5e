//! The worked example of the native protocol's specification, byte by byte.

use ringway_wire::native::{
    Flags, FrameKind, HEADER_LEN, Header, MetaReader, MetaWriter, PREFACE, RequestHead, Settings,
    StreamId, Tag, Violation, check_preface,
};

const SETTINGS: &[u8] = &[
    0x0c, 0, 0, 0, 0x01, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // header
    0x01, 0, 0, 0, 0x04, 0, 0x03, 0, 0, 0, 0x10, 0, // max_payload, initial_credit
];

const FIRST_REQUEST: &[u8] = &[
    0x24, 0, 0, 0, 0x10, 0x21, 0x0f, 0, 1, 0, 0, 0, 0, 0, 0, 0, // header
    1, 0, 0, 0, 0x90, 0xd0, 0x03, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, // request head
    0x01, 0x0d, b'e', b'c', b'h', b'o', b'.', b'E', b'c', b'h', b'o', b'/', b'S', b'a', b'y', b'h',
    b'e', b'l', b'l', b'o',
];

const RESPONSE: &[u8] = &[
    0x05, 0, 0, 0, 0x11, 0x01, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, // header
    b'h', b'e', b'l', b'l', b'o',
];

const SECOND_REQUEST: &[u8] = &[
    0x15, 0, 0, 0, 0x10, 0x01, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, // header
    1, 0, 0, 0, 0x90, 0xd0, 0x03, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, // request head
    b'h', b'e', b'l', b'l', b'o',
];

const FAILURE: &[u8] = &[
    0x0e, 0, 0, 0, 0x11, 0x41, 0x0e, 0, 2, 0, 0, 0, 5, 0, 0, 0, // header
    0x04, 0x0c, b'n', b'o', b' ', b's', b'u', b'c', b'h', b' ', b'u', b's', b'e', b'r',
];

#[test]
fn preface() {
    assert_eq!(PREFACE, [0xf7, 0x52, 0x57, 0x59, 1, 0, 0, 0]);
    assert_eq!(check_preface(&PREFACE), Ok(()));
}

#[test]
fn settings() -> Result<(), Violation> {
    let settings =
        Settings { max_payload: 262_144, initial_credit: 1 << 20, ..Settings::default() };
    let mut body = vec![];
    settings.encode(&mut body);
    check(frame(FrameKind::Settings, Flags::NONE, StreamId::CONNECTION, 0), &[], &body, SETTINGS);
    assert_eq!(Settings::decode(&SETTINGS[HEADER_LEN..])?, settings);
    Ok(())
}

#[test]
fn first_request_names_its_method() -> Result<(), Violation> {
    let mut meta = vec![];
    MetaWriter::new(&mut meta).method("echo.Echo/Say");
    let body = [&head().encode()[..], &meta, b"hello"].concat();
    let header = frame(FrameKind::Request, Flags::NAMED | Flags::END, StreamId::new(0, 1), 0);
    check(header, &meta, &body, FIRST_REQUEST);

    let (head_bytes, rest) = FIRST_REQUEST[HEADER_LEN..].split_first_chunk().expect("16 bytes");
    assert_eq!(RequestHead::decode(head_bytes)?, head());
    let (meta, payload) = rest.split_at(15);
    let pieces: Result<Vec<_>, _> = MetaReader::new(meta).collect();
    assert_eq!(pieces?, [(Tag::Method, &b"echo.Echo/Say"[..])]);
    assert_eq!(payload, b"hello");
    Ok(())
}

#[test]
fn response() {
    let header = frame(FrameKind::Response, Flags::END, StreamId::new(0, 1), 0);
    check(header, &[], b"hello", RESPONSE);
}

#[test]
fn second_request_has_only_a_number() {
    let stream = StreamId::new(0, 1).next();
    let body = [&head().encode()[..], b"hello"].concat();
    check(frame(FrameKind::Request, Flags::END, stream, 0), &[], &body, SECOND_REQUEST);
}

#[test]
fn failure() -> Result<(), Violation> {
    let mut meta = vec![];
    MetaWriter::new(&mut meta).status_message("no such user");
    let header = frame(FrameKind::Response, Flags::NOMSG | Flags::END, StreamId::new(0, 2), 5);
    check(header, &meta, &meta, FAILURE);
    let pieces: Result<Vec<_>, _> = MetaReader::new(&FAILURE[HEADER_LEN..]).collect();
    assert_eq!(pieces?, [(Tag::StatusMessage, &b"no such user"[..])]);
    Ok(())
}

fn head() -> RequestHead {
    RequestHead {
        method: 1,
        timeout_us: 250_000,
        initial_credit: 1 << 20,
        ..RequestHead::default()
    }
}

/// A header whose lengths [`check`] fills in.
fn frame(kind: FrameKind, flags: Flags, stream: StreamId, aux: u32) -> Header {
    Header { len: 0, kind, flags, meta_len: 0, stream, aux }
}

/// Compares a frame with its bytes, in both directions.
fn check(header: Header, meta: &[u8], body: &[u8], bytes: &[u8]) {
    let header = Header { len: body.len() as u32, meta_len: meta.len() as u16, ..header };
    assert_eq!([&header.encode()[..], body].concat(), bytes);
    let first = bytes.first_chunk().expect("a header");
    assert_eq!(Header::decode(first), Ok(header));
    let payload_len = header.payload_len();
    assert_eq!(header.head_len() + meta.len() + payload_len, body.len());
}
