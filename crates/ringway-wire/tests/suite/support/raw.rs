//! Frames of the native protocol put together by hand, right or wrong.

use ringway_wire::native::{FrameKind, HEADER_LEN, Header, PREFACE, RequestHead};

pub(crate) const SETTINGS: u8 = 0x01;
pub(crate) const PING: u8 = 0x02;
pub(crate) const GO_AWAY: u8 = 0x03;
pub(crate) const LEASE: u8 = 0x04;
pub(crate) const REQUEST: u8 = 0x10;
pub(crate) const RESPONSE: u8 = 0x11;
pub(crate) const DATA: u8 = 0x12;
pub(crate) const CREDIT: u8 = 0x13;
pub(crate) const RST: u8 = 0x14;

pub(crate) const END: u8 = 0x01;
pub(crate) const MORE: u8 = 0x02;
pub(crate) const CRC: u8 = 0x04;
pub(crate) const COMPRESSED: u8 = 0x08;
pub(crate) const RAW: u8 = 0x10;
pub(crate) const NAMED: u8 = 0x20;
pub(crate) const NOMSG: u8 = 0x40;
pub(crate) const ACK: u8 = 0x80;

/// A frame without metadata; nothing is checked.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, aux: u32, body: &[u8]) -> Vec<u8> {
    with_meta(kind, flags, stream, aux, 0, body)
}

/// A frame whose body begins with `meta_len` bytes of metadata.
pub(crate) fn with_meta(
    kind: u8,
    flags: u8,
    stream: u32,
    aux: u32,
    meta_len: u16,
    body: &[u8],
) -> Vec<u8> {
    let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(meta_len.to_le_bytes());
    bytes.extend(stream.to_le_bytes());
    bytes.extend(aux.to_le_bytes());
    bytes.extend(body);
    bytes
}

/// A REQUEST of method 0 with the least credit.
pub(crate) fn request(flags: u8, stream: u32, aux: u32, payload: &[u8]) -> Vec<u8> {
    let head = RequestHead::default().encode();
    frame(REQUEST, flags, stream, aux, &[&head, payload].concat())
}

/// A REQUEST that gives a number to a name, without a message.
pub(crate) fn named(stream: u32, method: u32, meta: &[u8]) -> Vec<u8> {
    let head = RequestHead { method, ..RequestHead::default() }.encode();
    let body = [&head, meta].concat();
    with_meta(REQUEST, END | NAMED | NOMSG, stream, 0, meta.len() as u16, &body)
}

/// The id of a stream.
pub(crate) const fn id(slot: u32, generation: u32) -> u32 {
    slot << 12 | generation
}

/// The preface and SETTINGS of a peer.
pub(crate) fn greeting() -> Vec<u8> {
    [&PREFACE[..], &frame(SETTINGS, 0, 0, 0, &[])].concat()
}

/// The frames of an output, behind its preface.
pub(crate) fn frames(output: &[u8]) -> Vec<(Header, Vec<u8>)> {
    let mut rest = output.strip_prefix(&PREFACE).unwrap_or(output);
    let mut frames = Vec::new();
    while let Some((head, behind)) = rest.split_first_chunk::<HEADER_LEN>() {
        let header = Header::decode(head).expect("machines send consistent frames");
        let (body, behind) = behind.split_at(header.len as usize);
        frames.push((header, body.to_vec()));
        rest = behind;
    }
    assert!(rest.is_empty(), "machines send whole frames");
    frames
}

/// The code of the GOAWAY at the end of an output.
pub(crate) fn go_away_code(output: &[u8]) -> Option<u32> {
    let (header, body) = frames(output).pop()?;
    let code = body.first_chunk().copied().map(u32::from_le_bytes);
    code.filter(|_| header.kind == FrameKind::GoAway)
}
