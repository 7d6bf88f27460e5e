//! The message and its codec.

use bytes::Bytes;
use tonic_prost::ProstCodec;

/// Requests and replies alike: `message Payload { bytes payload = 1; }`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Payload {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) payload: Bytes,
}

/// What generated code uses.
pub(crate) type EchoCodec = ProstCodec<Payload, Payload>;
