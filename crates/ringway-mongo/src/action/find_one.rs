//! `find` for one document

use std::marker::PhantomData;
use std::sync::Arc;

use bson::{RawBsonRef, RawDocumentBuf};
use ringway_wire::mongo::{CommandWriter, CursorReply, MongoFault};
use serde::de::DeserializeOwned;

use super::settings::{Settings, awaitable, option};
use crate::client_core::Purpose;
use crate::client_shared::ClientShared;
use crate::collection_shared::{CollectionShared, CommandKind};
use crate::connection::Answer;
use crate::decode::decode;
use crate::error::{Error, Result};
use crate::raw_argument::IntoRaw;
use crate::running::{OnCore, Operation};

/// A query for one document, made by [`Collection::find_one`](crate::Collection::find_one). Awaiting it
/// returns the first that matches, or `None`.
#[must_use = "an action does nothing until it is awaited"]
pub struct FindOne<T> {
    settings: Settings,
    filter: Result<RawDocumentBuf>,
    documents: PhantomData<fn() -> T>,
}

impl<T> FindOne<T> {
    pub(crate) fn new(shared: &Arc<CollectionShared>, filter: Result<RawDocumentBuf>) -> Self {
        Self { settings: Settings::new(shared), filter, documents: PhantomData }
    }

    option!(settings.sort);
    option!(settings.projection);
    option!(settings.collation);
    option!(settings.hint);
    option!(settings.let_vars);
    option!(settings.comment);
    option!(settings.max_time);
    option!(settings.read_concern);
    option!(settings.read_preference);
    option!(settings.session);
    option!(settings.timeout);

    /// Sets how many documents are passed over; none by default.
    pub fn skip(mut self, count: u32) -> Self {
        self.settings.fields.set("skip", i64::from(count));
        self
    }
}

impl<T: DeserializeOwned + Send + 'static> Operation for FindOne<T> {
    type Output = Option<T>;

    fn client(&self) -> &Arc<ClientShared> {
        &self.settings.shared.client
    }

    async fn run(mut self, OnCore(core): OnCore) -> Result<Option<T>> {
        let filter = self.filter?;
        let write = |mut find: CommandWriter<'_>| {
            find.document("filter", &filter);
            find.i64("limit", 1);
            find.bool("singleBatch", true);
            find.finish()
        };
        let read = |answer: Answer<'_>| {
            let reply = CursorReply::of(answer.body()).map_err(Error::reply)?;
            let Some(first) = reply.batch.into_iter().next() else { return Ok(None) };
            let document = first.ok().and_then(RawBsonRef::as_document);
            let wrong = || Error::reply(MongoFault::Document("an entry of a batch"));
            decode(document.ok_or_else(wrong)?).map(Some)
        };
        self.settings.run(&core, (CommandKind::Find, Purpose::Read), write, read).await
    }
}

awaitable!(FindOne<T: DeserializeOwned>);
