//! What a client tells of its commands.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::oid::ObjectId;
use bson::{RawDocument, RawDocumentBuf};
use ringway_runtime::{contain, now_exact};
use ringway_wire::mongo::{CommandWriter, OpMsg};

use crate::connection::{Answer, may_be_shown};
use crate::error::{Error, Fate, Kind, Result};
use crate::uri::HostAddress;

/// A command, at its beginning or its end. See [`ClientOptions::on_command`](crate::ClientOptions::on_command).
///
/// Specification: Command Logging and Monitoring.
#[derive(Debug)]
#[non_exhaustive]
pub struct CommandEvent<'a> {
    /// The name of the command, such as `find`.
    pub name: &'a str,
    /// The database that it is sent to.
    pub database: &'a str,
    /// The number by which its reply is matched. An operation that is sent again has another.
    pub request_id: i32,
    /// The server that it is sent to.
    pub server: &'a HostAddress,
    /// The service behind a load balancer that it is sent to.
    pub service: Option<ObjectId>,
    /// What has happened.
    pub phase: CommandPhase<'a>,
}

/// What has happened to a command. Each that is started succeeds or fails once.
#[derive(Debug)]
#[non_exhaustive]
pub enum CommandPhase<'a> {
    /// It is about to be sent. The document is empty if it may have a secret, such as a password.
    Started {
        /// The whole command, with documents that are sent in a sequence of their own as an array.
        command: &'a RawDocument,
    },
    /// The server has answered, and `ok` is 1. Errors of single writes are in the reply.
    Succeeded {
        /// The reply; empty if the command may have had a secret.
        reply: &'a RawDocument,
        /// The time since it was sent.
        after: Duration,
    },
    /// The server has refused it, its connection broke, or its operation was given up.
    Failed {
        /// Why; without the server's words if the command may have had a secret.
        error: &'a Error,
        /// The time since it was sent.
        after: Duration,
    },
}

type Hear = dyn Fn(&CommandEvent<'_>) + Send + Sync;

/// Who is told of commands.
#[derive(Clone)]
pub(crate) struct CommandObserver(Arc<Hear>);

impl CommandObserver {
    pub(crate) fn new(hear: impl Fn(&CommandEvent<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hear))
    }
}

impl fmt::Debug for CommandObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CommandObserver")
    }
}

/// Who is told of the commands on one connection.
pub(crate) struct ObservedServer {
    observer: CommandObserver,
    server: HostAddress,
    service: Option<ObjectId>,
}

impl ObservedServer {
    pub(crate) fn new(
        observer: &CommandObserver,
        server: &HostAddress,
        service: Option<ObjectId>,
    ) -> Self {
        Self { observer: observer.clone(), server: server.clone(), service }
    }

    /// Of one command, which is told when it begins.
    pub(crate) fn command(&self) -> Observed {
        let (observer, server) = (self.observer.clone(), self.server.clone());
        Observed { observer, server, service: self.service, sent: Cell::new(None) }
    }

    /// Tells of the command that `message` holds, and is about to be sent.
    pub(crate) fn started(&self, request_id: i32, message: &[u8]) -> Observed {
        let observed = self.command();
        observed.started(request_id, message);
        observed
    }
}

/// A command of which an observer is told. Unless it is told the end, it hears at the drop that the operation was given
/// up.
pub(crate) struct Observed {
    observer: CommandObserver,
    server: HostAddress,
    service: Option<ObjectId>,
    sent: Cell<Option<SentCommand>>,
}

struct SentCommand {
    name: String,
    database: String,
    request_id: i32,
    is_secret: bool,
    at: Instant,
}

impl Observed {
    /// Tells of the command that `message` holds.
    pub(crate) fn started(&self, request_id: i32, message: &[u8]) {
        let Ok(read) = OpMsg::read(message) else { return };
        let command = whole(&read);
        let name = command.iter().next().and_then(Result::ok);
        let sent = SentCommand {
            name: name.map_or_else(String::new, |(name, _)| name.as_str().to_owned()),
            database: command.get_str("$db").unwrap_or_default().to_owned(),
            request_id,
            is_secret: !name.is_some_and(|(name, _)| may_be_shown(name.as_str(), &command)),
            at: now_exact(),
        };
        let empty = RawDocumentBuf::new();
        let command = if sent.is_secret { &empty } else { &command };
        self.tell(&sent, CommandPhase::Started { command });
        self.sent.set(Some(sent));
    }

    pub(crate) fn succeeded(&self, reply: &RawDocument) {
        let Some(sent) = self.sent.take() else { return };
        let empty = RawDocumentBuf::new();
        let reply = if sent.is_secret { &empty } else { reply };
        self.tell(&sent, CommandPhase::Succeeded { reply, after: sent.at.elapsed() });
    }

    pub(crate) fn failed(&self, error: &Error) {
        if let Some(sent) = self.sent.take() {
            let redacted = sent.is_secret.then(|| error.redacted());
            let error = redacted.as_ref().unwrap_or(error);
            self.tell(&sent, CommandPhase::Failed { error, after: sent.at.elapsed() });
        }
    }

    /// Tells the end of a command that was answered.
    pub(crate) fn answered(&self, answer: &Result<Answer<'_>>) {
        match answer {
            Ok(answer) => self.succeeded(answer.body()),
            Err(error) => self.failed(error),
        }
    }

    fn tell(&self, sent: &SentCommand, phase: CommandPhase<'_>) {
        let SentCommand { name, database, request_id, .. } = sent;
        let (request_id, server, service) = (*request_id, &self.server, self.service);
        let event = CommandEvent { name, database, request_id, server, service, phase };
        contain("an observer of commands", || (self.observer.0)(&event));
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        let what = "the operation was given up before the reply to its command came";
        self.failed(&Error::new(Kind::Network, Fate::Unknown, what));
    }
}

/// The command as one document.
fn whole(message: &OpMsg<'_>) -> RawDocumentBuf {
    let body = message.body();
    CommandWriter::document_with_capacity(body.as_bytes().len(), |writer| {
        writer.fields(body);
        for sequence in message.sequences() {
            writer.documents(sequence.identifier(), sequence.documents());
        }
    })
}
