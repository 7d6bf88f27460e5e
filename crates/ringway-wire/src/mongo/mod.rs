//! The wire protocol of MongoDB without I/O: commands and replies, compression, authentication.
//!
//! | to | use |
//! |---|---|
//! | write commands straight into a send buffer | [`CommandTemplate`], [`CommandWriter`] |
//! | find the reply of each command in received slices | [`MongoReplies`] |
//! | read one message | [`OpMsg`], [`CommandReply`] |
//! | greet a server, and learn what it can do | [`HelloRequest`], [`HelloReply`], [`ClientMetadata`] |
//! | authenticate | [`ScramClient`] and the states behind it |
//! | bound the nesting of a document before it is decoded | [`check_nesting`] |
//!
//! Replies are borrowed from the received bytes as [`RawDocument`](bson::RawDocument)s; one that is cut
//! by the end of a slice is copied once. Nothing of a document is checked before it is read.
//!
//! # Examples
//!
//! ```
//! use ringway_wire::mongo::{CommandReply, CommandTemplate, MongoReplies, REPLY_LEN_MAX_DEFAULT};
//!
//! let ping = CommandTemplate::new("ping", 1, "admin");
//! let mut replies = MongoReplies::new(16, REPLY_LEN_MAX_DEFAULT);
//!
//! let mut sent = Vec::new();
//! let id = replies.begin().expect("one of sixteen");
//! ping.begin(id, None, &mut sent).finish()?;
//!
//! // A server's answer: the same framing, with `responseTo` set.
//! let mut received = sent.clone();
//! received[8..12].copy_from_slice(&id.to_le_bytes());
//! let mut input = &received[..];
//! let reply = replies.next(&mut input)?.expect("a whole reply");
//! assert_eq!(reply.request_id(), id);
//! assert_eq!(reply.body().get_str("$db").ok(), Some("admin"));
//! assert!(CommandReply::of(reply.body()).is_err(), "it has no field `ok`");
//! # Ok::<(), ringway_wire::mongo::MongoFault>(())
//! ```

mod command;
mod command_reply;
mod compressor;
mod cursor_reply;
mod cutter;
mod fault;
pub(crate) mod fuzz_op_msg;
pub(crate) mod fuzz_scram;
mod hello;
mod hello_reply;
mod limits;
mod metadata;
mod nesting;
mod op_header;
mod op_msg;
mod replies;
mod scram;

pub use command::{CommandArgument, CommandTemplate, CommandWriter, SequenceWriter, SessionId};
pub use command_reply::{CommandReply, ServerFailure};
pub use compressor::MongoCompressor;
pub use cursor_reply::CursorReply;
pub use cutter::Cut;
pub use fault::MongoFault;
pub use hello::{AwaitedChange, HelloRequest};
pub use hello_reply::{HelloReply, ServerKind};
pub use limits::{MONGO_MESSAGE_MAX as REPLY_LEN_MAX_DEFAULT, MONGO_NESTING_MAX as NESTING_MAX};
pub use metadata::{ClientDescription, ClientMetadata, CloudFunction};
pub use nesting::check_nesting;
pub use op_header::{HEADER_LEN, MongoOpcode, OpHeader};
pub use op_msg::{DocumentSequence, MsgFlags, OpMsg};
pub use replies::{MongoReplies, MongoReply};
pub use scram::{
    ScramChallenge, ScramClient, ScramFault, ScramKeys, ScramMechanism, ScramVerifier,
    scram_password,
};
