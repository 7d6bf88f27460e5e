//! Messages in a compressed envelope, OP_COMPRESSED.

use std::io::Read;

use flate2::read::{ZlibDecoder, ZlibEncoder};

use super::cutter::Cut;
use super::fault::MongoFault;
use super::limits::MONGO_ZSTD_WINDOW_LOG_MAX;
use super::op_header::{HEADER_LEN, MongoOpcode, OpHeader};
use crate::limits::ACCUMULATOR_EAGER;

/// The ways to compress messages that both ends may agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MongoCompressor {
    /// Fast, and weakest.
    Snappy,
    /// At a level from 0 to 9, or -1 for the usual one.
    Zlib(i32),
    /// At its usual level.
    Zstd,
}

/// What stands between the header of an envelope and the compressed bytes.
const ENVELOPE_LEN: usize = 4 + 4 + 1;

impl MongoCompressor {
    /// The name by which `hello` and connection strings call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Snappy => "snappy",
            Self::Zlib(_) => "zlib",
            Self::Zstd => "zstd",
        }
    }

    fn id(self) -> u8 {
        match self {
            Self::Snappy => 1,
            Self::Zlib(_) => 2,
            Self::Zstd => 3,
        }
    }

    /// Puts the message that begins at `start` in `out` into an envelope, if that makes it shorter.
    ///
    /// Never do this to `hello` and to commands that authenticate: the specification forbids it.
    pub fn compress(self, start: usize, out: &mut Vec<u8>) {
        let message = &out[start..];
        let Ok(Some(header)) = OpHeader::read(message, usize::MAX) else { return };
        let content = &message[HEADER_LEN..];
        let Some(packed) = self.pack(content) else { return };
        let len = HEADER_LEN + ENVELOPE_LEN + packed.len();
        if len >= message.len() {
            return;
        }
        let content_len = content.len() as u32;
        out.truncate(start);
        OpHeader { len, opcode: MongoOpcode::Compressed, ..header }.write(out);
        out.extend_from_slice(&MongoOpcode::Msg.number().to_le_bytes());
        out.extend_from_slice(&content_len.to_le_bytes());
        out.push(self.id());
        out.extend_from_slice(&packed);
    }

    fn pack(self, content: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::Snappy => snap::raw::Encoder::new().compress_vec(content).ok(),
            Self::Zstd => zstd::bulk::compress(content, zstd::DEFAULT_COMPRESSION_LEVEL).ok(),
            Self::Zlib(level) => {
                let level = u32::try_from(level).map_or_else(
                    |_| flate2::Compression::default(),
                    |level| flate2::Compression::new(level.min(9)),
                );
                let mut packed = Vec::new();
                ZlibEncoder::new(content, level).read_to_end(&mut packed).ok()?;
                Some(packed)
            }
        }
    }
}

/// Takes a message out of its envelope, whose length is that of `message`. The result has a header again.
pub(super) fn unpack(
    header: &OpHeader,
    message: &[u8],
    len_max: usize,
) -> Result<Cut<'static>, MongoFault> {
    let (envelope, packed) =
        message[HEADER_LEN..].split_at_checked(ENVELOPE_LEN).ok_or(MongoFault::Compressed)?;
    let number = |at: usize| {
        i32::from_le_bytes([envelope[at], envelope[at + 1], envelope[at + 2], envelope[at + 3]])
    };
    let opcode = MongoOpcode::of(number(0))?;
    if opcode == MongoOpcode::Compressed {
        return Err(MongoFault::Opcode(number(0)));
    }
    let content_len = usize::try_from(number(4)).map_err(|_| MongoFault::Length(number(4)))?;
    let len = HEADER_LEN + content_len;
    if len > len_max {
        return Err(MongoFault::TooLong { len, max: len_max });
    }
    let mut out = Vec::new();
    OpHeader { len, opcode, ..*header }.write(&mut out);
    match envelope[8] {
        0 => out.extend_from_slice(packed),
        1 => unsnap(packed, content_len, &mut out)?,
        2 => inflate(ZlibDecoder::new(packed), content_len, &mut out)?,
        3 => {
            let failed = |_| MongoFault::Compressed;
            let mut decoder = zstd::Decoder::with_buffer(packed).map_err(failed)?;
            decoder.window_log_max(MONGO_ZSTD_WINDOW_LOG_MAX).map_err(failed)?;
            inflate(decoder, content_len, &mut out)?;
        }
        other => return Err(MongoFault::Compressor(other)),
    }
    match out.len() == len {
        true => Ok(Cut::Gathered(out)),
        false => Err(MongoFault::Compressed),
    }
}

/// Snappy names the length in front. What does not fill what is reserved for it was not there: the best
/// that it can do is about one to twenty.
fn unsnap(packed: &[u8], len: usize, out: &mut Vec<u8>) -> Result<(), MongoFault> {
    let claimed = snap::raw::decompress_len(packed).map_err(|_| MongoFault::Compressed)?;
    if claimed != len || len / SNAPPY_RATIO_MAX > packed.len() {
        return Err(MongoFault::Compressed);
    }
    let start = out.len();
    out.resize(start + len, 0);
    let done = snap::raw::Decoder::new().decompress(packed, &mut out[start..]);
    done.map(drop).map_err(|_| MongoFault::Compressed)
}

/// A copy of 64 bytes takes three bytes at most in what others write, and two in the shortest form.
const SNAPPY_RATIO_MAX: usize = 64;

/// Reads up to one byte more than is announced. Memory grows with what comes out.
fn inflate(decoder: impl Read, len: usize, out: &mut Vec<u8>) -> Result<(), MongoFault> {
    out.reserve_exact(len.min(ACCUMULATOR_EAGER));
    let read = decoder.take(len as u64 + 1).read_to_end(out).map_err(|_| MongoFault::Compressed)?;
    match read == len {
        true => Ok(()),
        false => Err(MongoFault::Compressed),
    }
}
