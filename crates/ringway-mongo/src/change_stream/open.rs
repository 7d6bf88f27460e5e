//! The command that opens a stream.

use std::sync::Arc;
use std::time::Duration;

use bson::{Bson, RawDocumentBuf};
use ringway_runtime::sleep;
use ringway_wire::mongo::CursorReply;

use crate::client_core::{Attempt, Purpose, ReadConcernOf, Slot};
use crate::client_shared::ClientShared;
use crate::collection_shared::Concerns;
use crate::connection::Answer;
use crate::cursor::{BatchTime, Cursor, Place};
use crate::error::{Error, Fate, Kind, Result};
use crate::running::{OnCore, Operation};
use crate::session::{KeptSession, Session, UsedSession};

/// Opens a stream, or opens it again.
pub(super) struct OpenStream {
    pub(super) client: Arc<ClientShared>,
    /// The time before it begins.
    pub(super) pause: Duration,
    pub(super) database: Arc<str>,
    pub(super) command: Result<RawDocumentBuf>,
    pub(super) batch_size: Option<u32>,
    pub(super) comment: Option<Bson>,
    pub(super) max_await: Option<Duration>,
    /// The time of opening it, and of each batch, if it is another one than the client's.
    pub(super) time: Option<Duration>,
    /// Those of its collection, or of the client.
    pub(super) concerns: Concerns,
    /// The session of the user, if it runs in one.
    pub(super) session: Option<Arc<KeptSession>>,
}

impl Operation for OpenStream {
    type Output = Cursor<RawDocumentBuf>;

    fn client(&self) -> &Arc<ClientShared> {
        &self.client
    }

    async fn run(self, OnCore(core): OnCore) -> Result<Self::Output> {
        let Self { client, database, command, batch_size, comment, max_await, time, .. } = self;
        let (concerns, session) = (self.concerns, self.session);
        if !self.pause.is_zero() {
            sleep(self.pause).await;
        }
        let command = command?;
        let mut session = match session {
            Some(kept) => core.kept_session(&kept)?,
            None => UsedSession::own(core.session()),
        };
        check(&session)?;
        session.transaction.note_operation();
        let concern = Some(ReadConcernOf(concerns.read.as_ref()));
        let reads = concerns.reads.as_deref();
        let time = core.time(time);
        let attempt = Attempt::new(&mut session, time, Purpose::Read);
        let attempt = Attempt { concern, reads, ..attempt };
        let write = |slot: Slot<'_>| slot.write_any(&command, &database);
        let answer =
            core.run_in(attempt, write, |answer: Answer<'_>| Ok(answer.into_owned())).await?;
        let namespace = CursorReply::of(answer.body()).map_err(Error::reply)?.namespace;
        let collection = namespace.split_once('.').map_or("", |(_, collection)| collection).into();
        let time = BatchTime::Each(time.limit());
        let place = Place {
            batch_size,
            comment,
            max_await,
            time,
            ..Place::new(client, database, collection)
        };
        Cursor::new(&core, place, session, answer)
    }
}

/// # Errors
/// The session has a transaction: servers watch in none.
fn check(session: &Session) -> Result {
    match session.transaction.is_open() {
        false => Ok(()),
        true => {
            let what = "a change stream is none of a transaction: commit or abort it first";
            Err(Error::new(Kind::Options, Fate::NotSent, what))
        }
    }
}
