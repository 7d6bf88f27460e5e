//! `update`

use std::future::IntoFuture;
use std::rc::Rc;

use bson::{Bson, RawBsonRef, RawDocument, RawDocumentBuf};
use ringway_wire::mongo::MongoFault;

use super::{Running, write_reply};
use crate::client_core::Slot;
use crate::collection_shared::{CollectionShared, CommandKind};
use crate::connection::unsendable;
use crate::error::{Error, Result};

/// A change of documents, made by [`Collection::update_one`](crate::Collection::update_one) and its siblings.
/// Await it to have it done.
#[must_use = "an action does nothing until it is awaited"]
pub struct Update {
    shared: Rc<CollectionShared>,
    filter: Result<RawDocumentBuf>,
    update: Result<RawDocumentBuf>,
    is_multi: bool,
    is_upsert: bool,
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
        shared: Rc<CollectionShared>,
        filter: Result<RawDocumentBuf>,
        update: Result<RawDocumentBuf>,
        is_multi: bool,
    ) -> Self {
        Self { shared, filter, update, is_multi, is_upsert: false }
    }

    /// Sets whether a document is written if none matches; false by default.
    pub fn upsert(mut self, is_upsert: bool) -> Self {
        self.is_upsert = is_upsert;
        self
    }

    async fn run(self) -> Result<UpdateResult> {
        let (filter, update) = (self.filter?, self.update?);
        let template = self.shared.template(CommandKind::Update);
        let write = |slot: Slot<'_>| {
            let mut sequence = slot.begin(template).sequence("updates");
            sequence.with(|statement| {
                statement.document("q", &filter);
                statement.document("u", &update);
                statement.bool("multi", self.is_multi);
                statement.bool("upsert", self.is_upsert);
            });
            sequence.finish().map(drop).map_err(unsendable)
        };
        self.shared.core.run(write, |answer| UpdateResult::of(answer.body())).await
    }
}

impl UpdateResult {
    fn of(body: &RawDocument) -> Result<Self> {
        write_reply::check(body)?;
        let upserted_id = upserted_id(body).map_err(Error::reply)?;
        let touched = write_reply::count(body, "n");
        let upserted = u64::from(upserted_id.is_some());
        Ok(Self {
            matched: touched.saturating_sub(upserted),
            modified: write_reply::count(body, "nModified"),
            upserted_id,
        })
    }
}

fn upserted_id(body: &RawDocument) -> Result<Option<Bson>, MongoFault> {
    let wrong = || MongoFault::Field("upserted");
    let Some(upserted) = body.get("upserted").map_err(|_| wrong())? else { return Ok(None) };
    let Some(first) = upserted.as_array().ok_or_else(wrong)?.into_iter().next() else {
        return Ok(None);
    };
    let entry = first.ok().and_then(RawBsonRef::as_document).ok_or_else(wrong)?;
    let id = entry.get("_id").ok().flatten().ok_or_else(wrong)?;
    Bson::try_from(id).map(Some).map_err(|_| wrong())
}

impl IntoFuture for Update {
    type Output = Result<UpdateResult>;
    type IntoFuture = Running<UpdateResult>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
