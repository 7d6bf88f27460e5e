//! WebSocket after its handshake, [RFC 6455](https://www.rfc-editor.org/rfc/rfc6455): frames ⇄ messages.
//!
//! | to | use |
//! |---|---|
//! | read what a peer sends, from slices cut anywhere | [`MessageReader`] |
//! | write messages | [`put_text`], [`put_binary`], for long ones [`put_head`], compressed ones [`put_deflated`] |
//! | write control frames | [`put_ping`], [`put_pong`], [`put_close`] |
//! | say why a connection ends | [`CloseCode`], [`FrameFault::code`] |
//!
//! The two directions share no state, so a sender needs nothing of the receiver's. Reading copies once:
//! payloads are unmasked on their way into the message. Memory grows with the bytes that have come, not with
//! those that a frame announces, and a reader between two messages holds none.
//!
//! Messages are compressed (permessage-deflate, RFC 7692) where both ends have agreed on it: [`put_deflated`] and
//! [`MessageReader::with_deflate`]. Each is compressed by itself, so that a connection keeps no window.
//!
//! # Examples
//!
//! ```
//! use ringway_wire::websocket::{Arrival, MessageReader, WebSocketMessage, put_text};
//!
//! // A client's frames are masked, by numbers that nobody else can guess.
//! let mut sent = Vec::new();
//! put_text("hello", Some([1, 2, 3, 4]), &mut sent);
//!
//! let mut server = MessageReader::of_client(1 << 20);
//! let mut input = &sent[..];
//! let arrival = server.next(&mut input)?;
//! assert_eq!(arrival, Some(Arrival::Message(WebSocketMessage::Text("hello".into()))));
//! # Ok::<(), ringway_wire::websocket::FrameFault>(())
//! ```

mod close_code;
#[cfg(feature = "compression")]
mod deflate;
#[cfg(not(feature = "compression"))]
#[path = "deflate_none.rs"]
mod deflate;
mod encode;
mod fault;
pub(crate) mod fuzz;
mod head;
mod mask;
mod message;
mod reader;

pub use close_code::CloseCode;
pub use deflate::CAN_DEFLATE;
pub use encode::{put_binary, put_close, put_deflated, put_head, put_ping, put_pong, put_text};
pub use fault::FrameFault;
pub use head::DataKind;
pub use message::{Arrival, Closing, WebSocketMessage};
pub use reader::MessageReader;
