//! The error of this crate.

mod codes;
mod derived;
mod overload;
mod server_error;

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use bson::{RawDocument, RawDocumentBuf};
use ringway_wire::mongo::{MongoFault, ScramFault, ServerFailure};

use crate::bulk_failure::BulkFailure;
use crate::topology::StateChange;

use self::codes::{
    CURSOR_NOT_FOUND, DUPLICATE_KEY, INTERRUPTED, NAMESPACE_NOT_FOUND, PASSING, RESUMABLE,
    RETRYABLE_WRITES, TIME_EXCEEDED, labels,
};
pub use self::server_error::ServerError;

/// The result type of this crate.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

/// Why an operation has failed.
///
/// The message says what failed and at which server. [`may_have_happened`](Self::may_have_happened) says
/// whether a write may have been executed all the same.
pub struct Error(Box<Inner>);

struct Inner {
    kind: Kind,
    /// What failed, on which object, and what to do about it.
    what: String,
    fate: Fate,
    server: Option<ServerError>,
    bulk: Option<BulkFailure>,
    source: Option<Source>,
    /// What the server says of its own state.
    state_change: Option<StateChange>,
    /// Labels of the client itself.
    labels: Vec<&'static str>,
    /// The reply of a server that has refused the command or a write.
    reply: Option<RawDocumentBuf>,
    /// Whether the write was done all the same, and was only not confirmed as its concern demands.
    is_done: bool,
    /// What an overloaded server says of the pause before another try.
    backoff: Option<Duration>,
}

type Source = Box<dyn StdError + Send + Sync>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The connection could not be made, or broke.
    Network,
    Timeout,
    /// The connection could not be made in time.
    ConnectTimeout,
    Authentication,
    /// The server answered with an error.
    Command,
    /// A write inside of a command failed.
    Write,
    /// The server broke the protocol.
    Protocol,
    /// The server cannot do what was asked for.
    Incompatible,
    /// A document could not be encoded or decoded.
    Document,
    /// An option contradicts another one or has an impossible value.
    Options,
    Limit,
    /// What was asked for by name or `_id` is not there.
    NotFound,
    /// What ran the operation has ended.
    Ended,
}

/// What has become of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// No byte of it was sent.
    NotSent,
    /// It was sent, and no reply came.
    Unknown,
    /// The server answered.
    Answered,
}

impl Error {
    pub(crate) fn new(kind: Kind, fate: Fate, what: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            what: what.into(),
            fate,
            server: None,
            bulk: None,
            source: None,
            state_change: None,
            labels: Vec::new(),
            reply: None,
            is_done: false,
            backoff: None,
        }))
    }

    pub(crate) fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    pub(crate) fn network(fate: Fate, what: impl Into<String>, source: ringway_net::Error) -> Self {
        // When the kernel gives a connection up, nobody's time is over: it broke.
        let is_timeout = source.is_timeout() && fate == Fate::NotSent;
        let kind = if is_timeout { Kind::ConnectTimeout } else { Kind::Network };
        Self::new(kind, fate, what).with_source(source)
    }

    pub(crate) fn protocol(fault: MongoFault) -> Self {
        let what = "the server broke the protocol, and the connection was closed";
        Self::new(Kind::Protocol, Fate::Unknown, what).with_source(fault)
    }

    /// A reply that came whole and is not what its command is answered with.
    pub(crate) fn reply(fault: MongoFault) -> Self {
        let what = "the server's reply is not one to this command";
        Self::new(Kind::Protocol, Fate::Answered, what).with_source(fault)
    }

    pub(crate) fn encoding(source: impl Into<Source>) -> Self {
        Self::new(Kind::Document, Fate::NotSent, "a document cannot be encoded").with_source(source)
    }

    pub(crate) fn decoding(source: impl Into<Source>) -> Self {
        let what = "a document of the server does not have the expected form";
        Self::new(Kind::Document, Fate::Answered, what).with_source(source)
    }

    pub(crate) fn timeout(limit: Duration, fate: Fate) -> Self {
        let stage = match fate {
            Fate::NotSent => "before it was sent: no connection was free or could be made",
            _ => "after it was sent: no reply came",
        };
        Self::new(Kind::Timeout, fate, format!("the operation took longer than {limit:?}, {stage}"))
    }

    pub(crate) fn command(failure: ServerFailure<'_>) -> Self {
        let mut error = Self::of_server(Kind::Command, "the server refused the command", failure);
        error.0.state_change = StateChange::of(failure.document());
        error.0.backoff = overload::backoff_of(failure.document());
        error
    }

    /// The error of a write that its servers could not confirm, if it may be sent again. Without labels, its number
    /// says so.
    pub(crate) fn unconfirmed(reply: &RawDocument, has_labels: bool) -> Result<Option<Self>> {
        let failure = ServerFailure::of_write_concern(reply).map_err(Self::reply)?;
        let is_retryable = failure.is_some_and(|failure| match has_labels {
            true => failure.has_label(labels::RETRYABLE_WRITE),
            false => RETRYABLE_WRITES.contains(&failure.code()),
        });
        Ok(failure.filter(|_| is_retryable).map(|failure| {
            let mut error = Self::unconfirmed_write(failure);
            error.0.state_change = StateChange::of(reply);
            error.mark(labels::RETRYABLE_WRITE);
            error
        }))
    }

    pub(crate) fn kind(&self) -> Kind {
        self.0.kind
    }

    /// Whether no byte of the command was sent.
    pub(crate) fn is_unsent(&self) -> bool {
        self.0.fate == Fate::NotSent
    }

    /// Labels the failure of a numbered write that may be sent again: of every one whose connection broke, and of a
    /// refusal by a server that does not label it itself.
    ///
    /// Specification: Retryable Writes, "RetryableWriteError Labels".
    pub(crate) fn label(&mut self, server_labels: bool) {
        let is_retryable = match (self.0.kind, &self.0.server) {
            (Kind::Network | Kind::ConnectTimeout, _) => true,
            (Kind::Command, Some(server)) => {
                !server_labels && RETRYABLE_WRITES.contains(&server.code)
            }
            _ => false,
        };
        if is_retryable {
            self.mark(labels::RETRYABLE_WRITE);
        }
    }

    fn mark(&mut self, label: &'static str) {
        if !self.has_label(label) {
            self.0.labels.push(label);
        }
    }

    pub(crate) fn state_change(&self) -> Option<&StateChange> {
        self.0.state_change.as_ref()
    }

    pub(crate) fn write(failure: ServerFailure<'_>) -> Self {
        Self::of_server(Kind::Write, "a write failed", failure)
    }

    /// A write that was done, and is not confirmed as its write concern demands.
    pub(crate) fn unconfirmed_write(failure: ServerFailure<'_>) -> Self {
        let mut error = Self::write(failure);
        error.0.is_done = true;
        error
    }

    /// Whether the server has refused a write, of which nothing was done.
    pub(crate) fn is_refused_write(&self) -> bool {
        self.0.kind == Kind::Write && !self.0.is_done
    }

    /// Some of many writes have failed. The message has the first.
    pub(crate) fn bulk_write(done: BulkFailure, writes: usize) -> Self {
        let failed = done.write_errors.len();
        let what = match done.write_errors.first() {
            Some(first) => {
                format!("{failed} of {writes} writes failed, the first at position {}", first.index)
            }
            None => "the writes are done, but not confirmed as their write concern demands".into(),
        };
        let mut error = Self::new(Kind::Write, Fate::Answered, what);
        let first = done.write_errors.first().or_else(|| done.write_concern_errors.first());
        error.0.server = first.cloned();
        error.with_bulk(done)
    }

    /// Notes what many writes had done before this error.
    pub(crate) fn with_bulk(mut self, done: BulkFailure) -> Self {
        self.0.bulk = Some(done);
        self
    }

    pub(crate) fn authentication(fault: ScramFault) -> Self {
        let what = "cannot authenticate: check user, password and authSource";
        Self::new(Kind::Authentication, Fate::NotSent, what).with_source(fault)
    }

    pub(crate) fn into_kind(mut self, kind: Kind) -> Self {
        self.0.kind = kind;
        self
    }

    fn of_server(kind: Kind, what: &str, failure: ServerFailure<'_>) -> Self {
        let mut error = Self::new(kind, Fate::Answered, what);
        error.0.server = Some(ServerError::of(failure));
        error.0.reply = Some(failure.reply().to_owned());
        error
    }

    pub(crate) fn fate(mut self, fate: Fate) -> Self {
        self.0.fate = fate;
        self
    }

    /// Whether the server may have executed the write, or a part of it. It is false only if no byte was
    /// sent, or if the server said that it did nothing.
    #[must_use]
    pub fn may_have_happened(&self) -> bool {
        match (self.0.fate, self.0.kind) {
            _ if self.0.bulk.as_ref().is_some_and(|done| !done.is_nothing()) => true,
            (Fate::NotSent, _) => false,
            (Fate::Unknown, _) => true,
            (Fate::Answered, Kind::Command) => self.0.server.as_ref().is_some_and(may_have_run),
            (Fate::Answered, _) => true,
        }
    }

    /// Whether the time of the operation, or of connecting, has passed, here or at the server.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        let is_of_server = || self.server().is_some_and(|error| error.code == TIME_EXCEEDED);
        matches!(self.0.kind, Kind::Timeout | Kind::ConnectTimeout) || is_of_server()
    }

    /// Whether no connection could be made, also not in time, or it broke, or there was no server that suits.
    #[must_use]
    pub fn is_network(&self) -> bool {
        matches!(self.0.kind, Kind::Network | Kind::ConnectTimeout)
    }

    /// Whether the server, or this client, did not accept the other's credentials.
    #[must_use]
    pub fn is_authentication(&self) -> bool {
        self.0.kind == Kind::Authentication
    }

    /// Whether the server broke the protocol.
    #[must_use]
    pub fn is_protocol(&self) -> bool {
        self.0.kind == Kind::Protocol
    }

    /// Whether a document could not be encoded or decoded; the cause names the field.
    #[must_use]
    pub fn is_document(&self) -> bool {
        self.0.kind == Kind::Document
    }

    /// Whether options contradict each other or have impossible values.
    #[must_use]
    pub fn is_options(&self) -> bool {
        self.0.kind == Kind::Options
    }

    /// Whether a bound was reached, such as the length of a message.
    #[must_use]
    pub fn is_limit(&self) -> bool {
        self.0.kind == Kind::Limit
    }

    /// Whether what was asked for by its name or `_id`, such as a file of GridFS, is not there.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.0.kind == Kind::NotFound
    }

    /// Whether a write would have made a second document of the same key.
    #[must_use]
    pub fn is_duplicate_key(&self) -> bool {
        self.server().is_some_and(|error| DUPLICATE_KEY.contains(&error.code))
    }

    /// What the server said, if it answered with an error.
    #[must_use]
    pub fn server(&self) -> Option<&ServerError> {
        self.0.server.as_ref()
    }

    /// The whole reply of a server that has refused the command, or the only write in it. It has all that
    /// [`server`](Self::server) leaves out.
    #[must_use]
    pub fn server_reply(&self) -> Option<&RawDocument> {
        self.0.reply.as_deref()
    }

    /// What has become of the writes of [`bulk_write`](crate::Collection::bulk_write) and
    /// [`insert_many`](crate::Collection::insert_many): all that failed, and what was done before or all the
    /// same. With any other kind of error, such as a connection that broke, the writes that were sent last may
    /// have happened too.
    #[must_use]
    pub fn bulk(&self) -> Option<&BulkFailure> {
        self.0.bulk.as_ref()
    }

    /// Whether the server or the client has given the error a label, such as `RetryableWriteError`,
    /// `TransientTransactionError` or `SystemOverloadedError`.
    #[must_use]
    pub fn has_label(&self, label: &str) -> bool {
        self.0.labels.contains(&label) || self.server().is_some_and(|error| error.has_label(label))
    }

    /// Whether the transaction of the operation may succeed when all of it is run again, as
    /// [`with_transaction`](crate::ClientSession::with_transaction) does.
    #[must_use]
    pub fn is_transient_transaction(&self) -> bool {
        self.has_label(labels::TRANSIENT)
    }

    /// Whether the transaction may have been committed although its commit failed. It can be committed again.
    #[must_use]
    pub fn is_unknown_commit(&self) -> bool {
        self.has_label(labels::UNKNOWN_COMMIT)
    }

    /// Whether a change stream goes on elsewhere after its next batch has failed so.
    pub(crate) fn is_resumable(&self) -> bool {
        let is_gone = self.server().is_some_and(|error| error.code == CURSOR_NOT_FOUND);
        self.is_network()
            || self.0.kind == Kind::Command && (is_gone || self.has_label(labels::RESUMABLE))
    }

    /// Labels what servers before MongoDB 4.4 answer for the next batch of a cursor, as later ones do by themselves.
    ///
    /// Specification: Change Streams, "Resumable Error".
    pub(crate) fn label_resumable(&mut self) {
        if self.server().is_some_and(|error| RESUMABLE.contains(&error.code)) {
            self.mark(labels::RESUMABLE);
        }
    }

    /// Whether the server says that a collection is not there.
    pub(crate) fn is_missing_namespace(&self) -> bool {
        self.server().is_some_and(|error| error.code == NAMESPACE_NOT_FOUND)
    }

    pub(crate) fn mark_transient(&mut self) {
        self.mark(labels::TRANSIENT);
    }

    pub(crate) fn mark_unknown_commit(&mut self) {
        self.mark(labels::UNKNOWN_COMMIT);
    }

    /// Whether the command was answered, and a write in it failed or was not confirmed.
    pub(crate) fn is_write(&self) -> bool {
        self.0.kind == Kind::Write
    }

    /// Whether a read that failed so may succeed when it is sent again.
    pub(crate) fn allows_another_read(&self) -> bool {
        match self.0.kind {
            Kind::Network | Kind::ConnectTimeout => true,
            Kind::Command => self.server().is_some_and(|error| PASSING.contains(&error.code)),
            _ => false,
        }
    }

    /// Whether a write that failed so is executed once if it is sent again under its number.
    pub(crate) fn allows_another_write(&self) -> bool {
        match self.0.kind {
            Kind::Network | Kind::ConnectTimeout => true,
            Kind::Command | Kind::Write => {
                self.has_label(labels::RETRYABLE_WRITE) || self.has_label(labels::RETRYABLE)
            }
            _ => false,
        }
    }

    /// The error of an operation that failed twice: the one that says more, and what both say of its fate.
    pub(crate) fn after(self, earlier: Self) -> Self {
        if self.server().is_some_and(|error| error.has_label(labels::NOTHING_WRITTEN)) {
            return earlier;
        }
        match (self.0.fate, self.may_have_happened(), earlier.may_have_happened()) {
            // "Once the timeout expires, a timeout error MUST be raised."
            (Fate::NotSent, ..) if self.0.kind == Kind::Timeout => self.because_of(earlier),
            (Fate::NotSent, ..) => earlier,
            (_, false, true) => self.fate(Fate::Unknown),
            _ => self,
        }
    }

    /// Whether the command was sent, and the server may be at work on it still.
    pub(crate) fn is_open(&self) -> bool {
        self.0.fate == Fate::Unknown
    }

    /// Whether other operations on the same connection are lost with this one.
    pub(crate) fn breaks_connection(&self) -> bool {
        matches!(self.0.kind, Kind::Network | Kind::Protocol) && self.0.fate == Fate::Unknown
    }
}

/// Whether a command may have been executed in part before it failed. An overloaded server has not begun with what it says
/// can be tried again.
fn may_have_run(error: &ServerError) -> bool {
    if error.has_label(labels::OVERLOADED) && error.has_label(labels::RETRYABLE) {
        return false;
    }
    error.has_label(labels::RETRYABLE_WRITE)
        || error.has_label(labels::RETRYABLE)
        || INTERRUPTED.contains(&error.code)
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.what)?;
        if let Some(server) = &self.0.server {
            write!(f, ": {} (code {}", server.message, server.code)?;
            if !server.code_name.is_empty() {
                write!(f, ", {}", server.code_name)?;
            }
            f.write_str(")")?;
        }
        if let Some(source) = &self.0.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({self})", self.0.kind)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref().map(|source| &**source as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;
    use ringway_wire::mongo::CommandReply;

    use super::*;

    #[test]
    fn command_that_was_interrupted_may_have_happened_in_part() {
        for (code, may) in [(13, false), (26, false), (50, true), (11601, true), (11602, true)] {
            let body = rawdoc! { "ok": 0.0, "code": code, "errmsg": "as the test wants" };
            let Ok(CommandReply::Failed(failure)) = CommandReply::of(&body) else {
                panic!("it failed");
            };
            assert_eq!(Error::command(failure).may_have_happened(), may, "{code}");
        }
    }
}
