//! Writing frames.

use super::close_code::CloseCode;
use super::deflate::deflate;
use super::head::{ControlKind, DataKind, FrameHead, HEAD_LEN_MAX, Opcode};
use super::mask;
use crate::limits::WEBSOCKET_CONTROL_MAX;

/// Appends a text as one frame. Frames of a client have a `mask`, which nobody else can foretell; those of a
/// server have none.
pub fn put_text(text: &str, mask: Option<[u8; 4]>, out: &mut Vec<u8>) {
    put(Opcode::Data(DataKind::Text), text.as_bytes(), mask, out);
}

/// Appends bytes as one frame; `mask` as for [`put_text`].
pub fn put_binary(bytes: &[u8], mask: Option<[u8; 4]>, out: &mut Vec<u8>) {
    put(Opcode::Data(DataKind::Binary), bytes, mask, out);
}

/// Appends a message as one frame, compressed by itself if that shortens it (permessage-deflate, RFC 7692); `mask` as for
/// [`put_text`]. The peer must have agreed to that. The payload of a text is UTF-8.
pub fn put_deflated(kind: DataKind, payload: &[u8], mask: Option<[u8; 4]>, out: &mut Vec<u8>) {
    let opcode = Opcode::Data(kind);
    match deflate(payload) {
        Some(compressed) => put_frame(opcode, true, &compressed, mask, out),
        None => put_frame(opcode, false, payload, mask, out),
    }
}

/// Appends the head of a server's message of one frame, whose `length` bytes follow as they are.
pub fn put_head(kind: DataKind, length: usize, out: &mut Vec<u8>) {
    let opcode = Opcode::Data(kind);
    let length = length as u64;
    FrameHead { is_final: true, is_compressed: false, opcode, mask: None, length }.write(out);
}

/// Appends a ping.
///
/// # Panics
/// When `payload` is longer than 125 bytes.
pub fn put_ping(payload: &[u8], mask: Option<[u8; 4]>, out: &mut Vec<u8>) {
    put_control(ControlKind::Ping, payload, mask, out);
}

/// Appends a pong.
///
/// # Panics
/// When `payload` is longer than 125 bytes.
pub fn put_pong(payload: &[u8], mask: Option<[u8; 4]>, out: &mut Vec<u8>) {
    put_control(ControlKind::Pong, payload, mask, out);
}

/// Appends a Close frame: without payload for [`CloseCode::NONE`], and with as much of `reason` as it has room
/// for.
///
/// # Panics
/// When a code other than `NONE` may not be sent.
pub fn put_close(code: CloseCode, reason: &str, mask: Option<[u8; 4]>, out: &mut Vec<u8>) {
    if code == CloseCode::NONE {
        return put_control(ControlKind::Close, &[], mask, out);
    }
    assert!(code.may_be_sent(), "the close code {code} may not be sent");
    let mut payload = Vec::with_capacity(WEBSOCKET_CONTROL_MAX);
    payload.extend_from_slice(&code.as_u16().to_be_bytes());
    let room = WEBSOCKET_CONTROL_MAX - payload.len();
    payload.extend_from_slice(&reason.as_bytes()[..reason.floor_char_boundary(room)]);
    put_control(ControlKind::Close, &payload, mask, out);
}

fn put_control(kind: ControlKind, payload: &[u8], mask: Option<[u8; 4]>, out: &mut Vec<u8>) {
    assert!(payload.len() <= WEBSOCKET_CONTROL_MAX, "a control frame has 125 bytes at most");
    put(Opcode::Control(kind), payload, mask, out);
}

fn put(opcode: Opcode, payload: &[u8], mask: Option<[u8; 4]>, out: &mut Vec<u8>) {
    put_frame(opcode, false, payload, mask, out);
}

/// Appends a frame whose payload is as it is sent but for the mask.
fn put_frame(
    opcode: Opcode,
    is_compressed: bool,
    payload: &[u8],
    mask: Option<[u8; 4]>,
    out: &mut Vec<u8>,
) {
    out.reserve(HEAD_LEN_MAX + payload.len());
    let length = payload.len() as u64;
    FrameHead { is_final: true, is_compressed, opcode, mask, length }.write(out);
    let begin = out.len();
    out.extend_from_slice(payload);
    if let Some(mask) = mask {
        mask::apply(&mut out[begin..], mask, 0);
    }
}
