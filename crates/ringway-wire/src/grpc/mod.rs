//! gRPC on HTTP/2: the meanings of its header fields, and its messages.
//!
//! A [`GrpcClient`] is one end of a connection, a [`GrpcServer`] the other. Their parts can be used
//! alone as well: a connection of [`http2`](crate::http2) has a
//! [`Vocabulary`](crate::http2::Vocabulary) of [`RequestNames`] at a server and of
//! [`ResponseNames`] at a client; then [`CallHead`] and [`ReplyHead`] read the head of a message,
//! [`Messages`] splits the content of a stream, and [`lines`] has the fields to send.

mod call_names;
mod calls;
mod client;
mod client_config;
mod client_input;
#[cfg(feature = "compression")]
mod compress;
#[cfg(not(feature = "compression"))]
#[path = "compress_none.rs"]
mod compress;
mod compression;
pub(crate) mod fuzz;
pub(crate) mod fuzz_client;
pub(crate) mod fuzz_server;
mod guest_event;
mod guests;
mod inflate_error;
mod known_heads;
pub mod lines;
mod message;
mod meta_fields;
mod metadata;
mod names;
mod server;
mod server_answer;
mod server_calls;
mod server_end;
mod server_input;
mod server_meta;
mod status;
mod timeout;

pub use call_names::{CallHead, NoCall, ReplyHead, RequestNames, ResponseNames};
pub use client::GrpcClient;
pub use client_config::ClientConfig;
pub use compress::{compress, decompress};
pub use compression::{ClientCompression, ServerCompression, accepted_names};
pub use guest_event::GuestEvent;
pub use inflate_error::InflateError;
pub use message::{Message, MessageError, Messages, PREFIX_LEN, prefix};
pub use metadata::{
    ValueRoom, binary_values, is_ascii_value, is_binary, is_metadata_name, is_reserved,
    parse_base64, put_base64,
};
pub use names::{Accepted, Compression, ContentType};
pub use server::{GrpcServer, ServerConfig};
pub use status::{
    parse_status, parse_status_message, put_status_message, status_of_http, status_of_reset,
    status_text,
};
pub use timeout::{TimeoutText, parse_timeout};
