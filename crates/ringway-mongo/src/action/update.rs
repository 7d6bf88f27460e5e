//! `update`

use std::sync::Arc;

use bson::raw::RawBson;
use bson::{Bson, RawBsonRef, RawDocument, RawDocumentBuf};
use ringway_wire::mongo::{CommandWriter, MongoFault, check_nesting};

use super::explain::{Explain, Verbosity};
use super::settings::{Fields, Settings, awaitable, option};
use super::write_reply;
use crate::client_core::Purpose;
use crate::client_shared::ClientShared;
use crate::collection_shared::{CollectionShared, CommandKind};
use crate::error::{Error, Result};
use crate::raw_argument::{IntoRaw, array};
use crate::running::{OnCore, Operation};

/// A change of documents, made by [`Collection::update_one`](crate::Collection::update_one) and its siblings.
/// Await it to have it done.
#[must_use = "an action does nothing until it is awaited"]
pub struct Update {
    settings: Settings,
    statement: Fields,
    is_multi: bool,
}

/// What an update has done.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct UpdateResult {
    /// Documents that matched the filter.
    pub matched: u64,
    /// Documents that are different now.
    pub modified: u64,
    /// The `_id` of the document that was written because none matched.
    pub upserted_id: Option<Bson>,
}

impl Update {
    pub(crate) fn new(
        shared: &Arc<CollectionShared>,
        filter: Result<RawDocumentBuf>,
        update: Result<RawBson>,
        is_multi: bool,
    ) -> Self {
        let statement = update_statement(filter, update, is_multi);
        Self { settings: Settings::new(shared), statement, is_multi }
    }

    /// Has the server tell how it would execute this, instead of doing it.
    pub fn explain(self, verbosity: Verbosity) -> Explain {
        let mut own = Fields::default();
        own.set_raw("updates", self.statement.into_document().and_then(|it| array([it])));
        Explain::new(self.settings, CommandKind::Update, own, verbosity)
    }

    option!(statement.upsert);
    option!(statement.sort);
    option!(statement.array_filters);
    option!(statement.collation);
    option!(statement.hint);
    option!(settings.let_vars);
    option!(settings.comment);
    option!(settings.bypass_document_validation);
    option!(settings.write_concern);
    option!(settings.session);
    option!(settings.timeout);
}

/// One entry of `updates`.
pub(crate) fn update_statement(
    filter: Result<RawDocumentBuf>,
    update: Result<RawBson>,
    is_multi: bool,
) -> Fields {
    let mut statement = Fields::default();
    statement.set_document("q", filter);
    statement.set_raw("u", update);
    if is_multi {
        statement.set("multi", true);
    }
    statement
}

impl Operation for Update {
    type Output = UpdateResult;

    fn client(&self) -> &Arc<ClientShared> {
        &self.settings.shared.client
    }

    async fn run(mut self, OnCore(core): OnCore) -> Result<UpdateResult> {
        let statement = self.statement.into_document()?;
        let purpose = if self.is_multi { Purpose::WriteOnce } else { Purpose::Write };
        let write = |mut update: CommandWriter<'_>| {
            update.bool("ordered", true);
            let mut sequence = update.sequence("updates");
            sequence.document(&statement);
            sequence.finish()
        };
        let read = |answer: crate::connection::Answer<'_>| UpdateResult::of(answer.body());
        self.settings.run(&core, (CommandKind::Update, purpose), write, read).await
    }
}

impl UpdateResult {
    fn of(body: &RawDocument) -> Result<Self> {
        write_reply::check(body)?;
        let upserted_id = upserted(body).map_err(Error::reply)?.into_iter().next();
        let touched = write_reply::count(body, "n");
        let upserted = u64::from(upserted_id.is_some());
        Ok(Self {
            matched: touched.saturating_sub(upserted),
            modified: write_reply::count(body, "nModified"),
            upserted_id: upserted_id.map(|(_, id)| id),
        })
    }
}

/// The documents that were written because none matched: the position of the write, and `_id`.
pub(crate) fn upserted(body: &RawDocument) -> Result<Vec<(usize, Bson)>, MongoFault> {
    let wrong = || MongoFault::Field("upserted");
    let Some(upserted) = body.get("upserted").map_err(|_| wrong())? else { return Ok(Vec::new()) };
    check_nesting(body)?;
    let entry = |entry: bson::error::Result<RawBsonRef<'_>>| {
        let entry = entry.ok().and_then(RawBsonRef::as_document).ok_or_else(wrong)?;
        let id = entry.get("_id").ok().flatten().ok_or_else(wrong)?;
        let id = Bson::try_from(id).map_err(|_| wrong())?;
        Ok((usize::try_from(write_reply::count(entry, "index")).unwrap_or(usize::MAX), id))
    };
    upserted.as_array().ok_or_else(wrong)?.into_iter().map(entry).collect()
}

awaitable!(Update);
