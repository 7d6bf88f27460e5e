//! What calls from browsers and scripts need beside the frames of [`grpc`](crate::grpc): the base64 of
//! gRPC-Web's text form, and calls in the query of a GET.
//!
//! The envelopes of Connect's streams and the frames of gRPC-Web have the prefix of gRPC's messages, so
//! [`Messages`](crate::grpc::Messages) decodes requests of all three. Replies have two flags more.

mod base64_text;
pub(crate) mod fuzz;
mod get_query;

pub use base64_text::{Base64Text, BrokenBase64, put_padded};
pub use get_query::{GetQuery, QueryError};

/// The flag of the last envelope of a Connect stream, which holds status and trailers as JSON.
pub const CONNECT_END: u8 = 0b10;

/// The flag of the last frame of gRPC-Web, which holds status and trailers as header fields.
pub const GRPC_WEB_TRAILERS: u8 = 0x80;

/// The prefix of an envelope or a frame: its flags and its length.
#[must_use]
pub fn envelope(flags: u8, len: u32) -> [u8; 5] {
    let [a, b, c, d] = len.to_be_bytes();
    [flags, a, b, c, d]
}
