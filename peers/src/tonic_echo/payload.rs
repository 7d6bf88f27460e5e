//! Messages as raw bytes without protobuf, as Ringway's own suites send them.

use bytes::{Buf, BufMut, Bytes};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// A request or a reply.
#[derive(Clone, Copy, Default)]
pub(crate) struct EchoCodec;

impl Codec for EchoCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for EchoCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        // Generated code also reserves before it encodes.
        out.reserve(message.len());
        out.put(message);
        Ok(())
    }
}

impl Decoder for EchoCodec {
    type Item = Bytes;
    type Error = Status;

    /// Taken from the receive buffer without a copy, as prost takes a field of type `Bytes`.
    fn decode(&mut self, message: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(message.copy_to_bytes(message.remaining())))
    }
}
