//! gRPC on HTTP/2: what its fields mean, and its messages.
//!
//! Nothing here holds a connection: [`http2`](crate::http2) does. A server's connection has a
//! [`Vocabulary`](crate::http2::Vocabulary) of [`RequestNames`], a client's one of [`ResponseNames`];
//! then [`CallHead`] and [`ReplyHead`] read the head of a message, [`Messages`] splits the content of a
//! stream, and [`lines`] has the fields to be sent.

mod call_names;
pub(crate) mod fuzz;
pub mod lines;
mod message;
mod metadata;
mod names;
mod status;
mod timeout;

pub use call_names::{CallHead, NoCall, ReplyHead, RequestNames, ResponseNames};
pub use message::{Message, MessageError, Messages, PREFIX_LEN, prefix};
pub use metadata::{
    binary_values, is_ascii_value, is_binary, is_metadata_name, is_reserved, parse_base64,
    put_base64,
};
pub use names::{Accepted, Compression, ContentType};
pub use status::{
    parse_status, parse_status_message, put_status_message, status_of_http, status_of_reset,
    status_text,
};
pub use timeout::{TimeoutText, parse_timeout};
