//! HTTP/2: both ends of a connection as machines without I/O (RFC 9113, RFC 7541).

mod error_code;
mod field_check;
mod fields;
pub(crate) mod hpack;
mod meaning;
mod violation;

pub use error_code::ErrorCode;
pub use fields::{Fields, Head};
pub use hpack::{Decoder, Encoder, Line};
pub use meaning::{Key, Known, Method, Resolver, Vocabulary};
pub use violation::Violation;
