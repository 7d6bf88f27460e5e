//! The check of every codec's fuzz function: where the network cuts a stream must not matter.

use std::fmt::Debug;

use crate::{Codec, Error, Framer};

/// Decodes `stream` at once, byte by byte, and in pieces of `cut` + 1 bytes; asserts that frames,
/// error and memory limit are the same, and returns the frames.
pub(crate) fn same_when_cut<C: Codec, T: PartialEq + Debug>(
    codec: impl Fn() -> C,
    own: impl Fn(C::Item<'_>) -> T,
    stream: &[u8],
    cut: u8,
) -> Vec<T> {
    let whole = decode_all(codec(), &own, stream.chunks(stream.len().max(1)));
    for piece_len in [1, usize::from(cut) + 1] {
        let pieces = decode_all(codec(), &own, stream.chunks(piece_len));
        assert_eq!(pieces, whole, "in pieces of {piece_len}");
    }
    whole.0
}

fn decode_all<'a, C: Codec, T>(
    codec: C,
    own: impl Fn(C::Item<'_>) -> T,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> (Vec<T>, Result<(), Error>) {
    let frame_len_max = codec.frame_len_max();
    let mut framer = Framer::new(codec);
    let mut frames = Vec::new();
    for piece in pieces {
        if let Err(error) = framer.push(piece, |item| frames.push(own(item))) {
            return (frames, Err(error));
        }
        assert!(framer.buffered() < frame_len_max);
        assert!(framer.capacity() <= frame_len_max);
    }
    let end = framer.finish();
    (frames, end)
}
