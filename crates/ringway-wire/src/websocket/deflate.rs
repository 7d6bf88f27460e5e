//! Compressed messages: permessage-deflate, RFC 7692, without context takeover.

use std::cell::RefCell;

use flate2::{Compress, Compression, FlushCompress};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{
    TINFL_FLAG_HAS_MORE_INPUT, TINFL_FLAG_IGNORE_ADLER32, TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF,
};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

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
    // Its tables of some ten KiB are used again.
    static INFLATE: RefCell<Option<Box<DecompressorOxide>>> = const { RefCell::new(None) };
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
    INFLATE.with_borrow_mut(|tables| {
        let tables = tables.get_or_insert_with(Box::default);
        tables.init();
        let ends_left = WEBSOCKET_FINAL_BLOCKS + payload.len() / WEBSOCKET_FINAL_BLOCK_BYTES;
        let mut message = Inflated { out: Vec::new(), len: 0, max, ends_left };
        for input in [payload, &TAIL] {
            message.take(tables, input)?;
        }
        message.out.truncate(message.len);
        message.out.shrink_to_fit();
        Ok(message.out)
    })
}

/// The content of a message that is being decompressed. It is its own window: what refers to something before its
/// beginning is an error, so nothing of another message has to be cleared.
struct Inflated {
    /// The content, and zeros up to which it may grow.
    out: Vec<u8>,
    len: usize,
    max: usize,
    /// How many final blocks it may still have.
    ends_left: usize,
}

const FLAGS: u32 = TINFL_FLAG_HAS_MORE_INPUT
    | TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF
    | TINFL_FLAG_IGNORE_ADLER32;

impl Inflated {
    fn take(&mut self, tables: &mut DecompressorOxide, mut input: &[u8]) -> Result<(), FrameFault> {
        loop {
            if self.len == self.out.len() {
                self.grow();
            }
            let (status, taken, made) = decompress(tables, input, &mut self.out, self.len, FLAGS);
            input = &input[taken..];
            self.len += made;
            if self.len > self.max {
                return Err(FrameFault::TooLong { max: self.max });
            }
            match status {
                TINFLStatus::HasMoreOutput => {}
                TINFLStatus::NeedsMoreInput if input.is_empty() => return Ok(()),
                // A final block may be followed by others (section 7.2.3.4).
                TINFLStatus::Done => {
                    self.ends_left =
                        self.ends_left.checked_sub(1).ok_or(FrameFault::Compression)?;
                    tables.init();
                    if input.is_empty() {
                        return Ok(());
                    }
                }
                _ => return Err(FrameFault::Compression),
            }
        }
    }

    /// Makes room. One byte more than is taken tells that there are too many.
    fn grow(&mut self) {
        let most = self.max.max(WEBSOCKET_INFLATE_CHUNK).saturating_add(1);
        let room = (2 * self.out.len()).clamp(WEBSOCKET_INFLATE_CHUNK, most);
        self.out.reserve_exact(room - self.out.len());
        self.out.resize(room, 0);
    }
}
