//! Statuses: how calls end.

mod code;
mod convert;
mod native;

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

pub use code::Code;

use crate::call::metadata::Metadata;
use crate::call::method::Method;

/// Why a call did not succeed: a code, a text for people, and details for programs.
///
/// A handler returns it, and the caller gets it. It is as small as a pointer, so that results stay
/// small.
///
/// ```
/// use ringway_rpc::{Code, Status};
///
/// let status = Status::not_found("no such user");
/// assert!(status.is_not_found());
/// assert_eq!(status.code(), Code::NotFound);
/// assert_eq!(status.to_string(), "NOT_FOUND: no such user");
/// ```
#[derive(Clone)]
pub struct Status(Box<Inner>);

#[derive(Clone)]
struct Inner {
    code: Code,
    origin: Origin,
    not_executed: bool,
    pushback: Option<Pushback>,
    /// Whether this side has set the pushback, as opposed to the server of a call that this side
    /// has made.
    pushback_is_own: bool,
    message: Cow<'static, str>,
    details: Bytes,
    metadata: Metadata,
    /// What the server sent before the failure.
    initial: Metadata,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// The key of the trailer with the code of an error of JSON-RPC.
pub(crate) const JSON_RPC_CODE: &str = "jsonrpc-code";

/// The party that decided on a status.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Origin {
    /// This side: the deadline passed here, the connection broke, the caller cancelled, the answer
    /// exceeds a limit or breaks the protocol.
    Local,
    /// The peer without its handler: its server refused the call before a handler saw it, its stream was
    /// reset, or something before it answered.
    Peer,
    /// The handler of the method, or the server in its place: no such method, a message too large.
    Handler,
}

/// A server's request to callers about retries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Pushback {
    /// Retry after this time, instead of the caller's own back-off.
    After(Duration),
    /// Do not retry.
    Never,
}

impl Status {
    /// Makes a status with a text for people. The text is sent to the peer: keep secrets out of it.
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner {
            code,
            origin: Origin::Local,
            not_executed: false,
            pushback: None,
            pushback_is_own: false,
            message: message.into(),
            details: Bytes::new(),
            metadata: Metadata::new(),
            initial: Metadata::new(),
            source: None,
        }))
    }

    /// Returns the code.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// Returns the text for people; may be empty.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the details for programs, in a form that both sides know; may be empty.
    pub fn details(&self) -> &Bytes {
        &self.0.details
    }

    /// Returns the trailers that came with the status.
    pub fn metadata(&self) -> &Metadata {
        &self.0.metadata
    }

    /// Returns the metadata that the server sent before the failure of a call with one reply. Streams of
    /// replies have it in [`Streaming::metadata`](crate::Streaming::metadata).
    pub fn initial_metadata(&self) -> &Metadata {
        &self.0.initial
    }

    /// Returns the party that decided on this status.
    pub fn origin(&self) -> Origin {
        self.0.origin
    }

    /// Whether it is certain that no handler saw the call, so that a retry repeats nothing.
    ///
    /// It applies to the call that failed with this status. It is not passed on when a handler
    /// returns the status of a call that it has made: the handler's own call was executed.
    pub fn is_not_executed(&self) -> bool {
        self.0.not_executed
    }

    /// Whether a retry on another server, or later on this one, may succeed: the call was not
    /// executed, and not because of a limit of this side.
    pub(crate) fn is_refused(&self) -> bool {
        let limited = self.is_resource_exhausted() && self.origin() == Origin::Peer;
        self.is_not_executed() && (self.is_unavailable() || limited)
    }

    /// Returns the server's request about retries, if it made one. Like
    /// [`is_not_executed`](Self::is_not_executed), it is not passed on when a handler returns the
    /// status of a call that it has made.
    pub fn pushback(&self) -> Option<Pushback> {
        self.0.pushback
    }

    /// Sets details for programs.
    #[must_use]
    pub fn with_details(mut self, details: impl Into<Bytes>) -> Self {
        self.0.details = details.into();
        self
    }

    /// Sets the code that callers by JSON-RPC get, in place of the one that stands for the status. It is the entry
    /// `jsonrpc-code` of the trailers, which callers by other protocols can read.
    ///
    /// The specification leaves all codes to applications but those from −32768 to −32000.
    ///
    /// ```
    /// use ringway_rpc::Status;
    ///
    /// let status = Status::failed_precondition("no such block").with_json_rpc_code(-38_001);
    /// assert_eq!(status.json_rpc_code(), Some(-38_001));
    /// ```
    #[must_use]
    pub fn with_json_rpc_code(mut self, code: i64) -> Self {
        let set = self.0.metadata.insert(JSON_RPC_CODE, code.to_string());
        debug_assert!(set.is_ok(), "a number is short, and text");
        self
    }

    /// Returns the code of an error of JSON-RPC: the one that the server has answered, or that was
    /// [set](Self::with_json_rpc_code).
    pub fn json_rpc_code(&self) -> Option<i64> {
        self.0.metadata.get(JSON_RPC_CODE)?.parse().ok()
    }

    /// Replaces the trailers.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.0.metadata = metadata;
        self
    }

    pub(crate) fn with_initial(mut self, initial: Metadata) -> Self {
        self.0.initial = initial;
        self
    }

    /// Adds the method's name to the text if this side has made the status.
    pub(crate) fn of_call(mut self, method: &Method) -> Self {
        if self.0.origin == Origin::Local {
            self.0.message = format!("{}: {}", method.name(), self.0.message).into();
        }
        self
    }

    /// Sets the cause, which is not sent to the peer.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// Asks the caller to wait before it retries, or not to retry.
    #[must_use]
    pub fn with_pushback(mut self, pushback: Pushback) -> Self {
        self.0.pushback = Some(pushback);
        self.0.pushback_is_own = true;
        self
    }

    /// Marks the status: no handler saw the call in any of its attempts.
    pub(crate) fn not_executed(mut self) -> Self {
        self.0.not_executed = true;
        self
    }

    /// Removes that mark: a handler may have seen the call.
    pub(crate) fn maybe_executed(mut self) -> Self {
        self.0.not_executed = false;
        self
    }

    pub(crate) fn with_code(mut self, code: Code) -> Self {
        self.0.code = code;
        self
    }

    pub(crate) fn with_origin(mut self, origin: Origin) -> Self {
        self.0.origin = origin;
        self
    }

    pub(crate) fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.0.metadata
    }
}

/// Defines a constructor and a predicate for each code but OK.
macro_rules! codes {
    ($($code:ident, $new:ident, $is:ident;)*) => {
        impl Status {
            $(
                #[doc = concat!("Makes a status with [`Code::", stringify!($code), "`].")]
                pub fn $new(message: impl Into<Cow<'static, str>>) -> Self {
                    Self::new(Code::$code, message)
                }

                #[doc = concat!("Whether the code is [`Code::", stringify!($code), "`].")]
                pub fn $is(&self) -> bool {
                    self.0.code == Code::$code
                }
            )*
        }
    };
}

codes! {
    Cancelled, cancelled, is_cancelled;
    Unknown, unknown, is_unknown;
    InvalidArgument, invalid_argument, is_invalid_argument;
    DeadlineExceeded, deadline_exceeded, is_deadline_exceeded;
    NotFound, not_found, is_not_found;
    AlreadyExists, already_exists, is_already_exists;
    PermissionDenied, permission_denied, is_permission_denied;
    ResourceExhausted, resource_exhausted, is_resource_exhausted;
    FailedPrecondition, failed_precondition, is_failed_precondition;
    Aborted, aborted, is_aborted;
    OutOfRange, out_of_range, is_out_of_range;
    Unimplemented, unimplemented, is_unimplemented;
    Internal, internal, is_internal;
    Unavailable, unavailable, is_unavailable;
    DataLoss, data_loss, is_data_loss;
    Unauthenticated, unauthenticated, is_unauthenticated;
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0.message {
            "" => self.0.code.fmt(f),
            message => write!(f, "{}: {message}", self.0.code),
        }
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Status({self}, {:?}", self.0.origin)?;
        if self.0.not_executed {
            f.write_str(", not executed")?;
        }
        if let Some(source) = self.0.source.as_ref().map(ToString::to_string)
            && !self.0.message.contains(&source)
        {
            write!(f, ", {source}")?;
        }
        f.write_str(")")
    }
}

impl StdError for Status {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref().map(|source| &**source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_is_as_small_as_a_pointer() {
        assert_eq!(size_of::<Status>(), size_of::<usize>());
        assert_eq!(size_of::<Result<(), Status>>(), size_of::<usize>());
    }

    #[test]
    fn each_constructor_satisfies_only_its_own_predicate() {
        let status = Status::resource_exhausted("");
        assert!(status.is_resource_exhausted());
        assert!(!status.is_unavailable() && !status.is_not_executed());
        assert_eq!(status.to_string(), "RESOURCE_EXHAUSTED");
    }

    #[test]
    fn source_is_kept_locally_and_printed_by_debug() {
        let status = Status::internal("cannot store").with_source("disk on fire");
        assert_eq!(status.source().expect("a cause").to_string(), "disk on fire");
        assert_eq!(format!("{status:?}"), "Status(INTERNAL: cannot store, Local, disk on fire)");
        assert_eq!(status.to_string(), "INTERNAL: cannot store", "the peer gets nothing of it");
    }
}
