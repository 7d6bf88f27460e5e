//! The seventeen ways in which a call ends.

use std::fmt;

/// The outcome of a call. The numbers and meanings are gRPC's, on every protocol.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Code {
    /// It succeeded.
    Ok = 0,
    /// The caller gave up.
    Cancelled = 1,
    /// Something failed, and nobody said what.
    Unknown = 2,
    /// The request makes no sense, whatever the state of the server.
    InvalidArgument = 3,
    /// The time for the call was used up. It may have been carried out all the same.
    DeadlineExceeded = 4,
    /// What was asked for does not exist.
    NotFound = 5,
    /// What was to be made exists.
    AlreadyExists = 6,
    /// The caller is known and not allowed to.
    PermissionDenied = 7,
    /// A quota, a limit or memory is used up.
    ResourceExhausted = 8,
    /// The server is not in the state that the call needs; retrying alone does not help.
    FailedPrecondition = 9,
    /// Somebody else got in between; the caller may redo its whole sequence.
    Aborted = 10,
    /// Past the end of what there is.
    OutOfRange = 11,
    /// The server has no such method, or not in this form.
    Unimplemented = 12,
    /// An invariant broke: a defect, not a circumstance.
    Internal = 13,
    /// The service cannot be reached or takes no calls now; trying again may help.
    Unavailable = 14,
    /// Data is lost or corrupt for good.
    DataLoss = 15,
    /// It is not known who the caller is.
    Unauthenticated = 16,
}

impl Code {
    /// The code with this number on the wire; one that nobody knows reads as [`Code::Unknown`].
    pub const fn from_wire(number: u8) -> Self {
        match ALL.len() > number as usize {
            true => ALL[number as usize],
            false => Self::Unknown,
        }
    }

    /// The number on the wire.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The name in capitals, as in gRPC's documents: `NOT_FOUND`.
    pub const fn name(self) -> &'static str {
        NAMES[self as usize]
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

const ALL: [Code; 17] = [
    Code::Ok,
    Code::Cancelled,
    Code::Unknown,
    Code::InvalidArgument,
    Code::DeadlineExceeded,
    Code::NotFound,
    Code::AlreadyExists,
    Code::PermissionDenied,
    Code::ResourceExhausted,
    Code::FailedPrecondition,
    Code::Aborted,
    Code::OutOfRange,
    Code::Unimplemented,
    Code::Internal,
    Code::Unavailable,
    Code::DataLoss,
    Code::Unauthenticated,
];

const NAMES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_back_and_foreign_ones_are_unknown() {
        for number in 0..=u8::MAX {
            let code = Code::from_wire(number);
            let expected = if number <= 16 { number } else { Code::Unknown.number() };
            assert_eq!(code.number(), expected, "{number}");
        }
        assert_eq!(format!("{:>10}", Code::NotFound), " NOT_FOUND");
        assert_eq!(Code::from_wire(16).name(), "UNAUTHENTICATED");
    }
}
