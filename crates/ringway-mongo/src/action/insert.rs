//! `insert`

use std::sync::Arc;

use bson::oid::ObjectId;
use bson::{Bson, RawDocument, RawDocumentBuf};
use ringway_wire::mongo::CommandWriter;
use serde::Serialize;

use super::bulk_run::{self, BulkStatement};
use super::settings::{Settings, awaitable, option};
use super::write_reply;
use crate::client_core::Purpose;
use crate::client_shared::ClientShared;
use crate::collection_shared::{CollectionShared, CommandKind};
use crate::connection::Answer;
use crate::error::{Error, Result};
use crate::running::{OnCore, Operation};

/// Writes one document, made by [`Collection::insert_one`](crate::Collection::insert_one). Awaiting it returns
/// the document's `_id`.
#[must_use = "an action does nothing until it is awaited"]
pub struct InsertOne {
    settings: Settings,
    document: Result<(RawDocumentBuf, Bson)>,
}

impl InsertOne {
    pub(crate) fn new<T: Serialize>(shared: &Arc<CollectionShared>, document: &T) -> Self {
        Self { settings: Settings::new(shared), document: with_id(document) }
    }

    option!(settings.comment);
    option!(settings.bypass_document_validation);
    option!(settings.write_concern);
    option!(settings.session);
    option!(settings.timeout);
}

impl Operation for InsertOne {
    type Output = Bson;

    fn client(&self) -> &Arc<ClientShared> {
        &self.settings.shared.client
    }

    async fn run(mut self, OnCore(core): OnCore) -> Result<Bson> {
        let (document, id) = self.document?;
        let write = |mut insert: CommandWriter<'_>| {
            insert.bool("ordered", true);
            let mut sequence = insert.sequence("documents");
            sequence.document(&document);
            sequence.finish()
        };
        let read = |answer: Answer<'_>| write_reply::check(answer.body());
        self.settings.run(&core, (CommandKind::Insert, Purpose::Write), write, read).await?;
        Ok(id)
    }
}

awaitable!(InsertOne);

/// Writes several documents, made by [`Collection::insert_many`](crate::Collection::insert_many). Awaiting it
/// returns what was written; an error has all that failed, [`Error::bulk`].
#[must_use = "an action does nothing until it is awaited"]
pub struct InsertMany {
    settings: Settings,
    documents: Result<Vec<RawDocumentBuf>>,
    is_ordered: bool,
}

/// What was written.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct InsertManyResult {
    /// Documents that were written.
    pub inserted: u64,
    /// The `_id` of each document, in their order.
    pub ids: Vec<Bson>,
}

impl InsertMany {
    pub(crate) fn new<'a, T: Serialize + 'a>(
        shared: &Arc<CollectionShared>,
        documents: impl IntoIterator<Item = &'a T>,
    ) -> Self {
        let encode = |document: &T| Ok(with_id(document)?.0);
        let documents = documents.into_iter().map(encode).collect();
        Self { settings: Settings::new(shared), documents, is_ordered: true }
    }

    /// Sets whether the first error ends it; true by default. Otherwise all documents are tried.
    pub fn ordered(mut self, is_ordered: bool) -> Self {
        self.is_ordered = is_ordered;
        self
    }

    option!(settings.comment);
    option!(settings.bypass_document_validation);
    option!(settings.write_concern);
    option!(settings.session);
    option!(settings.timeout);
}

impl Operation for InsertMany {
    type Output = InsertManyResult;

    fn client(&self) -> &Arc<ClientShared> {
        &self.settings.shared.client
    }

    async fn run(mut self, OnCore(core): OnCore) -> Result<InsertManyResult> {
        let statement =
            |document| BulkStatement { kind: CommandKind::Insert, is_multi: false, document };
        let statements: Vec<_> = self.documents?.into_iter().map(statement).collect();
        let (settings, is_ordered) = (&mut self.settings, self.is_ordered);
        let result = bulk_run::run(settings, &core, &statements, is_ordered).await?;
        let id = |statement: &BulkStatement| statement.id();
        Ok(InsertManyResult {
            inserted: result.inserted,
            ids: statements.iter().map(id).collect::<Result<_>>()?,
        })
    }
}

awaitable!(InsertMany);

/// Encodes a document, whose first field is its `_id` unless it has one elsewhere.
pub(crate) fn with_id<T: Serialize>(document: &T) -> Result<(RawDocumentBuf, Bson)> {
    let document = bson::serialize_to_raw_document_buf(document).map_err(Error::encoding)?;
    if let Some(id) = document.get("_id").map_err(Error::encoding)? {
        let id = Bson::try_from(id).map_err(Error::encoding)?;
        return Ok((document, id));
    }
    let id = ObjectId::new();
    Ok((behind_id(id, &document), Bson::ObjectId(id)))
}

/// Bytes of an `_id` with its type and its name.
const ID_FIELD_LEN: usize = 1 + 4 + 12;

fn behind_id(id: ObjectId, document: &RawDocument) -> RawDocumentBuf {
    CommandWriter::document_with_capacity(document.as_bytes().len() + ID_FIELD_LEN, |writer| {
        writer.object_id("_id", id);
        writer.fields(document);
    })
}
