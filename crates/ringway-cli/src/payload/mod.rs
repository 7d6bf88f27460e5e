//! Payloads of the suites, distinct for every run, connection and sequence number, and the checks of what
//! arrives.

mod composer;
mod message;
mod mismatch;
mod name;
mod packet;

pub(crate) use composer::Composer;
pub(crate) use message::{Due, Message, Pattern, Series, Verifier};
pub(crate) use mismatch::Mismatch;
pub(crate) use name::Run;
pub(crate) use packet::{PACKET_BYTES_MIN, PacketVerifier, fill_batch};
