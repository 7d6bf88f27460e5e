//! The command that opens a stream.

use std::sync::Arc;
use std::time::Duration;

use bson::{Bson, RawDocumentBuf};
use ringway_wire::mongo::CursorReply;

use crate::client_core::{Attempt, Purpose, Slot};
use crate::client_shared::ClientShared;
use crate::connection::Answer;
use crate::cursor::{Cursor, Place};
use crate::error::{Error, Result};
use crate::running::{OnCore, Operation};
use crate::session::UsedSession;

/// Opens a stream, or opens it again.
pub(super) struct OpenStream {
    pub(super) client: Arc<ClientShared>,
    pub(super) database: Arc<str>,
    pub(super) command: Result<RawDocumentBuf>,
    pub(super) batch_size: Option<u32>,
    pub(super) comment: Option<Bson>,
    pub(super) max_await: Option<Duration>,
}

impl Operation for OpenStream {
    type Output = Cursor<RawDocumentBuf>;

    fn client(&self) -> &Arc<ClientShared> {
        &self.client
    }

    async fn run(self, OnCore(core): OnCore) -> Result<Self::Output> {
        let Self { client, database, command, batch_size, comment, max_await } = self;
        let command = command?;
        let mut session = UsedSession::own(core.session());
        let attempt = Attempt::new(&mut session, core.timeout().into(), Purpose::Read);
        let write = |slot: Slot<'_>| slot.write_any(&command, &database);
        let answer =
            core.run_in(attempt, write, |answer: Answer<'_>| Ok(answer.into_owned())).await?;
        let namespace = CursorReply::of(answer.body()).map_err(Error::reply)?.namespace;
        let collection = namespace.split_once('.').map_or("", |(_, collection)| collection).into();
        let place =
            Place { batch_size, comment, max_await, ..Place::new(client, database, collection) };
        Cursor::new(&core, place, session, answer)
    }
}
