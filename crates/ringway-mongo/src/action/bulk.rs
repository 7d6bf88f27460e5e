//! Many writes at once.

use std::sync::Arc;

use serde::Serialize;

use super::bulk_run::{self, BulkStatement};
use super::delete::delete_statement;
use super::insert::with_id;
use super::settings::{Fields, Settings, awaitable, option};
use super::update::update_statement;
use crate::bulk_failure::BulkWriteResult;
use crate::client_shared::ClientShared;
use crate::collection_shared::{CollectionShared, CommandKind};
use crate::error::{Error, Result};
use crate::raw_argument::{IntoRaw, IntoUpdate, replacement};
use crate::running::{OnCore, Operation};

/// One write of [`Collection::bulk_write`](crate::Collection::bulk_write), or, by
/// [`Collection::model`](crate::Collection::model), of [`Client::bulk_write`](crate::Client::bulk_write).
///
/// ```
/// use bson::doc;
/// use ringway_mongo::WriteModel;
///
/// let writes = [
///     WriteModel::insert_one(&doc! { "_id": 1, "title": "Emma" }),
///     WriteModel::update_one(doc! { "_id": 2 }, doc! { "$inc": { "read": 1 } }).upsert(true),
///     WriteModel::delete_many(doc! { "year": { "$lt": 1800 } }),
/// ];
/// ```
#[must_use = "a write is done by `bulk_write`"]
pub struct WriteModel {
    kind: CommandKind,
    is_multi: bool,
    statement: Fields,
    /// Instead of the statement.
    document: Option<Result<bson::RawDocumentBuf>>,
}

impl WriteModel {
    /// Writes a document, which gets an `_id` if it has none.
    pub fn insert_one<T: Serialize>(document: &T) -> Self {
        let document = with_id(document).map(|(document, _)| document);
        let statement = Fields::default();
        Self { kind: CommandKind::Insert, is_multi: false, statement, document: Some(document) }
    }

    /// Updates the first document that matches a filter.
    pub fn update_one(filter: impl IntoRaw, update: impl IntoUpdate) -> Self {
        let statement = update_statement(filter.into_raw(), update.into_update(), false);
        Self::of(CommandKind::Update, false, statement)
    }

    /// Updates all documents that match a filter.
    pub fn update_many(filter: impl IntoRaw, update: impl IntoUpdate) -> Self {
        let statement = update_statement(filter.into_raw(), update.into_update(), true);
        Self::of(CommandKind::Update, true, statement)
    }

    /// Replaces the first document that matches a filter. The `_id` stays.
    pub fn replace_one<T: Serialize>(filter: impl IntoRaw, document: &T) -> Self {
        let document = bson::serialize_to_raw_document_buf(document).map_err(Error::encoding);
        let document = document.and_then(replacement);
        Self::of(CommandKind::Update, false, update_statement(filter.into_raw(), document, false))
    }

    /// Deletes the first document that matches a filter.
    pub fn delete_one(filter: impl IntoRaw) -> Self {
        Self::of(CommandKind::Delete, false, delete_statement(filter.into_raw(), false))
    }

    /// Deletes all documents that match a filter.
    pub fn delete_many(filter: impl IntoRaw) -> Self {
        Self::of(CommandKind::Delete, true, delete_statement(filter.into_raw(), true))
    }

    fn of(kind: CommandKind, is_multi: bool, statement: Fields) -> Self {
        Self { kind, is_multi, statement, document: None }
    }

    option!(statement.upsert);
    option!(statement.sort);
    option!(statement.array_filters);
    option!(statement.collation);
    option!(statement.hint);

    pub(super) fn into_statement(self) -> Result<BulkStatement> {
        let document = match self.document {
            Some(document) => document?,
            None => self.statement.into_document()?,
        };
        Ok(BulkStatement { kind: self.kind, is_multi: self.is_multi, document })
    }
}

/// Many writes, made by [`Collection::bulk_write`](crate::Collection::bulk_write). Awaiting it returns what they
/// have done; an error has all that failed, and what was done all the same: [`Error::bulk`].
#[must_use = "an action does nothing until it is awaited"]
pub struct BulkWrite {
    settings: Settings,
    statements: Result<Vec<BulkStatement>>,
    is_ordered: bool,
}

impl BulkWrite {
    pub(crate) fn new(
        shared: &Arc<CollectionShared>,
        writes: impl IntoIterator<Item = WriteModel>,
    ) -> Self {
        let statements = writes.into_iter().map(WriteModel::into_statement).collect();
        Self { settings: Settings::new(shared), statements, is_ordered: true }
    }

    /// Sets whether the first error ends it; true by default. Otherwise all writes are tried, and the server may
    /// do them in any order.
    pub fn ordered(mut self, is_ordered: bool) -> Self {
        self.is_ordered = is_ordered;
        self
    }

    option!(settings.let_vars);
    option!(settings.comment);
    option!(settings.bypass_document_validation);
    option!(settings.write_concern);
    option!(settings.session);
    option!(settings.timeout);
}

impl Operation for BulkWrite {
    type Output = BulkWriteResult;

    fn client(&self) -> &Arc<ClientShared> {
        &self.settings.shared.client
    }

    async fn run(mut self, OnCore(core): OnCore) -> Result<BulkWriteResult> {
        let statements = self.statements?;
        bulk_run::run(&mut self.settings, &core, &statements, self.is_ordered).await
    }
}

awaitable!(BulkWrite);
