//! Compressed messages: permessage-deflate, RFC 7692, without context takeover.

use std::cell::RefCell;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::fault::FrameFault;
use crate::limits::{
    WEBSOCKET_DEFLATE_MIN, WEBSOCKET_FINAL_BLOCK_BYTES, WEBSOCKET_FINAL_BLOCKS,
    WEBSOCKET_INFLATE_CHUNK,
};

/// Whether this build can compress messages: it has the feature `compression`.
pub const CAN_DEFLATE: bool = true;

/// The end of a compressed message, which is not sent: an empty block (section 7.2.1).
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

thread_local! {
    // Some hundred KiB of tables, which are used again.
    static DEFLATE: RefCell<Option<Compress>> = const { RefCell::new(None) };
    // Its window of 32 KiB and its tables are used again.
    static INFLATE: RefCell<Option<Decompress>> = const { RefCell::new(None) };
}

/// Compresses the payload of a message by itself (section 7.2.1); `None` if that would not shorten it.
pub(super) fn deflate(payload: &[u8]) -> Option<Vec<u8>> {
    if payload.len() < WEBSOCKET_DEFLATE_MIN {
        return None;
    }
    DEFLATE.with_borrow_mut(|compress| {
        let compress = compress.get_or_insert_with(|| Compress::new(Compression::fast(), false));
        compress.reset();
        // What does not fit is not shorter.
        let mut out = Vec::with_capacity(payload.len() + TAIL.len());
        while (compress.total_in() as usize) < payload.len() {
            let rest = payload.get(compress.total_in() as usize..)?;
            compress.compress_vec(rest, &mut out, FlushCompress::Sync).ok()?;
            if out.len() == out.capacity() {
                return None;
            }
        }
        out.truncate(out.strip_suffix(&TAIL)?.len());
        (out.len() < payload.len()).then_some(out)
    })
}

/// Decompresses the payload of a message (section 7.2.2). Memory grows with the result, up to `max` bytes.
pub(super) fn inflate(payload: &[u8], max: usize) -> Result<Vec<u8>, FrameFault> {
    INFLATE.with_borrow_mut(|decompress| {
        let decompress = decompress.get_or_insert_with(|| Decompress::new(false));
        decompress.reset(false);
        let mut out = Vec::new();
        let mut ends_left = WEBSOCKET_FINAL_BLOCKS + payload.len() / WEBSOCKET_FINAL_BLOCK_BYTES;
        for input in [payload, &TAIL] {
            inflate_part(decompress, input, max, &mut ends_left, &mut out)?;
        }
        out.shrink_to_fit();
        Ok(out)
    })
}

fn inflate_part(
    decompress: &mut Decompress,
    mut input: &[u8],
    max: usize,
    ends_left: &mut usize,
    out: &mut Vec<u8>,
) -> Result<(), FrameFault> {
    loop {
        if out.len() == out.capacity() {
            // One byte more than is taken tells that there are too many.
            let room = (2 * out.len())
                .clamp(WEBSOCKET_INFLATE_CHUNK, max.max(WEBSOCKET_INFLATE_CHUNK).saturating_add(1));
            out.reserve_exact(room - out.len());
        }
        let (taken, len) = (decompress.total_in(), out.len());
        let status = decompress.decompress_vec(input, out, FlushDecompress::Sync);
        let status = status.map_err(|_| FrameFault::Compression)?;
        let taken = (decompress.total_in() - taken) as usize;
        input = &input[taken..];
        if out.len() > max {
            return Err(FrameFault::TooLong { max });
        }
        if status == Status::StreamEnd {
            // A final block may be followed by others (section 7.2.3.4).
            *ends_left = ends_left.checked_sub(1).ok_or(FrameFault::Compression)?;
            decompress.reset(false);
        }
        if out.len() < out.capacity() {
            if input.is_empty() {
                return Ok(());
            }
            if taken == 0 && out.len() == len && status != Status::StreamEnd {
                return Err(FrameFault::Compression);
            }
        }
    }
}
