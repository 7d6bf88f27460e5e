//! What the suites send, distinct for every connection and sequence number, and the checks of what arrives.

mod message;
mod mismatch;
mod packet;

pub(crate) use message::{MESSAGE_HEADER_BYTES, Pattern, Verifier};
pub(crate) use mismatch::Mismatch;
pub(crate) use packet::{PACKET_BYTES_MIN, PacketVerifier, fill_batch};
