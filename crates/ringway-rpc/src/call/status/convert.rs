//! Conversions between statuses and errors, so that `?` works in handlers and in `main`.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::io;

use ringway_net::Error;
use ringway_runtime::blocking::SubmitError;
use ringway_runtime::{Elapsed, JoinError, SpawnError};

use crate::call::status::{Code, Status};

impl From<io::Error> for Status {
    /// Maps kinds that have a corresponding code to it, and all others to UNKNOWN.
    fn from(error: io::Error) -> Self {
        Self::new(of_kind(error.kind()), error.to_string()).with_source(error)
    }
}

fn of_kind(kind: io::ErrorKind) -> Code {
    use io::ErrorKind as E;
    match kind {
        E::NotFound => Code::NotFound,
        E::AlreadyExists => Code::AlreadyExists,
        E::PermissionDenied => Code::PermissionDenied,
        E::InvalidInput | E::InvalidData => Code::InvalidArgument,
        E::TimedOut => Code::DeadlineExceeded,
        E::ConnectionRefused
        | E::ConnectionReset
        | E::ConnectionAborted
        | E::NotConnected
        | E::BrokenPipe => Code::Unavailable,
        E::OutOfMemory | E::StorageFull | E::QuotaExceeded => Code::ResourceExhausted,
        E::UnexpectedEof => Code::DataLoss,
        E::Unsupported => Code::Unimplemented,
        _ => Code::Unknown,
    }
}

impl From<Error> for Status {
    /// Unwraps a status that was converted to an error. Otherwise maps kinds that have a
    /// corresponding code to it, and all others to UNKNOWN.
    fn from(error: Error) -> Self {
        if let Some(status) = error.source().and_then(|source| source.downcast_ref::<Self>()) {
            return status.clone();
        }
        let code = match error.as_io() {
            _ if error.is_timeout() => Code::DeadlineExceeded,
            _ if error.is_limit() => Code::ResourceExhausted,
            _ if error.is_closed() || error.is_address() || error.is_tls() => Code::Unavailable,
            Some(cause) => of_kind(cause.kind()),
            None => Code::Unknown,
        };
        Self::new(code, error.to_string()).with_source(error)
    }
}

/// Allows `?` on conversions that cannot fail.
impl From<Infallible> for Status {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Self::other(status)
    }
}

impl From<Elapsed> for Status {
    /// Makes DEADLINE_EXCEEDED: a time limit of the program has passed.
    fn from(elapsed: Elapsed) -> Self {
        Self::deadline_exceeded(elapsed.to_string()).with_source(elapsed)
    }
}

impl From<JoinError> for Status {
    /// Makes INTERNAL: a task has panicked or was aborted.
    fn from(error: JoinError) -> Self {
        Self::internal(error.to_string()).with_source(error)
    }
}

impl From<SpawnError> for Status {
    /// Makes RESOURCE_EXHAUSTED if the core's mailbox is full, and UNAVAILABLE if the core has
    /// ended.
    fn from(error: SpawnError) -> Self {
        let code = match error {
            SpawnError::Full => Code::ResourceExhausted,
            _ => Code::Unavailable,
        };
        Self::new(code, error.to_string()).with_source(error)
    }
}

impl From<SubmitError> for Status {
    /// Makes UNAVAILABLE if the blocking pool has stopped, and RESOURCE_EXHAUSTED otherwise.
    fn from(error: SubmitError) -> Self {
        let code = match error {
            SubmitError::Stopped => Code::Unavailable,
            _ => Code::ResourceExhausted,
        };
        Self::new(code, error.to_string()).with_source(error)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[track_caller]
    fn check(status: impl Into<Status>, code: Code) {
        let status = status.into();
        assert_eq!(status.code(), code, "{status}");
        assert!(!status.message().is_empty() && status.source().is_some(), "{status:?}");
    }

    #[test]
    fn system_errors_map_to_codes() {
        check(io::Error::from(io::ErrorKind::ConnectionRefused), Code::Unavailable);
        check(io::Error::other("?"), Code::Unknown);
        let refused = Status::from(io::Error::from(io::ErrorKind::ConnectionRefused));
        assert!(refused.source().is_some_and(|source| source.is::<io::Error>()));
    }

    #[test]
    fn network_errors_map_to_codes() {
        let of = |kind| Error::from(io::Error::from(kind));
        check(of(io::ErrorKind::TimedOut), Code::DeadlineExceeded);
        check(of(io::ErrorKind::ConnectionReset), Code::Unavailable);
        check(of(io::ErrorKind::PermissionDenied), Code::PermissionDenied);
        let malformed = "nonsense".parse::<ringway_net::Address>().expect_err("no address");
        check(malformed, Code::Unavailable);
        check(Error::other("?"), Code::Unknown);
    }

    #[test]
    fn status_converted_to_an_error_is_restored() {
        let status = Status::not_found("no such user").not_executed();
        let back = Status::from(Error::from(status.clone()));
        assert_eq!(format!("{back:?}"), format!("{status:?}"));
    }

    #[test]
    fn runtime_errors_map_to_codes() {
        let outcome = ringway_runtime::block_on(async {
            let aborted = ringway_runtime::spawn(std::future::pending::<()>());
            aborted.abort();
            let elapsed =
                ringway_runtime::timeout(Duration::ZERO, std::future::pending::<()>()).await;
            (elapsed, aborted.await)
        });
        let (elapsed, joined) = outcome.expect("a core");
        check(SpawnError::Full, Code::ResourceExhausted);
        check(SpawnError::Ended, Code::Unavailable);
        check(SubmitError::Full { threads_max: 1, queue_max: 1 }, Code::ResourceExhausted);
        check(SubmitError::Stopped, Code::Unavailable);
        check(elapsed.expect_err("it is over"), Code::DeadlineExceeded);
        check(joined.expect_err("it was aborted"), Code::Internal);
    }
}
