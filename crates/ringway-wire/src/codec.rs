//! The contract between a codec and the code that holds the bytes.

use crate::Error;
use crate::limits::FRAME_LEN_MAX_DEFAULT;

/// The result of decoding the front of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded<T> {
    /// The input starts with a whole frame.
    Frame {
        /// The frame, borrowed from the input.
        item: T,
        /// Length of the frame in the input, including delimiters and length fields; never 0.
        consumed: usize,
    },
    /// The frame is incomplete: at least this many bytes are needed, counted from the front of the
    /// input. Always more than the input had, never more than [`Codec::frame_len_max`].
    NeedAtLeast(usize),
}

/// Decodes bytes into frames and encodes payloads into bytes, without any I/O.
///
/// A codec serves **one** stream of bytes. From one frame to the next, every call of
/// [`decode`](Self::decode) must see input that starts at the same byte of that stream; the input
/// may be longer or shorter than before. Codecs that search may remember how far they got, and
/// nothing else. For another stream, use a clone that was made before the first call.
///
/// # Examples
///
/// ```
/// use ringway_wire::{Codec, Decoded, LengthField};
///
/// let mut codec = LengthField::u16_be();
/// let mut bytes = Vec::new();
/// codec.encode(b"ping", &mut bytes)?;
/// assert_eq!(bytes, b"\x00\x04ping");
///
/// // Two bytes say how long the frame is going to be ...
/// assert_eq!(codec.decode(&bytes[..2])?, Decoded::NeedAtLeast(6));
/// // ... and with all of them it is there, borrowed from the input.
/// let Decoded::Frame { item, consumed } = codec.decode(&bytes)? else { panic!("whole frame") };
/// assert_eq!((item.payload, consumed), (&b"ping"[..], 6));
/// # Ok::<(), ringway_wire::Error>(())
/// ```
pub trait Codec {
    /// A decoded frame, borrowed from the input.
    type Item<'a>;

    /// Decodes the frame at the front of `input`.
    ///
    /// A call with more bytes of the same stream gives the same answer for the same prefix.
    ///
    /// # Errors
    ///
    /// Fails when the bytes can never become a frame, whatever follows; see
    /// [`Error::is_peer_fault`]. The frame boundaries of the stream are then lost, and the
    /// connection should be closed.
    fn decode<'a>(&mut self, input: &'a [u8]) -> Result<Decoded<Self::Item<'a>>, Error>;

    /// Appends the frame that carries `payload` to `out`.
    ///
    /// # Errors
    ///
    /// Fails when no frame of this codec can carry `payload`; `out` is then unchanged.
    fn encode(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), Error>;

    /// Length in bytes of the longest frame that [`decode`](Self::decode) accepts, including all
    /// its parts.
    ///
    /// A [`Framer`](crate::Framer) never holds more than this many bytes.
    fn frame_len_max(&self) -> usize {
        FRAME_LEN_MAX_DEFAULT
    }
}
