//! The contract between a codec and whoever holds the bytes.

use crate::Error;
use crate::limits::FRAME_LEN_MAX_DEFAULT;

/// The result of decoding the front of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded<T> {
    /// A whole frame stands at the front of the input.
    Frame {
        /// The frame, borrowed from the input.
        item: T,
        /// Bytes of the input that the frame took, delimiters and length fields included; never 0.
        consumed: usize,
    },
    /// Not a whole frame yet: at least this many bytes, counted from the front of the input, are
    /// needed. Always more than the input had, never more than [`Codec::frame_len_max`].
    NeedAtLeast(usize),
}

/// Turns bytes into frames and payloads into bytes, and never touches a socket.
///
/// A codec serves **one** stream of bytes. From one frame to the next, every call of
/// [`decode`](Self::decode) must see input that starts at the same byte of that stream; how much
/// of the stream it sees may grow or shrink between calls. Codecs that search may remember how
/// far they got, and nothing else. Use a clone for another stream, made before the first call.
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

    /// Looks at the front of `input`.
    ///
    /// Called again with more bytes of the same stream, it gives the same answer for the same
    /// prefix.
    ///
    /// # Errors
    ///
    /// When the bytes can never become a frame, whatever follows; see [`Error::is_peer_fault`].
    /// The stream has then lost its frame boundaries, and the connection should be closed.
    fn decode<'a>(&mut self, input: &'a [u8]) -> Result<Decoded<Self::Item<'a>>, Error>;

    /// Appends the frame that carries `payload` to `out`.
    ///
    /// # Errors
    ///
    /// When no frame of this codec can carry `payload`; `out` is then as it was before.
    fn encode(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), Error>;

    /// Bytes of the longest frame that [`decode`](Self::decode) accepts, everything included.
    ///
    /// A [`Framer`](crate::Framer) never holds more than this many bytes.
    fn frame_len_max(&self) -> usize {
        FRAME_LEN_MAX_DEFAULT
    }
}
