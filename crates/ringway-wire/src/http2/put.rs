//! Frames to send (RFC 9113, section 6).

use super::ErrorCode;
use super::frames::{FrameHeader, HEADER_LEN, flag, kind};
use super::hpack::{SHORT_MAX, ShortBlock};

#[inline]
pub(super) fn put_header(kind: u8, flags: u8, stream: u32, len: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&FrameHeader { len: len as u32, kind, flags, stream }.encode());
}

pub(super) fn put_settings(settings: &[(u16, u32)], out: &mut Vec<u8>) {
    put_header(kind::SETTINGS, 0, 0, settings.len() * 6, out);
    for (id, value) in settings {
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

pub(super) fn put_settings_ack(out: &mut Vec<u8>) {
    put_header(kind::SETTINGS, flag::ACK, 0, 0, out);
}

pub(super) fn put_ping(flags: u8, payload: [u8; 8], out: &mut Vec<u8>) {
    put_header(kind::PING, flags, 0, 8, out);
    out.extend_from_slice(&payload);
}

pub(super) fn put_window_update(stream: u32, increment: u32, out: &mut Vec<u8>) {
    put_header(kind::WINDOW_UPDATE, 0, stream, 4, out);
    out.extend_from_slice(&increment.to_be_bytes());
}

pub(super) fn put_reset(stream: u32, code: ErrorCode, out: &mut Vec<u8>) {
    put_header(kind::RST_STREAM, 0, stream, 4, out);
    out.extend_from_slice(&code.0.to_be_bytes());
}

pub(super) fn put_go_away(last: u32, code: ErrorCode, reason: &[u8], out: &mut Vec<u8>) {
    put_header(kind::GOAWAY, 0, 0, 8 + reason.len(), out);
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&code.0.to_be_bytes());
    out.extend_from_slice(reason);
}

/// Appends HEADERS with a block that always fits one frame.
#[inline]
pub(super) fn put_short_headers(stream: u32, end: bool, block: &ShortBlock, out: &mut Vec<u8>) {
    let len = usize::from(block.len);
    let flags = flag::END_HEADERS | if end { flag::END_STREAM } else { 0 };
    let header = FrameHeader { len: len as u32, kind: kind::HEADERS, flags, stream };
    let mut frame = [0; HEADER_LEN + SHORT_MAX];
    frame[..HEADER_LEN].copy_from_slice(&header.encode());
    frame[HEADER_LEN..].copy_from_slice(&block.bytes);
    // Appending all and truncating is cheaper than a copy of variable length.
    let end = out.len() + HEADER_LEN + len;
    out.extend_from_slice(&frame);
    out.truncate(end);
}

/// Appends HEADERS with the block that `write` appends, and CONTINUATION frames for bytes beyond
/// `len_max` (section 6.10).
#[inline]
pub(super) fn put_headers(
    stream: u32,
    end: bool,
    len_max: usize,
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>),
) {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_LEN]);
    write(out);
    let len = out.len() - start - HEADER_LEN;
    let flags = if end { flag::END_STREAM } else { 0 };
    if len <= len_max {
        let flags = flags | flag::END_HEADERS;
        fill_header(
            out,
            start,
            FrameHeader { len: len as u32, kind: kind::HEADERS, flags, stream },
        );
        return;
    }
    split_block(stream, flags, len_max, start, out);
}

fn fill_header(out: &mut [u8], start: usize, header: FrameHeader) {
    out[start..start + HEADER_LEN].copy_from_slice(&header.encode());
}

#[cold]
fn split_block(stream: u32, flags: u8, len_max: usize, start: usize, out: &mut Vec<u8>) {
    let rest = out.split_off(start + HEADER_LEN + len_max);
    let header = FrameHeader { len: len_max as u32, kind: kind::HEADERS, flags, stream };
    fill_header(out, start, header);
    let count = rest.len().div_ceil(len_max);
    for (at, part) in rest.chunks(len_max).enumerate() {
        let flags = if at + 1 == count { flag::END_HEADERS } else { 0 };
        put_header(kind::CONTINUATION, flags, stream, part.len(), out);
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_longer_than_a_frame_is_continued_in_others() {
        for (len, lens) in [(0, &[0][..]), (5, &[5]), (6, &[5, 1]), (11, &[5, 5, 1])] {
            let mut out = Vec::new();
            put_headers(7, true, 5, &mut out, |out| out.extend((0..len).map(|at| at as u8)));
            let (mut rest, mut found, mut block) = (&out[..], Vec::new(), Vec::new());
            while let Some((head, behind)) = rest.split_first_chunk() {
                let header = FrameHeader::decode(head);
                let (part, behind) = behind.split_at(header.len as usize);
                let is_first = found.is_empty();
                assert_eq!(header.kind, if is_first { kind::HEADERS } else { kind::CONTINUATION });
                assert_eq!(header.has(flag::END_STREAM), is_first);
                assert_eq!(header.has(flag::END_HEADERS), behind.is_empty());
                found.push(part.len());
                block.extend_from_slice(part);
                rest = behind;
            }
            assert_eq!(found, lens);
            assert_eq!(block, (0..len).map(|at| at as u8).collect::<Vec<_>>());
        }
    }
}
