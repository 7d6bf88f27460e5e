//! `insert`

use std::future::IntoFuture;
use std::rc::Rc;

use bson::oid::ObjectId;
use bson::{Bson, RawDocument, RawDocumentBuf};
use ringway_wire::mongo::CommandWriter;
use serde::Serialize;

use super::{Running, write_reply};
use crate::client_core::Slot;
use crate::collection_shared::{CollectionShared, CommandKind};
use crate::connection::unsendable;
use crate::error::{Error, Result};
use crate::limits::{BATCH_BYTES_MAX, BATCH_WRITES_MAX};

/// Writes one document.
pub(crate) async fn insert_one<T: Serialize>(
    shared: &CollectionShared,
    document: &T,
) -> Result<Bson> {
    let (document, id) = with_id(document)?;
    insert(shared, &[document], true).await?;
    Ok(id)
}

/// Writes several documents, made by [`Collection::insert_many`](crate::Collection::insert_many). Awaiting it
/// returns how many were written.
#[must_use = "an action does nothing until it is awaited"]
pub struct InsertMany {
    shared: Rc<CollectionShared>,
    documents: Result<Vec<RawDocumentBuf>>,
    is_ordered: bool,
}

impl InsertMany {
    pub(crate) fn new<'a, T: Serialize + 'a>(
        shared: Rc<CollectionShared>,
        documents: impl IntoIterator<Item = &'a T>,
    ) -> Self {
        let documents = documents.into_iter().map(|document| Ok(with_id(document)?.0)).collect();
        Self { shared, documents, is_ordered: true }
    }

    /// Sets whether the first error ends it; true by default. Otherwise all documents are tried, and the
    /// first error is returned.
    pub fn ordered(mut self, is_ordered: bool) -> Self {
        self.is_ordered = is_ordered;
        self
    }

    async fn run(self) -> Result<u64> {
        let documents = self.documents?;
        let (mut written, mut first_error, mut rest) = (0, None, &documents[..]);
        while !rest.is_empty() {
            let (batch, behind) = rest.split_at(batch_len(rest));
            let offset = documents.len() - rest.len();
            rest = behind;
            match insert(&self.shared, batch, self.is_ordered).await {
                Ok(count) => written += count,
                Err(error) => {
                    let goes_on = !self.is_ordered && error.is_write();
                    first_error.get_or_insert(error.offset_index(offset));
                    if !goes_on {
                        break;
                    }
                }
            }
        }
        first_error.map_or(Ok(written), Err)
    }
}

impl IntoFuture for InsertMany {
    type Output = Result<u64>;
    type IntoFuture = Running<u64>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

async fn insert(
    shared: &CollectionShared,
    documents: &[RawDocumentBuf],
    is_ordered: bool,
) -> Result<u64> {
    let template = shared.template(CommandKind::Insert);
    let write = |slot: Slot<'_>| {
        let mut insert = slot.begin(template);
        if !is_ordered {
            insert.bool("ordered", false);
        }
        let mut sequence = insert.sequence("documents");
        for document in documents {
            sequence.document(document);
        }
        sequence.finish().map(drop).map_err(unsendable)
    };
    let read = |answer: crate::connection::Answer<'_>| {
        write_reply::check(answer.body())?;
        Ok(write_reply::count(answer.body(), "n"))
    };
    shared.core.run(write, read).await
}

/// How many documents the next command takes: at least one, which may be too long for the server.
fn batch_len(documents: &[RawDocumentBuf]) -> usize {
    let mut bytes = 0;
    let fits = |document: &&RawDocumentBuf| {
        bytes += document.as_bytes().len();
        bytes <= BATCH_BYTES_MAX
    };
    documents.iter().take(BATCH_WRITES_MAX).take_while(fits).count().max(1)
}

/// Encodes a document, whose first field is its `_id` unless it has one elsewhere.
fn with_id<T: Serialize>(document: &T) -> Result<(RawDocumentBuf, Bson)> {
    let document = bson::serialize_to_raw_document_buf(document).map_err(Error::encoding)?;
    if let Some(id) = document.get("_id").map_err(Error::encoding)? {
        let id = Bson::try_from(id).map_err(Error::encoding)?;
        return Ok((document, id));
    }
    let id = ObjectId::new();
    Ok((behind_id(id, &document), Bson::ObjectId(id)))
}

fn behind_id(id: ObjectId, document: &RawDocument) -> RawDocumentBuf {
    CommandWriter::document_of(|writer| {
        writer.object_id("_id", id);
        writer.fields(document);
    })
}
