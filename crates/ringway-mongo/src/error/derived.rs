//! Errors that are made of others.

use std::time::Duration;

use super::{Error, Fate, Kind, ServerError};

impl Error {
    /// The time of an operation was over before it was sent; with what is known of the servers.
    pub(crate) fn timeout_before_sending(limit: Duration, servers: &str) -> Self {
        let mut error = Self::timeout(limit, Fate::NotSent);
        error.0.what = format!("{} ({servers})", error.0.what);
        error
    }

    /// The same for those who are told of a command that may have a secret, and for logs: without the server's words.
    ///
    /// Specification: Command Logging and Monitoring, "Security".
    pub(crate) fn redacted(&self) -> Self {
        let mut error = Self::new(self.0.kind, self.0.fate, &*self.0.what);
        error.0.server = self.0.server.as_ref().map(ServerError::redacted);
        error.0.labels.clone_from(&self.0.labels);
        error
    }

    /// The same for an operation of which another command was done, or sent, before.
    pub(crate) fn in_the_middle(self) -> Self {
        if self.may_have_happened() { self } else { self.fate(Fate::Unknown) }
    }

    /// A transaction that has failed, and for whose repetition there is no time. What its failure says is kept, with its labels.
    pub(crate) fn transaction_timeout(limit: Duration, failed: Self) -> Self {
        if failed.is_timeout() {
            return failed;
        }
        let what = format!("the transaction was not committed within {limit:?}");
        Self::new(Kind::Timeout, Fate::NotSent, what).because_of(failed)
    }

    /// The error of an operation whose time was over after it had failed before, and had been tried again.
    pub(crate) fn because_of(mut self, earlier: Self) -> Self {
        if earlier.may_have_happened() {
            self.0.fate = Fate::Unknown;
        }
        self.0.labels.clone_from(&earlier.0.labels);
        self.0.server.clone_from(&earlier.0.server);
        self.with_source(earlier)
    }
}
