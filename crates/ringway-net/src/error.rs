//! The error of this crate.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::fmt;
use std::io;

use crate::tls::TlsError;
use ringway_runtime::{Elapsed, JoinError, SpawnError};

/// The result type of this crate; `Result<()>` may be written `Result`.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

/// The error of an address, a connection or a server.
///
/// The message says what failed and on which object. The `is_*` methods tell the cases apart that
/// callers handle differently, and [`source`](StdError::source) returns the cause.
pub struct Error(Box<Inner>);

struct Inner {
    kind: Kind,
    /// What failed, on which object, and what to do about it; empty where the cause says it all.
    what: String,
    source: Option<Source>,
}

type Source = Box<dyn StdError + Send + Sync>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Io,
    Closed,
    Timeout,
    Limit,
    Address,
    Protocol,
    Tls,
    Misuse,
    Other,
}

impl Error {
    /// Wraps an error of the program, for handlers that return this type.
    pub fn other(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::with_source(Kind::Other, "", error)
    }

    pub(crate) fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, what: what.into(), source: None }))
    }

    pub(crate) fn with_source(
        kind: Kind,
        what: impl Into<String>,
        source: impl Into<Source>,
    ) -> Self {
        Self(Box::new(Inner { kind, what: what.into(), source: Some(source.into()) }))
    }

    /// Adds what was being done to an error; its kind stays.
    pub(crate) fn in_context(what: impl Into<String>, error: Self) -> Self {
        Self::with_source(error.0.kind, what, error)
    }

    pub(crate) fn kind(&self) -> Kind {
        self.0.kind
    }

    /// Makes an error of a kernel error and of what was being done.
    pub(crate) fn io(what: impl Into<String>, error: io::Error) -> Self {
        Self::with_source(Kind::of_io(&error), what, error)
    }

    /// Whether a time limit has passed: connect, handshake, idle, lifetime, request.
    pub fn is_timeout(&self) -> bool {
        self.0.kind == Kind::Timeout
    }

    /// Whether the connection is gone: reset, aborted, or cut in the middle of a message.
    pub fn is_closed(&self) -> bool {
        self.0.kind == Kind::Closed
    }

    /// Whether a bound of this library or of the machine was reached: queue, connections,
    /// descriptors.
    pub fn is_limit(&self) -> bool {
        self.0.kind == Kind::Limit
    }

    /// Whether an address cannot be parsed, resolved or used.
    pub fn is_address(&self) -> bool {
        self.0.kind == Kind::Address
    }

    /// Whether the peer broke the protocol.
    pub fn is_protocol(&self) -> bool {
        self.0.kind == Kind::Protocol
    }

    /// Whether TLS failed: certificate, version, handshake or configuration.
    pub fn is_tls(&self) -> bool {
        self.0.kind == Kind::Tls
    }

    /// Returns the cause, if it is an error of the kernel.
    pub fn as_io(&self) -> Option<&io::Error> {
        let source = self.0.source.as_ref()?;
        match source.downcast_ref::<Self>() {
            Some(inner) => inner.as_io(),
            None => source.downcast_ref(),
        }
    }
}

impl Kind {
    fn of_io(error: &io::Error) -> Self {
        use io::ErrorKind as E;
        match error.kind() {
            _ if TlsError::broke_protocol(error) => Self::Tls,
            E::TimedOut => Self::Timeout,
            E::ConnectionReset
            | E::ConnectionAborted
            | E::BrokenPipe
            | E::NotConnected
            | E::UnexpectedEof => Self::Closed,
            E::OutOfMemory | E::QuotaExceeded => Self::Limit,
            E::AddrInUse | E::AddrNotAvailable => Self::Address,
            _ if is_out_of_descriptors(error) => Self::Limit,
            _ => Self::Io,
        }
    }
}

/// Whether the process or the system has reached its limit of descriptors.
pub(crate) fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(EMFILE | ENFILE))
}

/// "Too many open files", of the process and of the system, on every Linux architecture.
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&*self.0.what, &self.0.source) {
            ("", Some(source)) => source.fmt(f),
            (what, Some(source)) => write!(f, "{what}: {source}"),
            (what, None) => f.write_str(what),
        }
    }
}

/// Prints like `Display`, because `main` prints a returned error with `Debug`.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref().map(|source| &**source as _)
    }
}

/// Unwraps an `io::Error` that was made of an error of this crate.
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        error.downcast().unwrap_or_else(|error| Self::io("", error))
    }
}

impl From<ringway_wire::Error> for Error {
    fn from(error: ringway_wire::Error) -> Self {
        let kind = match () {
            () if error.is_peer_fault() => Kind::Protocol,
            () if error.is_limit() => Kind::Limit,
            () => Kind::Misuse,
        };
        Self::with_source(kind, "", error)
    }
}

impl From<Elapsed> for Error {
    fn from(elapsed: Elapsed) -> Self {
        Self::with_source(Kind::Timeout, "", elapsed)
    }
}

impl From<JoinError> for Error {
    fn from(error: JoinError) -> Self {
        Self::with_source(Kind::Other, "", error)
    }
}

impl From<SpawnError> for Error {
    fn from(error: SpawnError) -> Self {
        let kind = if error == SpawnError::Full { Kind::Limit } else { Kind::Closed };
        Self::with_source(kind, "", error)
    }
}

impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match (error.0.kind, error.as_io()) {
            (_, Some(cause)) => cause.kind(),
            (Kind::Timeout, _) => io::ErrorKind::TimedOut,
            (Kind::Closed, _) => io::ErrorKind::ConnectionAborted,
            (Kind::Limit, _) => io::ErrorKind::QuotaExceeded,
            (Kind::Address | Kind::Misuse, _) => io::ErrorKind::InvalidInput,
            (Kind::Protocol | Kind::Tls, _) => io::ErrorKind::InvalidData,
            (Kind::Io | Kind::Other, _) => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_errors_map_to_the_kind_that_callers_handle() {
        let of = |errno| Error::from(io::Error::from_raw_os_error(errno));
        assert!(of(EMFILE).is_limit() && of(ENFILE).is_limit());
        assert!(of(104).is_closed(), "ECONNRESET");
        assert!(of(110).is_timeout(), "ETIMEDOUT");
        assert!(of(98).is_address(), "EADDRINUSE");
    }

    #[test]
    fn message_and_source_contain_the_cause() {
        let error = Error::io("cannot listen on tcp://x:1", io::Error::from_raw_os_error(98));
        assert!(error.to_string().starts_with("cannot listen on tcp://x:1: Address"), "{error}");
        assert!(error.source().is_some());
        assert_eq!(io::Error::from(error).kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn context_and_conversion_keep_the_kind() {
        let refused = Error::io("", io::Error::from_raw_os_error(111));
        let outer = Error::in_context("cannot connect", refused);
        assert_eq!(outer.as_io().and_then(io::Error::raw_os_error), Some(111));
        let unknown =
            Error::in_context("cannot connect", Error::new(Kind::Address, "no such name"));
        assert!(unknown.is_address() && unknown.as_io().is_none());
        assert_eq!(unknown.to_string(), "cannot connect: no such name");
        let there_and_back = Error::from(io::Error::from(unknown));
        assert!(there_and_back.is_address(), "{there_and_back:?}");
    }

    #[test]
    fn codec_errors_map_to_protocol_or_limit() {
        assert!(Error::from(ringway_wire::Error::UnexpectedReply).is_protocol());
        assert!(Error::from(ringway_wire::Error::TooManyInFlight { max: 1 }).is_limit());
    }

    #[test]
    fn error_is_as_small_as_a_pointer() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
    }
}
