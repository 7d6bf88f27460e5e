//! Requests as a server reads them (section 4 of the specification).

use std::borrow::Cow;

use super::context::CallContext;
use super::fault::Fault;
use super::id::Id;
use super::message::{Members, OneOrBatch, id_beside_halves};
use super::text::unescape;

/// A request, or a notification if it has no id: nothing is answered then, not even a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request<'a> {
    /// The name of the method; borrowed unless it was written with escapes.
    pub method: Cow<'a, str>,
    /// Its parameters.
    pub params: Params<'a>,
    /// `None` is a notification; [`Id::NULL`] is a request.
    pub id: Option<Id<'a>>,
    /// The member `ringway`, if there is one.
    pub context: Option<CallContext<'a>>,
}

/// The parameters of a request, as JSON that was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Params<'a> {
    /// None were given, or null.
    Absent,
    /// An array.
    Positional(&'a str),
    /// An object.
    Named(&'a str),
}

impl<'a> Params<'a> {
    /// Their JSON, if there are any.
    #[must_use]
    pub fn json(self) -> Option<&'a str> {
        match self {
            Self::Absent => None,
            Self::Positional(json) | Self::Named(json) => Some(json),
        }
    }

    #[inline]
    fn of_value(value: Option<&'a str>) -> Result<Self, Fault> {
        match value {
            None | Some("null") => Ok(Self::Absent),
            Some(value) if value.starts_with('[') => Ok(Self::Positional(value)),
            Some(value) if value.starts_with('{') => Ok(Self::Named(value)),
            Some(_) => Err(Fault::Params),
        }
    }
}

impl<'a> Request<'a> {
    #[inline]
    pub(super) fn of_members(members: &Members<'a>) -> Result<Self, Fault> {
        members.check()?;
        let id = members.id.map(|value| Id::of_value(value).ok_or(Fault::Id)).transpose()?;
        let method = members.method.and_then(|it| it.strip_prefix('"')?.strip_suffix('"'));
        let context = |json| CallContext::parse(json).ok_or(Fault::Context);
        Ok(Self {
            method: unescape(method.ok_or(Fault::Method)?),
            params: Params::of_value(members.params)?,
            id,
            context: members.ringway.map(context).transpose()?,
        })
    }
}

/// A message that is no request, to be answered with [`put_refusal`](super::put_refusal).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal<'a> {
    /// The first thing that is wrong with it.
    pub fault: Fault,
    /// Its id where that can be read, otherwise null.
    pub id: Id<'a>,
}

/// The requests of one text: a single one, or those of a batch.
#[derive(Debug, Clone)]
pub struct Requests<'a>(OneOrBatch<'a>);

/// Reads a text with requests: a line, the content of an HTTP request, a WebSocket message.
///
/// The whole text is checked before the first request is given: it is JSON to its end. Allocates for what is
/// written with escapes, and for nothing else.
///
/// # Errors
/// A [`Refusal`] of the text as a whole, answered with one object even if it is a batch: it is not JSON, or has half of
/// a surrogate pair in a string, or a batch that is empty or has more than `batch_max` messages.
///
/// # Examples
///
/// ```
/// use ringway_wire::jsonrpc::{Params, Replies, decode_requests, put_refusal, put_result};
///
/// let text = br#"[{"jsonrpc":"2.0","method":"sum","params":[1,2],"id":"a"}, {"foo":"boo"}]"#;
/// let requests = decode_requests(text, 100).expect("JSON");
/// let (mut out, mut replies) = (Vec::new(), Replies::new(requests.is_batch()));
/// for request in requests {
///     replies.begin(&mut out);
///     match request {
///         Ok(request) => {
///             assert_eq!((&*request.method, request.params), ("sum", Params::Positional("[1,2]")));
///             put_result("3", request.id.expect("no notification"), &mut out);
///         }
///         Err(refusal) => put_refusal(&refusal, &mut out),
///     }
/// }
/// replies.end(&mut out);
/// assert_eq!(
///     out,
///     br#"[{"jsonrpc":"2.0","result":3,"id":"a"},{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null}]"#
/// );
/// ```
#[inline]
pub fn decode_requests(text: &[u8], batch_max: usize) -> Result<Requests<'_>, Refusal<'_>> {
    let texts = OneOrBatch::new(text, batch_max);
    texts.map(Requests).map_err(|fault| {
        let beside = if fault == Fault::NotJson { id_beside_halves(text) } else { None };
        beside.map_or(Refusal { fault, id: Id::NULL }, |id| Refusal { fault: Fault::HalfPair, id })
    })
}

impl Requests<'_> {
    /// Whether the text is a batch, whose replies are an array.
    #[must_use]
    pub fn is_batch(&self) -> bool {
        self.0.is_batch()
    }
}

impl<'a> Iterator for Requests<'a> {
    type Item = Result<Request<'a>, Refusal<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let members = self.0.next()?;
        let refuse = |fault| Refusal { fault, id: members.readable_id() };
        Some(Request::of_members(&members).map_err(refuse))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.len(), Some(self.0.len()))
    }
}

impl ExactSizeIterator for Requests<'_> {}
