//! Bytes ⇄ messages, without I/O.
//!
//! This crate holds the wire formats and protocol machines of Ringway. It opens no socket, reads
//! no clock, spawns nothing and blocks nowhere: bytes are handed in, frames and bytes come out,
//! and time is an argument. So the same code serves a socket, a file, a test and a fuzzer.
//!
//! | to | use |
//! |---|---|
//! | cut a stream by announced lengths | [`LengthField`] |
//! | cut it at line ends, at a byte string, or every n bytes | [`Line`], [`Delimiter`], [`FixedSize`] |
//! | feed received slices to any of them, or to a [`Codec`] of your own | [`Framer`] |
//! | tell a connection's protocol by its first bytes | [`detect`] |
//! | speak the native RPC protocol | [`native`] |
//! | speak HTTP/2, and gRPC on it | [`http2`], [`grpc`] |
//! | read and write JSON-RPC 2.0 | [`jsonrpc`] |
//! | speak MongoDB's protocol (feature `mongo`) | `mongo` |
//! | read and write the frames of WebSocket | [`websocket`] |
//! | find the request that a reply belongs to, and those that time out | [`IdMatcher`], [`SequentialMatcher`] |
//!
//! Frames are borrowed from the received bytes; one that straddles two slices is copied once.
//! Every length that a peer can choose is bounded, and bad bytes are an [`Error`], never a panic.
//!
//! # Examples
//!
//! The client's side of a request/reply protocol, with replies that arrive in two pieces:
//!
//! ```
//! use std::time::Duration;
//! use ringway_wire::{Codec, Framer, LengthField, SequentialMatcher};
//!
//! let mut framer = Framer::new(LengthField::u32_le().frame_max(1 << 20));
//! let mut waiting = SequentialMatcher::new(128);
//!
//! // Two requests leave; times count from any origin that suits the caller.
//! let (now, timeout) = (Duration::ZERO, Duration::from_secs(1));
//! let mut sent = Vec::new();
//! for question in ["name", "version"] {
//!     waiting.begin(now, timeout, question)?;
//!     framer.codec_mut().encode(question.as_bytes(), &mut sent)?;
//! }
//!
//! // The replies arrive, cut where the network pleased.
//! let received = b"\x07\0\0\0ringway\x01\0\0\x001";
//! let mut answers = Vec::new();
//! for slice in [&received[..13], &received[13..]] {
//!     framer.push(slice, |frame| {
//!         let answer = String::from_utf8_lossy(frame.payload).into_owned();
//!         answers.push((waiting.complete_next(), answer));
//!     })?;
//! }
//! assert_eq!(
//!     answers,
//!     [(Ok(Some("name")), "ringway".into()), (Ok(Some("version")), "1".into())]
//! );
//! framer.finish()?;
//! # Ok::<(), ringway_wire::Error>(())
//! ```

mod codec;
mod cut;
mod deadlines;
mod delimiter;
mod detect;
mod error;
mod fixed_size;
mod framer;
mod id_matcher;
mod length_field;
mod limits;
mod line;
mod rare_queue;
mod rates;
mod reading_clock;
mod request_id;
mod sequential_matcher;
mod stamp;
mod width;

#[doc(hidden)]
pub mod fuzz;
pub mod grpc;
pub mod http2;
pub mod jsonrpc;
#[cfg(feature = "mongo")]
pub mod mongo;
pub mod native;
pub mod web;
pub mod websocket;

pub use codec::{Codec, Decoded};
pub use delimiter::Delimiter;
pub use detect::{DETECT_LEN, Detected, detect};
pub use error::Error;
pub use fixed_size::FixedSize;
pub use framer::{Framer, Pushed};
pub use id_matcher::IdMatcher;
pub use length_field::{LengthField, LengthFrame};
pub use limits::FRAME_LEN_MAX_DEFAULT;
pub use line::Line;
pub use request_id::RequestId;
pub use sequential_matcher::SequentialMatcher;
pub use width::{U8, U16Be, U16Le, U32Be, U32Le, U64Be, U64Le, Varint, Width};
