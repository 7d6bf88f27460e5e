//! What is wrong with a message.

use std::fmt;

use super::code::ErrorNumber;

/// The first thing that is wrong with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The text is not one JSON value in UTF-8, or a batch with half of a surrogate pair in a string.
    NotJson,
    /// A string of the message has half of a surrogate pair, which is no character.
    HalfPair,
    /// A batch of nothing.
    EmptyBatch,
    /// A batch of more messages than are taken at once.
    BatchTooLong,
    /// The message is not an object.
    NotAnObject,
    /// A member is nested deeper than is taken.
    TooDeep,
    /// `jsonrpc` is missing or not `"2.0"`.
    Version,
    /// `id` is neither a string nor a number nor null, or is missing where there has to be one.
    Id,
    /// `method` is missing or not a string.
    Method,
    /// `params` is neither an array nor an object.
    Params,
    /// `ringway` does not have the members that it has.
    Context,
    /// A response has both or neither of `result` and `error`.
    Outcome,
    /// The error of a response has no whole number as its code or no string as its message.
    ErrorObject,
}

impl Fault {
    /// The code that a server answers it with.
    #[must_use]
    pub fn code(self) -> ErrorNumber {
        match self {
            Self::NotJson | Self::HalfPair => ErrorNumber::PARSE_ERROR,
            _ => ErrorNumber::INVALID_REQUEST,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotJson => "the text is not one JSON value in UTF-8",
            Self::HalfPair => "a string has half of a surrogate pair",
            Self::EmptyBatch => "the batch is empty",
            Self::BatchTooLong => "the batch has more messages than are taken at once",
            Self::NotAnObject => "the message is not an object",
            Self::TooDeep => "a member is nested deeper than is taken",
            Self::Version => "`jsonrpc` is not \"2.0\"",
            Self::Id => "`id` is not a string, a number or null",
            Self::Method => "`method` is not a string",
            Self::Params => "`params` is neither an array nor an object",
            Self::Context => "`ringway` has members of the wrong kind",
            Self::Outcome => "a response has one of `result` and `error`, not both or neither",
            Self::ErrorObject => "`error` has a whole number as `code` and a string as `message`",
        })
    }
}
