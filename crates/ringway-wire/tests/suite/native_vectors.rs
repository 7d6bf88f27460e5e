//! The bytes in `docs/protocol.md`, compared with those that the code writes and reads.

use ringway_wire::native::{
    CHECKSUM_LEN, Flags, FrameKind, GoAway, GoAwayCode, Header, LoadReport, MetaReader, MetaWriter,
    PREFACE, RequestHead, Settings, StreamId, Tag, Violation, check_preface, checksum,
};

use crate::support::document::Vectors;

#[test]
fn preface() {
    let vectors = Vectors::read();
    assert_eq!(PREFACE[..], vectors["preface"]);
    assert_eq!(check_preface(&PREFACE), Ok(()));
}

#[test]
fn frames_of_the_connection() {
    let nonce = frame(FrameKind::Ping, Flags::NONE, StreamId::CONNECTION, 42);
    let ack = Header { flags: Flags::ACK, ..nonce };
    check("ping", &[(nonce, Body::default()), (ack, Body::default())]);
    let lease = frame(FrameKind::Lease, Flags::NONE, StreamId::CONNECTION, 256);
    check("lease", &[(lease, Body::default())]);

    let mut body = vec![];
    let code = GoAwayCode::NoError.code();
    let farewell = GoAway { code, drain_ms: 5_000, reason: b"restart" };
    farewell.encode(&mut body);
    assert_eq!(GoAway::decode(&body), Ok(farewell));
    let header = frame(FrameKind::GoAway, Flags::NONE, StreamId::CONNECTION, 1_000);
    check("goaway", &[(header, Body { payload: &body, ..Body::default() })]);
}

#[test]
fn settings() {
    let settings =
        Settings { max_payload: 262_144, initial_credit: 1 << 20, ..Settings::default() };
    let mut body = vec![];
    settings.encode(&mut body);
    assert_eq!(Settings::decode(&body), Ok(settings));
    let header = frame(FrameKind::Settings, Flags::NONE, StreamId::CONNECTION, 0);
    check("settings", &[(header, Body { payload: &body, ..Body::default() })]);
    check("settings ack", &[(Header { flags: Flags::ACK, ..header }, Body::default())]);
}

#[test]
fn metadata() -> Result<(), Violation> {
    let report = LoadReport { cpu: 0x7fff, queue: 3, service_us: 300 };
    let mut meta = vec![];
    MetaWriter::new(&mut meta)
        .entry("shard", b"eu7")
        .authorization(b"token")
        .timeout_us(7_200_000_000)
        .refused()
        .pushback_ms(1_500)
        .pushback_ms(-1)
        .load_report(report);
    assert_eq!(meta, Vectors::read()["metadata"]);

    let pieces = MetaReader::new(&meta).collect::<Result<Vec<_>, _>>()?;
    let [entry, authorization, timeout, refused, pushback, never, load] = pieces[..] else {
        panic!("seven pieces");
    };
    assert_eq!(entry.0, Tag::Entry);
    assert_eq!(MetaReader::entry(entry.1)?, (&b"shard"[..], &b"eu7"[..]));
    assert_eq!(authorization, (Tag::Authorization, &b"token"[..]));
    assert_eq!((timeout.0, MetaReader::timeout_us(timeout.1)?), (Tag::TimeoutUs, 7_200_000_000));
    assert_eq!(refused, (Tag::Refused, &b""[..]));
    assert_eq!((pushback.0, MetaReader::pushback_ms(pushback.1)?), (Tag::Pushback, 1_500));
    assert_eq!((never.0, MetaReader::pushback_ms(never.1)?), (Tag::Pushback, -1));
    assert_eq!((load.0, LoadReport::decode(load.1)?), (Tag::LoadReport, report));
    Ok(())
}

#[test]
fn two_calls() {
    let (first, second) = (StreamId::new(0, 1), StreamId::new(0, 1).next());
    let head = RequestHead {
        method: 1,
        timeout_us: 250_000,
        initial_credit: 1 << 20,
        ..RequestHead::default()
    }
    .encode();
    let name = meta(|meta| meta.method("echo.Echo/Say"));
    let reason = meta(|meta| meta.status_message("no such user"));
    let hello = Body { payload: b"hello", ..Body::default() };

    let request = frame(FrameKind::Request, Flags::NAMED | Flags::END, first, 0);
    check("first request", &[(request, Body { head: &head, meta: &name, ..hello })]);
    let response = frame(FrameKind::Response, Flags::END, first, 0);
    check("first response", &[(response, hello)]);
    let request = frame(FrameKind::Request, Flags::END, second, 0);
    check("second request", &[(request, Body { head: &head, ..hello })]);
    let response = frame(FrameKind::Response, Flags::NOMSG | Flags::END, second, 5);
    check("second response", &[(response, Body { meta: &reason, ..Body::default() })]);
}

#[test]
fn a_stream_in_both_directions() {
    let stream = StreamId::new(0, 3);
    let data = |flags, aux| frame(FrameKind::Data, flags, stream, aux);
    let payload = |payload| Body { payload, ..Body::default() };
    let nothing = Body::default();
    let last = Flags::END | Flags::NOMSG;

    let head = RequestHead { method: 1, ..RequestHead::default() }.encode();
    let request = frame(FrameKind::Request, Flags::NOMSG, stream, 0);
    check("stream request", &[(request, Body { head: &head, ..nothing })]);
    check(
        "stream client",
        &[
            (data(Flags::MORE, 5), payload(b"hel")),
            (data(Flags::NONE, 0), payload(b"lo")),
            (data(Flags::NONE, 0), nothing),
            (data(last, 0), nothing),
        ],
    );
    let initial = meta(|meta| meta.entry("k", b""));
    check(
        "stream server",
        &[
            (data(Flags::NOMSG, 0), Body { meta: &initial, ..nothing }),
            (data(Flags::NONE, 0), payload(b"hello")),
            (frame(FrameKind::Response, last, stream, 0), nothing),
        ],
    );
}

#[test]
fn credit_and_cancellation() {
    let stream = StreamId::new(3, 1);
    let nothing = Body::default();
    check("credit", &[(frame(FrameKind::Credit, Flags::NONE, stream, 1 << 19), nothing)]);
    let rst = frame(FrameKind::Rst, Flags::NONE, stream, 1);
    let response = frame(FrameKind::Response, Flags::END | Flags::NOMSG, stream, 1);
    check("cancel", &[(rst, Body { payload: b"late", ..nothing }), (response, nothing)]);
}

#[test]
fn checksums() {
    let head = RequestHead { method: 1, ..RequestHead::default() }.encode();
    let flags = Flags::END | Flags::CRC;
    let request = frame(FrameKind::Request, flags, StreamId::new(1, 1), 0);
    check("checksum", &[(request, Body { head: &head, payload: b"hello", ..Body::default() })]);
}

#[test]
fn every_vector_of_the_document_is_checked() {
    let source = include_str!("native_vectors.rs");
    for name in Vectors::read().names() {
        assert!(source.contains(&format!("\"{name}\"")), "nothing checks `{name}`");
    }
}

/// The parts of a frame's body, without the checksum.
#[derive(Clone, Copy, Default)]
struct Body<'a> {
    head: &'a [u8],
    meta: &'a [u8],
    payload: &'a [u8],
}

/// A header whose lengths [`check`] fills in.
fn frame(kind: FrameKind, flags: Flags, stream: StreamId, aux: u32) -> Header {
    Header { len: 0, kind, flags, meta_len: 0, stream, aux }
}

fn meta(
    write: impl for<'a, 'w> FnOnce(&'a mut MetaWriter<'w>) -> &'a mut MetaWriter<'w>,
) -> Vec<u8> {
    let mut bytes = vec![];
    write(&mut MetaWriter::new(&mut bytes));
    bytes
}

/// Compares frames with the bytes of the document, in both directions.
fn check(name: &str, frames: &[(Header, Body<'_>)]) {
    let vectors = Vectors::read();
    let mut rest = &vectors[name][..];
    for (header, body) in frames {
        let crc_len = if header.flags.contains(Flags::CRC) { CHECKSUM_LEN } else { 0 };
        let content = [body.head, body.meta, body.payload].concat();
        let header = Header {
            len: (content.len() + crc_len) as u32,
            meta_len: body.meta.len() as u16,
            ..*header
        };
        let mut written = [&header.encode()[..], &content].concat();
        if crc_len > 0 {
            written.extend_from_slice(&checksum(&[&written]).to_le_bytes());
        }
        let (front, behind) = rest.split_at_checked(written.len()).expect("a whole frame");
        assert_eq!(front, written, "{name}");
        rest = behind;

        let decoded = Header::decode(front.first_chunk().expect("a header"));
        assert_eq!(decoded, Ok(header), "{name}");
        assert_eq!(header.head_len(), body.head.len(), "{name}");
        assert_eq!(header.payload_len(), body.payload.len(), "{name}");
        if let Some(head) = body.head.first_chunk() {
            assert_eq!(RequestHead::decode(head).map(|head| head.encode()), Ok(*head), "{name}");
        }
    }
    assert!(rest.is_empty(), "{name} has more frames");
}
