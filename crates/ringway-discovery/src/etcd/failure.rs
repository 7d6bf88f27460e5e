//! What a failed request means: whom to ask next, and when.

use ringway_rpc::{Code, Status};

use crate::endpoint::Error;

/// Why a request has failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) fault: Fault,
    pub(super) error: Error,
}

/// Who has to change before a request can succeed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// This member, or the way to it: another one may answer.
    Member,
    /// The token of this client: a new one may do.
    Token,
    /// The request: every member gives the same answer.
    Request,
    /// The lease that was named is none.
    NoLease,
}

impl Failure {
    pub(super) fn of_member(why: impl Into<String>) -> Self {
        Self { fault: Fault::Member, error: Error::new(why) }
    }

    pub(super) fn of_request(why: impl Into<String>) -> Self {
        Self { fault: Fault::Request, error: Error::new(why) }
    }

    /// The failure of a call to the member at `address`.
    pub(super) fn of_call(status: &Status, address: &str) -> Self {
        let error = Error::new(format!("{address}: {status}"));
        Self { fault: fault(status), error }
    }
}

fn fault(status: &Status) -> Fault {
    let says = |text: &str| status.message().contains(text);
    if says("requested lease not found") {
        return Fault::NoLease;
    }
    if status.is_unauthenticated() || SAID_OF_TOKENS.iter().any(|text| says(text)) {
        return Fault::Token;
    }
    match status.code() {
        Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented => Fault::Request,
        _ => Fault::Member,
    }
}

/// What etcd says of a token with other codes than UNAUTHENTICATED.
const SAID_OF_TOKENS: [&str; 3] =
    ["revision of auth store is old", "invalid auth token", "user name is empty"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_is_somebodys() {
        for (status, expected) in [
            (Status::unavailable("etcdserver: no leader"), Fault::Member),
            (Status::deadline_exceeded("no answer"), Fault::Member),
            (Status::resource_exhausted("etcdserver: too many requests"), Fault::Member),
            (Status::unauthenticated("etcdserver: invalid auth token"), Fault::Token),
            (Status::invalid_argument("etcdserver: revision of auth store is old"), Fault::Token),
            (Status::invalid_argument("etcdserver: user name is empty"), Fault::Token),
            (Status::permission_denied("etcdserver: permission denied"), Fault::Request),
            (Status::not_found("etcdserver: requested lease not found"), Fault::NoLease),
        ] {
            assert_eq!(Failure::of_call(&status, "a:1").fault, expected, "{status}");
        }
    }
}
