//! How calls end.

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
/// A handler returns one, the caller gets it. It is one pointer wide, so results stay small.
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
    /// Whether this side asks for it, and not the server of a call that this side has made.
    pushback_is_own: bool,
    message: Cow<'static, str>,
    details: Bytes,
    metadata: Metadata,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// The party that decided on a status.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Origin {
    /// This side: the deadline passed here, the connection broke, the caller gave up.
    Local,
    /// The peer's server, which refused the call before any handler saw it.
    Peer,
    /// The handler of the method, or its server in its place: no such method, a message too large.
    Handler,
}

/// A server's request to callers that would retry.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Pushback {
    /// Wait so long, in place of the caller's own back-off.
    After(Duration),
    /// Do not.
    Never,
}

impl Status {
    /// A status with a text for people. The text reaches the peer: keep secrets out of it.
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
            source: None,
        }))
    }

    /// The code of the status.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The message for people; may be empty.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The details for programs, in a form that both sides agreed upon; may be empty.
    pub fn details(&self) -> &Bytes {
        &self.0.details
    }

    /// The trailers that came with the status.
    pub fn metadata(&self) -> &Metadata {
        &self.0.metadata
    }

    /// The party that decided on this status.
    pub fn origin(&self) -> Origin {
        self.0.origin
    }

    /// It is certain that no handler saw the call, so that placing it again repeats nothing.
    ///
    /// It is said of the call that failed with this status. A handler that returns the status of a
    /// call of its own does not pass this on: its own call was executed.
    pub fn is_not_executed(&self) -> bool {
        self.0.not_executed
    }

    /// Whether another server, or this one a little later, may take the call: it was not executed, and not
    /// for a limit of this side.
    pub(crate) fn is_refused(&self) -> bool {
        let limited = self.is_resource_exhausted() && self.origin() == Origin::Peer;
        self.is_not_executed() && (self.is_unavailable() || limited)
    }

    /// The server's request to callers that would retry. Like
    /// [`is_not_executed`](Self::is_not_executed), it is not passed on by a handler that returns the
    /// status of a call of its own.
    pub fn pushback(&self) -> Option<Pushback> {
        self.0.pushback
    }

    /// Adds details for programs.
    #[must_use]
    pub fn with_details(mut self, details: impl Into<Bytes>) -> Self {
        self.0.details = details.into();
        self
    }

    /// Replaces the trailers.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.0.metadata = metadata;
        self
    }

    /// Says which call it is about, where this side has made it up.
    pub(crate) fn of_call(mut self, method: &Method) -> Self {
        if self.0.origin == Origin::Local {
            self.0.message = format!("{}: {}", method.name(), self.0.message).into();
        }
        self
    }

    /// Adds the cause, which stays in this process.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// Asks the caller to wait before it tries again, or not to try at all.
    #[must_use]
    pub fn with_pushback(mut self, pushback: Pushback) -> Self {
        self.0.pushback = Some(pushback);
        self.0.pushback_is_own = true;
        self
    }

    /// States that no handler saw the call, in any of its attempts.
    pub(crate) fn not_executed(mut self) -> Self {
        self.0.not_executed = true;
        self
    }

    /// Says so no longer: it is the outcome of a call of which a handler may have seen something.
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

/// Writes for each code but OK the constructor and the question.
macro_rules! codes {
    ($($code:ident, $new:ident, $is:ident;)*) => {
        impl Status {
            $(
                #[doc = concat!("A status of [`Code::", stringify!($code), "`].")]
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
    fn a_status_is_one_pointer_so_that_results_stay_small() {
        assert_eq!(size_of::<Status>(), size_of::<usize>());
        assert_eq!(size_of::<Result<(), Status>>(), size_of::<usize>());
    }

    #[test]
    fn each_constructor_answers_its_question_alone() {
        let status = Status::resource_exhausted("");
        assert!(status.is_resource_exhausted());
        assert!(!status.is_unavailable() && !status.is_not_executed());
        assert_eq!(status.to_string(), "RESOURCE_EXHAUSTED");
    }

    #[test]
    fn the_cause_is_kept_here_and_shown_to_developers() {
        let status = Status::internal("cannot store").with_source("disk on fire");
        assert_eq!(status.source().expect("a cause").to_string(), "disk on fire");
        assert_eq!(format!("{status:?}"), "Status(INTERNAL: cannot store, Local, disk on fire)");
        assert_eq!(status.to_string(), "INTERNAL: cannot store", "nothing of it for the peer");
    }
}
