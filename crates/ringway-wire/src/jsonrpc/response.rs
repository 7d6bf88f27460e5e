//! What a client reads: responses (section 5 of the specification), and notifications of the server.

use std::borrow::Cow;

use super::code::ErrorNumber;
use super::fault::Fault;
use super::id::Id;
use super::message::{Members, OneOrBatch};
use super::request::{Refusal, Request};
use super::scanner::Scanner;
use super::text::unescape;

/// A message from a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming<'a> {
    /// The answer to a request.
    Response(Response<'a>),
    /// A notification, such as of a subscription; or a request, which a client may answer as a server does.
    Request(Request<'a>),
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response<'a> {
    /// The id of the request; null if the server could not read it.
    pub id: Id<'a>,
    /// The result as JSON that was checked, or the error.
    pub outcome: Result<&'a str, ErrorObject<'a>>,
}

/// The error that a request was answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorObject<'a> {
    /// Its code.
    pub code: ErrorNumber,
    /// A sentence for people; borrowed unless it was written with escapes.
    pub message: Cow<'a, str>,
    /// What the server adds, as JSON that was checked.
    pub data: Option<&'a str>,
}

impl<'a> Response<'a> {
    #[inline]
    fn of_members(members: &Members<'a>) -> Result<Self, Fault> {
        members.check_response()?;
        let id = members.id.and_then(Id::of_value).ok_or(Fault::Id)?;
        // Version 1.0 has both, of which one is null.
        let is_given = |value: &&str| *value != "null";
        let error = members.error.filter(is_given);
        let result = members.result.filter(|result| error.is_none() || is_given(result));
        let outcome = match (result, error) {
            (Some(result), None) => Ok(result),
            (None, Some(error)) => Err(ErrorObject::parse(error).ok_or(Fault::ErrorObject)?),
            _ => return Err(Fault::Outcome),
        };
        Ok(Self { id, outcome })
    }
}

impl<'a> ErrorObject<'a> {
    /// Reads an object that was checked.
    #[inline]
    fn parse(json: &'a str) -> Option<Self> {
        let (mut code, mut message, mut data) = (None, None, None);
        let read =
            Scanner::new(json).object(["code", "message", "data"], |name, value| match name {
                0 => code = Some(value),
                1 => message = Some(value),
                _ => data = Some(value),
            });
        read.ok()?;
        let message = message?.strip_prefix('"')?.strip_suffix('"')?;
        let code = ErrorNumber(code?.parse().ok()?);
        Some(Self { code, message: unescape(message), data })
    }
}

/// The messages of one text from a server: a single one, or those of a batch, which may be in any order.
#[derive(Debug, Clone)]
pub struct Responses<'a>(OneOrBatch<'a>);

/// Reads a text from a server. A message with a `method` is a request or a notification, any other a response, also in
/// the form of version 1.0: without `jsonrpc`, and with both `result` and `error`, of which one is null.
///
/// The whole text is checked before the first message is given. Allocates for what is written with escapes,
/// and for nothing else.
///
/// # Errors
/// The [`Fault`] of the text as a whole: it is not JSON, or a batch that is empty or has more than `batch_max`
/// messages. Those of single messages come as items.
///
/// # Examples
///
/// ```
/// use ringway_wire::jsonrpc::{Incoming, decode_responses};
///
/// let text = br#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":7}"#;
/// let Some(Ok(Incoming::Response(response))) = decode_responses(text, 1).expect("JSON").next() else {
///     panic!("a response");
/// };
/// assert_eq!(response.id.number(), Some(7));
/// assert_eq!(response.outcome.expect_err("it failed").code.0, -32601);
/// ```
#[inline]
pub fn decode_responses(text: &[u8], batch_max: usize) -> Result<Responses<'_>, Fault> {
    OneOrBatch::new(text, batch_max).map(Responses)
}

impl Responses<'_> {
    /// Whether the text is a batch.
    #[must_use]
    pub fn is_batch(&self) -> bool {
        self.0.is_batch()
    }
}

impl<'a> Iterator for Responses<'a> {
    type Item = Result<Incoming<'a>, Refusal<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let members = self.0.next()?;
        let incoming = match members.method {
            Some(_) => Request::of_members(&members).map(Incoming::Request),
            None => Response::of_members(&members).map(Incoming::Response),
        };
        Some(incoming.map_err(|fault| Refusal { fault, id: members.readable_id() }))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.len(), Some(self.0.len()))
    }
}

impl ExactSizeIterator for Responses<'_> {}
