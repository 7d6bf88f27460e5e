//! Commands without a template: those of users, and those that are seldom sent.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use bson::raw::cstr;
use bson::{Bson, Document, RawDocumentBuf};
use ringway_runtime::now_exact;
use ringway_wire::mongo::CursorReply;

use super::write_reply;
use crate::client_core::{Attempt, ClientCore, OperationTime, Purpose, ReadConcernOf};
use crate::client_shared::ClientShared;
use crate::connection::{Answer, OwnedAnswer};
use crate::cursor::{BatchTime, Cursor, Place};
use crate::error::{Error, Fate, Kind, Result};
use crate::reads::Reads;
use crate::running::{OnCore, Operation, Running};
use crate::session::{KeptSession, UsedSession};
use crate::transaction::ClientSession;
use crate::uri::{ReadMode, ReadPreference};
use crate::write_concerns::{has_time, without_time};

/// A command and what is done with its reply.
pub(crate) struct Command {
    client: Arc<ClientShared>,
    database: Arc<str>,
    command: Result<RawDocumentBuf>,
    purpose: Purpose,
    /// Whether a collection that is not there is an empty list.
    may_be_missing: bool,
    /// Its time, if it is another one than the client's.
    time: Option<Duration>,
    /// Which servers may answer, if not those of its purpose.
    reads: Option<Result<Reads>>,
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
        let (may_be_missing, time, reads, session) = (false, None, None, None);
        Self { client, database, command, purpose, may_be_missing, time, reads, session }
    }

    /// Has the primary answer, whatever the client's preference.
    pub(crate) fn at_primary(mut self) -> Self {
        self.reads = Some(Reads::new(&ReadPreference::new(ReadMode::Primary)));
        self
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
            && !matches!(command.get("writeConcern"), Ok(Some(_)))
        {
            command.append(cstr!("writeConcern"), concern);
        }
        self
    }

    /// The same command with a time of its own.
    pub(crate) fn within(mut self, time: Option<Duration>) -> Self {
        self.time = time;
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
        let (batch_size, comment, max_await) = (None, None, None);
        let command = self;
        let documents = PhantomData;
        Running::new(CommandCursor { command, batch_size, comment, max_await, documents })
    }
}

/// The names of what a command lists.
pub(crate) async fn names(listed: Running<CommandCursor<Document>>) -> Result<Vec<String>> {
    let (mut cursor, mut names) = (listed.await?, Vec::new());
    while cursor.advance().await? {
        let name = cursor.current().get_str("name").map_err(Error::decoding)?;
        names.push(name.to_owned());
    }
    Ok(names)
}

/// The command without a time in its write concern, if the time of the operation holds.
fn timeless(command: RawDocumentBuf, time: OperationTime) -> RawDocumentBuf {
    let concern = command.get_document("writeConcern").ok().filter(|it| has_time(it));
    let Some(concern) = concern.filter(|_| time.is_told()) else { return command };
    let mut timeless = RawDocumentBuf::new();
    let others = command.iter().flatten().filter(|(key, _)| key.as_str() != "writeConcern");
    others.for_each(|(key, value)| timeless.append(key, value));
    let concern = without_time(concern);
    concern.into_iter().for_each(|concern| timeless.append(cstr!("writeConcern"), concern));
    timeless
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

    /// Sets which members of a replica set may answer; by default, the primary does. One that cannot be, such as a lag of
    /// the primary, is an error when the command runs, and so is any but the primary in a transaction.
    pub fn read_preference(self, preference: &ReadPreference) -> Self {
        self.with(|operation| operation.0.reads = Some(Reads::new(preference)))
    }

    /// Sets the time of the operation, instead of the client's
    /// ([`ClientOptions::timeout`](crate::ClientOptions::timeout)).
    pub fn timeout(self, limit: Duration) -> Self {
        self.with(|operation| operation.0.time = Some(limit))
    }
}

impl<T: 'static> Running<CommandCursor<T>> {
    /// Sets the session that it runs in, and the transaction of that session if one was started.
    pub fn session(self, session: &ClientSession) -> Self {
        self.with(|operation| operation.command.set_session(session))
    }

    /// Sets how many documents each further batch has; the server's choice by default. That of the first one is in the
    /// command.
    pub fn batch_size(self, count: u32) -> Self {
        self.with(|operation| operation.batch_size = Some(count))
    }

    /// Sets a comment for the server's logs and profiles, for each further batch.
    pub fn comment(self, comment: impl Into<Bson>) -> Self {
        self.with(|operation| operation.comment = Some(comment.into()))
    }

    /// Sets how long the server waits for each further batch, of a command whose cursor waits for news.
    pub fn max_await_time(self, limit: Duration) -> Self {
        self.with(|operation| operation.max_await = Some(limit))
    }

    /// Sets the time of the operation with all batches, instead of the client's
    /// ([`ClientOptions::timeout`](crate::ClientOptions::timeout)).
    pub fn timeout(self, limit: Duration) -> Self {
        self.with(|operation| operation.command.time = Some(limit))
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
        let Command { command, database, purpose, time, reads, session, .. } = self.0;
        let time = core.time(time);
        let (command, reads) = (timeless(command?, time), reads.transpose()?);
        let mut session = used_session(&core, session)?;
        if session.transaction.is_open() && reads.as_ref().is_some_and(Reads::is_elsewhere) {
            let what = "read preference in a transaction must be primary";
            return Err(Error::new(Kind::Options, Fate::NotSent, what));
        }
        let write = |slot: crate::client_core::Slot<'_>| slot.write_any(&command, &database);
        let keep = |answer: Answer<'_>| {
            if purpose == Purpose::WriteOnce {
                write_reply::check(answer.body())?;
            }
            Ok(answer.body().to_owned())
        };
        // A write of the client's own is behind what the session has seen; a command of the user's is left as it is.
        let is_behind = purpose == Purpose::WriteOnce && !session.transaction.is_open();
        let concern = is_behind.then_some(ReadConcernOf(None));
        let attempt = Attempt::new(&mut session, time, purpose);
        core.run_in(Attempt { reads: reads.as_ref(), concern, ..attempt }, write, keep).await
    }
}

/// A command whose reply has a cursor.
pub struct CommandCursor<T> {
    command: Command,
    batch_size: Option<u32>,
    comment: Option<Bson>,
    max_await: Option<Duration>,
    documents: PhantomData<fn() -> T>,
}

impl<T: 'static> Operation for CommandCursor<T> {
    type Output = Cursor<T>;

    fn client(&self) -> &Arc<ClientShared> {
        &self.command.client
    }

    async fn run(self, OnCore(core): OnCore) -> Result<Cursor<T>> {
        let Self { command, batch_size, comment, max_await, documents: _ } = self;
        let Command { client, command, database, purpose, may_be_missing, time, reads, session } =
            command;
        let (command, reads) = (command?, reads.transpose()?);
        let mut session = used_session(&core, session)?;
        let began = now_exact();
        let time = core.time(time);
        let attempt = Attempt::new(&mut session, time, purpose);
        let attempt = Attempt { reads: reads.as_ref(), ..attempt };
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
        let time = BatchTime::of(time, || began);
        let place = Place::new(client, database, collection);
        let place = Place { batch_size, comment, max_await, time, ..place };
        Cursor::new(&core, place, session, answer)
    }
}
