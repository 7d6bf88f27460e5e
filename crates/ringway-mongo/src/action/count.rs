//! Counting, by `aggregate` as the specification of CRUD says; the command `count` may be wrong, and is for estimates.

use std::sync::Arc;

use bson::{RawBsonRef, RawDocumentBuf, rawdoc};
use ringway_wire::mongo::{CommandWriter, CursorReply, MongoFault};

use super::settings::{Settings, awaitable, option};
use super::write_reply;
use crate::client_core::Purpose;
use crate::client_shared::ClientShared;
use crate::collection_shared::{CollectionShared, CommandKind};
use crate::connection::Answer;
use crate::error::{Error, Result};
use crate::raw_argument::IntoRaw;
use crate::running::{OnCore, Operation};

/// A count, made by [`Collection::count_documents`](crate::Collection::count_documents). Await it to get the
/// number.
#[must_use = "an action does nothing until it is awaited"]
pub struct Count {
    settings: Settings,
    filter: Result<RawDocumentBuf>,
    skip: Option<i64>,
    limit: Option<i64>,
}

impl Count {
    pub(crate) fn new(shared: &Arc<CollectionShared>, filter: Result<RawDocumentBuf>) -> Self {
        Self { settings: Settings::new(shared), filter, skip: None, limit: None }
    }

    /// Sets how many documents are passed over; none by default.
    pub fn skip(mut self, count: u32) -> Self {
        self.skip = Some(count.into());
        self
    }

    /// Sets up to which number is counted; without end by default.
    pub fn limit(mut self, count: u32) -> Self {
        self.limit = Some(count.into());
        self
    }

    option!(settings.collation);
    option!(settings.hint);
    option!(settings.comment);
    option!(settings.max_time);
    option!(settings.read_concern);
    option!(settings.read_preference);
    option!(settings.session);
    option!(settings.timeout);
}

impl Operation for Count {
    type Output = u64;

    fn client(&self) -> &Arc<ClientShared> {
        &self.settings.shared.client
    }

    async fn run(mut self, OnCore(core): OnCore) -> Result<u64> {
        let skip = self.skip.map(|count| rawdoc! { "$skip": count });
        let limit = self.limit.map(|count| rawdoc! { "$limit": count });
        let count = rawdoc! { "$group": { "_id": 1, "n": { "$sum": 1 } } };
        let stages = [Some(rawdoc! { "$match": self.filter? }), skip, limit, Some(count)];
        let write = |mut aggregate: CommandWriter<'_>| {
            aggregate.documents("pipeline", stages.iter().flatten().map(|stage| &**stage));
            aggregate.nested("cursor", |_defaults| {});
            aggregate.finish()
        };
        let read = |answer: Answer<'_>| {
            let reply = CursorReply::of(answer.body()).map_err(Error::reply)?;
            let first = reply.batch.into_iter().next();
            let group = first.and_then(Result::ok).and_then(RawBsonRef::as_document);
            // Of no document there is no group.
            Ok(group.map_or(0, |group| write_reply::count(group, "n")))
        };
        self.settings.run(&core, (CommandKind::Aggregate, Purpose::Read), write, read).await
    }
}

awaitable!(Count);

/// The number of documents that the server has noted, made by
/// [`Collection::estimated_document_count`](crate::Collection::estimated_document_count).
#[must_use = "an action does nothing until it is awaited"]
pub struct EstimatedCount {
    settings: Settings,
}

impl EstimatedCount {
    pub(crate) fn new(shared: &Arc<CollectionShared>) -> Self {
        Self { settings: Settings::new(shared) }
    }

    option!(settings.comment);
    option!(settings.max_time);
    option!(settings.read_concern);
    option!(settings.read_preference);
    option!(settings.session);
    option!(settings.timeout);
}

impl Operation for EstimatedCount {
    type Output = u64;

    fn client(&self) -> &Arc<ClientShared> {
        &self.settings.shared.client
    }

    async fn run(mut self, OnCore(core): OnCore) -> Result<u64> {
        let read = |answer: Answer<'_>| {
            let has_count = matches!(answer.body().get("n"), Ok(Some(_)));
            match has_count {
                true => Ok(write_reply::count(answer.body(), "n")),
                false => Err(Error::reply(MongoFault::Field("n"))),
            }
        };
        let command = (CommandKind::Count, Purpose::Read);
        self.settings.run(&core, command, |count| count.finish(), read).await
    }
}

awaitable!(EstimatedCount);
