//! Compression of messages with gzip and zstd.
//!
//! Each message is compressed and decompressed in one go, on the core of its connection: the limit
//! on messages bounds the cost.

use std::cell::RefCell;
use std::io::Read;

use bytes::Bytes;
use flate2::bufread::GzDecoder;
use flate2::{Compress, Crc, FlushCompress, Status};
use zstd::bulk::Compressor;
use zstd::zstd_safe::{DCtx, get_error_name, get_frame_content_size};

use super::inflate_error::InflateError;
use super::names::Compression;
use crate::limits::{GRPC_INFLATE_CHUNK, GRPC_ZSTD_LEVEL};

/// The available compressions, the preferred one first.
pub(super) const KNOWN: &[Compression] = &[Compression::Zstd, Compression::Gzip];

thread_local! {
    // Each has some hundred KiB of tables, which are reused.
    static DEFLATE: RefCell<Option<Compress>> = const { RefCell::new(None) };
    static ZSTD: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static UNZSTD: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

/// Decompresses a message of up to `max` bytes. The result takes as much memory as it is long. Until
/// it is whole it takes at most `max`, and about four times its length if that is not announced.
///
/// # Errors
///
/// Fails when the result is longer than `max`, or the message is malformed.
pub fn decompress(by: Compression, bytes: &[u8], max: usize) -> Result<Bytes, InflateError> {
    match by {
        Compression::Identity if bytes.len() > max => Err(InflateError::TooLong),
        Compression::Identity => Ok(Bytes::copy_from_slice(bytes)),
        Compression::Gzip => gunzip(bytes, max),
        Compression::Zstd => unzstd(bytes, max),
        Compression::Unknown => Err(InflateError::Unknown),
    }
}

/// Compresses a message; `None` if that would not shorten it.
#[must_use]
pub fn compress(by: Compression, bytes: &[u8]) -> Option<Vec<u8>> {
    let compressed = match by {
        Compression::Gzip => gzip(bytes),
        Compression::Zstd => zstd(bytes),
        Compression::Identity | Compression::Unknown => None,
    };
    compressed.filter(|compressed| compressed.len() < bytes.len())
}

fn gunzip(mut bytes: &[u8], max: usize) -> Result<Bytes, InflateError> {
    let mut decoder = GzDecoder::new(&mut bytes);
    let (mut out, mut chunk) = (Vec::new(), [0; GRPC_INFLATE_CHUNK]);
    loop {
        let len = decoder.read(&mut chunk).map_err(|_| InflateError::Broken)?;
        if len == 0 {
            break;
        }
        if len > max - out.len() {
            return Err(InflateError::TooLong);
        }
        let needed = out.len() + len;
        if needed > out.capacity() {
            out.reserve_exact((2 * needed).min(max) - out.len());
        }
        out.extend_from_slice(&chunk[..len]);
    }
    drop(decoder);
    out.shrink_to_fit();
    if bytes.is_empty() { Ok(out.into()) } else { Err(InflateError::Broken) }
}

/// The result serves as the decoder's window, so a peer cannot ask for memory beyond it. If the
/// result turns out longer than its buffer, decoding restarts with four times as much.
fn unzstd(bytes: &[u8], max: usize) -> Result<Bytes, InflateError> {
    let mut room = match get_frame_content_size(bytes) {
        Ok(Some(len)) if len > max as u64 => return Err(InflateError::TooLong),
        Ok(Some(len)) => len as usize,
        Ok(None) => max.min((4 * bytes.len()).max(GRPC_INFLATE_CHUNK)),
        Err(_) => return Err(InflateError::Broken),
    };
    UNZSTD.with_borrow_mut(|context| {
        let context = context.get_or_insert_with(DCtx::create);
        loop {
            let mut out = Vec::with_capacity(room);
            match context.decompress(&mut out, bytes) {
                Ok(_) if out.len() <= max => {
                    out.shrink_to_fit();
                    return Ok(out.into());
                }
                Err(code) if get_error_name(code) != TOO_SHORT => return Err(InflateError::Broken),
                Err(_) if room < max => room = max.min((4 * room).max(GRPC_INFLATE_CHUNK)),
                _ => return Err(InflateError::TooLong),
            }
        }
    })
}

/// The error text of zstd for a buffer that is too short for the result.
const TOO_SHORT: &str = "Destination buffer is too small";

fn zstd(bytes: &[u8]) -> Option<Vec<u8>> {
    ZSTD.with_borrow_mut(|context| {
        if context.is_none() {
            *context = Compressor::new(GRPC_ZSTD_LEVEL).ok();
        }
        context.as_mut()?.compress(bytes).ok()
    })
}

/// The head of RFC 1952 without name and time, from an unknown system.
const GZIP_HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

fn gzip(bytes: &[u8]) -> Option<Vec<u8>> {
    DEFLATE.with_borrow_mut(|deflate| {
        let fast = flate2::Compression::fast();
        let deflate = deflate.get_or_insert_with(|| Compress::new(fast, false));
        deflate.reset();
        let mut out = Vec::with_capacity(GZIP_HEAD.len() + bytes.len() / 2 + 64);
        out.extend_from_slice(&GZIP_HEAD);
        loop {
            let rest = bytes.get(deflate.total_in() as usize..)?;
            match deflate.compress_vec(rest, &mut out, FlushCompress::Finish).ok()? {
                Status::StreamEnd => break,
                // A result that is not shorter is useless.
                _ if out.len() > bytes.len() => return None,
                _ => out.reserve(bytes.len() / 2 + 64),
            }
        }
        let mut crc = Crc::new();
        crc.update(bytes);
        out.extend_from_slice(&crc.sum().to_le_bytes());
        out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        Some(out)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Compression; 2] = [Compression::Gzip, Compression::Zstd];

    fn text(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at * at / 7 % 23) as u8).collect()
    }

    #[test]
    fn messages_round_trip() {
        for by in BOTH {
            for len in [200, 5_000, 70_000, 3_000_000] {
                let text = text(len);
                let compressed = compress(by, &text).expect("it is shorter");
                assert!(compressed.len() < len, "{by:?}");
                assert_eq!(decompress(by, &compressed, len).as_deref(), Ok(&text[..]), "{by:?}");
                let short = decompress(by, &compressed, len - 1);
                assert_eq!(short, Err(InflateError::TooLong), "{by:?}");
            }
            assert_eq!(compress(by, b""), None);
            assert_eq!(compress(by, b"short"), None);
        }
    }

    #[test]
    fn gzip_is_compatible_with_another_implementation() {
        let text = text(10_000);
        let mut written = Vec::new();
        let mut encoder = flate2::bufread::GzEncoder::new(&text[..], flate2::Compression::best());
        encoder.read_to_end(&mut written).expect("memory");
        assert_eq!(decompress(Compression::Gzip, &written, 10_000).as_deref(), Ok(&text[..]));
        let ours = compress(Compression::Gzip, &text).expect("shorter");
        let mut read = Vec::new();
        GzDecoder::new(&ours[..]).read_to_end(&mut read).expect("well-formed");
        assert_eq!(read, text);
    }

    #[test]
    fn zstd_without_a_content_size_is_decompressed() {
        let text = text(1_000_000);
        let stream = zstd::stream::encode_all(&text[..], 1).expect("memory");
        assert!(matches!(get_frame_content_size(&stream), Ok(None)));
        assert_eq!(decompress(Compression::Zstd, &stream, 1_000_000).as_deref(), Ok(&text[..]));
        let short = decompress(Compression::Zstd, &stream, 999_999);
        assert_eq!(short, Err(InflateError::TooLong));
    }

    #[test]
    fn cut_and_extended_messages_are_broken() {
        for by in BOTH {
            let compressed = compress(by, &text(3_000)).expect("it is shorter");
            for len in 0..compressed.len() {
                let cut = decompress(by, &compressed[..len], 3_000);
                assert!(cut == Err(InflateError::Broken) || len == 0, "{by:?} cut at {len}");
            }
            let more = [&compressed[..], b"more"].concat();
            assert_eq!(decompress(by, &more, 3_000), Err(InflateError::Broken), "{by:?}");
        }
    }

    #[test]
    fn bombs_end_at_the_limit() {
        // 16 MiB of zeros, which take 16 KiB as gzip and less than 1 KiB as zstd.
        let zeros = std::io::repeat(0).take(16 << 20);
        let mut gzip = Vec::new();
        let mut encoder = flate2::read::GzEncoder::new(zeros, flate2::Compression::fast());
        encoder.read_to_end(&mut gzip).expect("memory");
        let zeros = std::io::repeat(0).take(16 << 20);
        let zstd = zstd::stream::encode_all(zeros, 1).expect("memory");
        for (by, bomb) in [(Compression::Gzip, gzip), (Compression::Zstd, zstd)] {
            for max in [0, 1_000, 100_000, 4 << 20] {
                let outcome = decompress(by, &bomb, max);
                assert_eq!(outcome, Err(InflateError::TooLong), "{by:?} {max}");
            }
        }
    }
}
