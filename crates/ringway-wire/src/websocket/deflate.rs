//! Compressed messages: permessage-deflate, RFC 7692, without context takeover.

use std::cell::{Cell, RefCell};
use std::fmt;

use flate2::{Compress, Compression, FlushCompress};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{
    TINFL_FLAG_HAS_MORE_INPUT, TINFL_FLAG_IGNORE_ADLER32, TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF,
};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

use super::fault::FrameFault;
use crate::limits::{
    WEBSOCKET_DEFLATE_MIN, WEBSOCKET_FINAL_BLOCK_BYTES, WEBSOCKET_FINAL_BLOCKS,
    WEBSOCKET_INFLATE_CHUNK, WEBSOCKET_INFLATE_STEP, WEBSOCKET_TAKEN_WORK,
};

/// Whether this build can compress messages: it has the feature `compression`.
pub const CAN_DEFLATE: bool = true;

/// The end of a compressed message, which is not sent: an empty block (section 7.2.1).
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

thread_local! {
    // Some hundred KiB of tables, which are used again.
    static DEFLATE: RefCell<Option<Compress>> = const { RefCell::new(None) };
    // Its tables of some ten KiB are used again.
    static INFLATE: Cell<Option<Box<DecompressorOxide>>> = const { Cell::new(None) };
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

/// A message that is being decompressed (section 7.2.2), a part in each [step](Self::step): a few bytes may become a
/// thousand times as many. It is its own window: what refers to something before its beginning is an error, so nothing of
/// another message has to be cleared.
pub(super) struct Inflating {
    /// Given back to the thread at the end.
    tables: Option<Box<DecompressorOxide>>,
    payload: Vec<u8>,
    /// Bytes that were taken of the payload, and of the tail behind it.
    taken: usize,
    /// The content, and zeros up to which it may grow.
    out: Vec<u8>,
    len: usize,
    /// Whether there is more to write of what was taken.
    has_more: bool,
    max: usize,
    /// How many final blocks it may still have.
    ends_left: usize,
}

const FLAGS: u32 = TINFL_FLAG_HAS_MORE_INPUT
    | TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF
    | TINFL_FLAG_IGNORE_ADLER32;

impl Inflating {
    /// The payload of a message that contains `max` bytes at most. Memory grows with the result.
    pub(super) fn new(payload: Vec<u8>, max: usize) -> Self {
        let mut tables = INFLATE.take().unwrap_or_default();
        tables.init();
        let ends_left = WEBSOCKET_FINAL_BLOCKS + payload.len() / WEBSOCKET_FINAL_BLOCK_BYTES;
        let (tables, out) = (Some(tables), Vec::new());
        Self { tables, payload, taken: 0, out, len: 0, has_more: false, max, ends_left }
    }

    /// Memory that it holds besides its tables, in bytes.
    pub(super) fn held(&self) -> usize {
        self.payload.capacity() + self.out.capacity()
    }

    /// Does a part of the work. The content once that is whole; `None` if another step is to follow.
    pub(super) fn step(&mut self) -> Result<Option<Vec<u8>>, FrameFault> {
        let mut work = 0;
        while self.has_more || self.taken < self.payload.len() + TAIL.len() {
            if work >= WEBSOCKET_INFLATE_STEP {
                return Ok(None);
            }
            work += self.decompress()?;
        }
        self.out.truncate(self.len);
        self.out.shrink_to_fit();
        Ok(Some(std::mem::take(&mut self.out)))
    }

    /// Decompresses some of it, and returns how much work that was.
    fn decompress(&mut self) -> Result<usize, FrameFault> {
        if self.len == self.out.len() {
            self.grow();
        }
        let input = match self.taken.checked_sub(self.payload.len()) {
            None => &self.payload[self.taken..],
            Some(of_tail) => &TAIL[of_tail..],
        };
        let input = &input[..input.len().min(WEBSOCKET_INFLATE_STEP / WEBSOCKET_TAKEN_WORK)];
        let tables = self.tables.as_mut().expect("until it is dropped");
        let (status, taken, made) = decompress(tables, input, &mut self.out, self.len, FLAGS);
        let is_used_up = taken == input.len();
        self.taken += taken;
        self.len += made;
        if self.len > self.max {
            return Err(FrameFault::TooLong { max: self.max });
        }
        self.has_more = status == TINFLStatus::HasMoreOutput;
        match status {
            TINFLStatus::HasMoreOutput => {}
            TINFLStatus::NeedsMoreInput if is_used_up => {}
            // A final block may be followed by others (section 7.2.3.4).
            TINFLStatus::Done => {
                self.ends_left = self.ends_left.checked_sub(1).ok_or(FrameFault::Compression)?;
                tables.init();
            }
            _ => return Err(FrameFault::Compression),
        }
        Ok(taken * WEBSOCKET_TAKEN_WORK + made)
    }

    /// Makes room, of which a step clears no more than it fills. One byte more than is taken tells that there are too
    /// many.
    fn grow(&mut self) {
        let most = self.max.max(WEBSOCKET_INFLATE_CHUNK).saturating_add(1);
        let len = self.out.len();
        let room = (2 * len).clamp(WEBSOCKET_INFLATE_CHUNK, most);
        if self.out.capacity() < room {
            self.out.reserve_exact(room - len);
        }
        self.out.resize(room.min(len + WEBSOCKET_INFLATE_STEP), 0);
    }
}

impl Drop for Inflating {
    fn drop(&mut self) {
        let tables = self.tables.take();
        let _thread_ends = INFLATE.try_with(|kept| kept.set(tables));
    }
}

impl fmt::Debug for Inflating {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inflating").field("taken", &self.taken).field("made", &self.len).finish()
    }
}
