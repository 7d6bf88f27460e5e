//! HTTP/2: both ends of a connection as machines without I/O (RFC 9113, RFC 7541).
//!
//! A header field is resolved to a meaning once, when it enters a table: a [`Resolver`] defines the
//! meanings for the application, and a [`Head`] holds the meanings of a message as numbers.
//! Comments name the sections that they follow.

mod arriving;
mod blanks;
mod budgets;
mod client;
mod closed;
mod config;
mod connection;
mod draining;
mod error_code;
mod event;
mod field_check;
mod fields;
mod foreign;
mod frames;
pub(crate) mod fuzz_machines;
mod growth;
pub(crate) mod hpack;
mod index;
mod keepalive;
mod kept;
mod meaning;
mod on_block;
mod on_data;
mod on_frame;
mod open_block;
mod outbox;
mod own_resets;
mod put;
mod receive;
mod role;
mod sending;
mod server;
mod settings;
mod start_window;
mod stream;
mod stream_id;
mod streams;
mod texts;
mod violation;
mod windows;

pub use client::{Http2Client, NewRequest, NoStream};
pub use config::Http2Config;
pub use connection::Connection;
pub use error_code::ErrorCode;
pub use event::Event;
pub(crate) use fields::field_size;
pub use fields::{Fields, Head};
pub(crate) use hpack::ShortBlock;
pub use hpack::{Decoder, Encoder, Line};
pub use meaning::{Key, Known, Method, Resolver, Vocabulary};
pub use role::{Calling, Role, Serving};
pub use server::Http2Server;
pub use stream_id::StreamHandle;
pub use texts::Texts;
pub use violation::Violation;

pub use crate::native::{Body, Gone, Outgoing, Piece};
