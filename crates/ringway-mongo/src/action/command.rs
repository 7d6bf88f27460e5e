//! Commands without a template: those of users, and those that are seldom sent.

use std::marker::PhantomData;
use std::sync::Arc;

use bson::RawDocumentBuf;
use bson::raw::cstr;
use ringway_wire::mongo::CursorReply;

use super::write_reply;
use crate::client_core::{Attempt, ClientCore, Purpose};
use crate::client_shared::ClientShared;
use crate::connection::{Answer, OwnedAnswer};
use crate::cursor::{Cursor, Place};
use crate::error::{Error, Result};
use crate::running::{OnCore, Operation, Running};
use crate::session::{KeptSession, UsedSession};
use crate::transaction::ClientSession;

/// A command and what is done with its reply.
pub(crate) struct Command {
    client: Arc<ClientShared>,
    database: Arc<str>,
    command: Result<RawDocumentBuf>,
    purpose: Purpose,
    /// Whether a collection that is not there is an empty list.
    may_be_missing: bool,
    /// The session of the user, if it runs in one.
    pub(super) session: Option<Arc<KeptSession>>,
}

impl Command {
    pub(crate) fn new(
        client: &Arc<ClientShared>,
        database: &Arc<str>,
        command: Result<RawDocumentBuf>,
        purpose: Purpose,
    ) -> Self {
        let (client, database) = (Arc::clone(client), Arc::clone(database));
        Self { client, database, command, purpose, may_be_missing: false, session: None }
    }

    /// Takes a collection that is not there for an empty list.
    pub(crate) fn or_empty(mut self) -> Self {
        self.may_be_missing = true;
        self
    }

    /// The same command with the concern that writes have, if it writes and the server is to know it.
    pub(crate) fn concerned(mut self, concern: Option<&RawDocumentBuf>) -> Self {
        if let (Purpose::WriteOnce, Ok(command), Some(concern)) =
            (self.purpose, &mut self.command, concern)
        {
            command.append(cstr!("writeConcern"), concern);
        }
        self
    }

    pub(crate) fn set_session(&mut self, session: &ClientSession) {
        self.session = Some(Arc::clone(session.kept()));
    }

    /// Runs it, and returns the reply.
    pub(crate) fn reply(self) -> Running<CommandReplied> {
        Running::new(CommandReplied(self))
    }

    /// Runs it, and returns the cursor of the reply.
    pub(crate) fn cursor<T: 'static>(self) -> Running<CommandCursor<T>> {
        Running::new(CommandCursor { command: self, documents: PhantomData })
    }
}

/// The session of the user, or one of the command's own.
fn used_session(core: &ClientCore, kept: Option<Arc<KeptSession>>) -> Result<UsedSession> {
    let Some(kept) = kept else { return Ok(UsedSession::own(core.session())) };
    let mut session = core.kept_session(&kept)?;
    session.transaction.note_operation();
    Ok(session)
}

impl Running<CommandReplied> {
    /// Sets the session that it runs in, and the transaction of that session if one was started.
    pub fn session(self, session: &ClientSession) -> Self {
        self.with(|operation| operation.0.set_session(session))
    }
}

impl<T: 'static> Running<CommandCursor<T>> {
    /// Sets the session that it runs in, and the transaction of that session if one was started.
    pub fn session(self, session: &ClientSession) -> Self {
        self.with(|operation| operation.command.set_session(session))
    }
}

/// A command whose reply is returned.
pub struct CommandReplied(Command);

impl Operation for CommandReplied {
    type Output = RawDocumentBuf;

    fn client(&self) -> &Arc<ClientShared> {
        &self.0.client
    }

    async fn run(self, OnCore(core): OnCore) -> Result<RawDocumentBuf> {
        let Command { command, database, purpose, session, .. } = self.0;
        let command = command?;
        let mut session = used_session(&core, session)?;
        let write = |slot: crate::client_core::Slot<'_>| slot.write_any(&command, &database);
        let keep = |answer: Answer<'_>| {
            if purpose == Purpose::WriteOnce {
                write_reply::check(answer.body())?;
            }
            Ok(answer.body().to_owned())
        };
        let attempt = Attempt::new(&mut session, core.timeout().into(), purpose);
        core.run_in(attempt, write, keep).await
    }
}

/// A command whose reply has a cursor.
pub struct CommandCursor<T> {
    command: Command,
    documents: PhantomData<fn() -> T>,
}

impl<T: 'static> Operation for CommandCursor<T> {
    type Output = Cursor<T>;

    fn client(&self) -> &Arc<ClientShared> {
        &self.command.client
    }

    async fn run(self, OnCore(core): OnCore) -> Result<Cursor<T>> {
        let Command { client, command, database, purpose, may_be_missing, session } = self.command;
        let command = command?;
        let mut session = used_session(&core, session)?;
        let attempt = Attempt::new(&mut session, core.timeout().into(), purpose);
        let write = |slot: crate::client_core::Slot<'_>| slot.write_any(&command, &database);
        let keep = |answer: Answer<'_>| {
            if purpose == Purpose::WriteOnce {
                write_reply::check(answer.body())?;
            }
            Ok(answer.into_owned())
        };
        let answer = match core.run_in(attempt, write, keep).await {
            Err(error) if may_be_missing && error.is_missing_namespace() => OwnedAnswer::no_batch(),
            answer => answer?,
        };
        let namespace = CursorReply::of(answer.body()).map_err(Error::reply)?.namespace;
        let collection = namespace.split_once('.').map_or("", |(_, collection)| collection).into();
        let place = Place::new(client, database, collection);
        Cursor::new(&core, place, session, answer)
    }
}
