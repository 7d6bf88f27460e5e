//! The codes of a call's outcome.

use std::fmt;

/// The outcome of a call. The numbers and meanings are gRPC's, on every protocol.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Code {
    /// The call succeeded.
    Ok = 0,
    /// The caller cancelled the call.
    Cancelled = 1,
    /// An error without a known cause.
    Unknown = 2,
    /// The request is invalid, whatever the state of the server.
    InvalidArgument = 3,
    /// The deadline has passed. The call may have been executed.
    DeadlineExceeded = 4,
    /// A requested entity does not exist.
    NotFound = 5,
    /// The entity to create already exists.
    AlreadyExists = 6,
    /// The caller is known but lacks the permission.
    PermissionDenied = 7,
    /// A quota, a limit or memory is exhausted.
    ResourceExhausted = 8,
    /// The system is not in the state that the call needs; a retry alone does not help.
    FailedPrecondition = 9,
    /// A conflict with another operation; the caller may repeat its whole sequence.
    Aborted = 10,
    /// A position beyond the valid range.
    OutOfRange = 11,
    /// The server does not have the method, or not in this form.
    Unimplemented = 12,
    /// An internal invariant was violated: a defect.
    Internal = 13,
    /// The service cannot be reached or takes no calls now; a retry may help.
    Unavailable = 14,
    /// Data is lost or corrupt beyond repair.
    DataLoss = 15,
    /// The caller is not authenticated.
    Unauthenticated = 16,
}

impl Code {
    /// Returns the code with this number on the wire; [`Code::Unknown`] for an unknown number.
    pub const fn from_wire(number: u8) -> Self {
        match ALL.len() > number as usize {
            true => ALL[number as usize],
            false => Self::Unknown,
        }
    }

    /// Returns the number on the wire.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Returns the name in capitals, as in gRPC's documents: `NOT_FOUND`.
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
    fn numbers_are_read_back_and_others_are_unknown() {
        for number in 0..=u8::MAX {
            let code = Code::from_wire(number);
            let expected = if number <= 16 { number } else { Code::Unknown.number() };
            assert_eq!(code.number(), expected, "{number}");
        }
        assert_eq!(format!("{:>10}", Code::NotFound), " NOT_FOUND");
        assert_eq!(Code::from_wire(16).name(), "UNAUTHENTICATED");
    }
}
