//! Numbers of errors, and their labels.

/// Numbers of errors that mean a duplicate key.
pub(super) const DUPLICATE_KEY: [i32; 3] = [11000, 11001, 12582];

/// Numbers of errors that come in the middle of a command: its time is over, somebody has killed it, its server stops or
/// is no primary any more, or a router has lost the server that was at work. Servers label only those of writes that
/// are numbered.
pub(super) const INTERRUPTED: [i32; 13] =
    [6, 7, 24, 50, 64, 89, 91, 189, 262, 9001, 11600, 11601, 11602];

/// Numbers of errors that pass with the state of the server: the retryable ones of the specification of retryable
/// reads.
pub(super) const PASSING: [i32; 13] =
    [6, 7, 89, 91, 134, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436];

/// Numbers of errors after which a write may be sent again, of servers before MongoDB 4.4: the specification of
/// retryable writes has them.
pub(super) const RETRYABLE_WRITES: [i32; 12] =
    [6, 7, 89, 91, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436];

/// The number of the error for a command on which the server has worked as long as it may.
pub(super) const TIME_EXCEEDED: i32 = 50;

/// The number of the error for a collection that is not there.
pub(super) const NAMESPACE_NOT_FOUND: i32 = 26;

/// The number of the error for a cursor that the server has not.
pub(super) const CURSOR_NOT_FOUND: i32 = 43;

/// Numbers of errors after which a change stream goes on, of servers before MongoDB 4.4, which do not label them.
pub(super) const RESUMABLE: [i32; 17] =
    [6, 7, 63, 89, 91, 133, 150, 189, 234, 262, 9001, 10107, 11600, 11602, 13388, 13435, 13436];

/// What servers and clients say of errors in a word.
pub(super) mod labels {
    pub(crate) const RETRYABLE_WRITE: &str = "RetryableWriteError";
    pub(crate) const RETRYABLE: &str = "RetryableError";
    pub(crate) const OVERLOADED: &str = "SystemOverloadedError";
    pub(crate) const NOTHING_WRITTEN: &str = "NoWritesPerformed";
    pub(crate) const TRANSIENT: &str = "TransientTransactionError";
    pub(crate) const UNKNOWN_COMMIT: &str = "UnknownTransactionCommitResult";
    pub(crate) const RESUMABLE: &str = "ResumableChangeStreamError";
}
