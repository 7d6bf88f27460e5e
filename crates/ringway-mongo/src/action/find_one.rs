//! `find` for one document

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::rc::Rc;

use bson::{RawBsonRef, RawDocumentBuf};
use ringway_wire::mongo::{CursorReply, MongoFault};
use serde::de::DeserializeOwned;

use super::Running;
use crate::collection_shared::{CollectionShared, CommandKind};
use crate::connection::unsendable;
use crate::cursor::decode;
use crate::error::{Error, Result};
use crate::raw_argument::IntoRaw;

/// A query for one document, made by [`Collection::find_one`](crate::Collection::find_one). Awaiting it
/// returns the first that matches, or `None`.
#[must_use = "an action does nothing until it is awaited"]
pub struct FindOne<T> {
    shared: Rc<CollectionShared>,
    filter: Result<RawDocumentBuf>,
    sort: Option<Result<RawDocumentBuf>>,
    projection: Option<Result<RawDocumentBuf>>,
    documents: PhantomData<fn() -> T>,
}

impl<T> FindOne<T> {
    pub(crate) fn new(shared: Rc<CollectionShared>, filter: Result<RawDocumentBuf>) -> Self {
        Self { shared, filter, sort: None, projection: None, documents: PhantomData }
    }

    /// Sets the order by which the first one is chosen.
    pub fn sort(mut self, order: impl IntoRaw) -> Self {
        self.sort = Some(order.into_raw());
        self
    }

    /// Sets which fields are returned; all by default.
    pub fn projection(mut self, fields: impl IntoRaw) -> Self {
        self.projection = Some(fields.into_raw());
        self
    }
}

impl<T: DeserializeOwned> FindOne<T> {
    async fn run(self) -> Result<Option<T>> {
        let (filter, sort) = (self.filter?, self.sort.transpose()?);
        let projection = self.projection.transpose()?;
        let template = self.shared.template(CommandKind::Find);
        let write = |slot: crate::client_core::Slot<'_>| {
            let mut find = slot.begin(template);
            find.document("filter", &filter);
            for (name, value) in [("sort", &sort), ("projection", &projection)] {
                if let Some(value) = value {
                    find.document(name, value);
                }
            }
            find.i64("limit", 1);
            find.bool("singleBatch", true);
            find.finish().map(drop).map_err(unsendable)
        };
        let read = |answer: crate::connection::Answer<'_>| {
            let reply = CursorReply::of(answer.body()).map_err(Error::reply)?;
            let Some(first) = reply.batch.into_iter().next() else { return Ok(None) };
            let document = first.ok().and_then(RawBsonRef::as_document);
            let wrong = || Error::reply(MongoFault::Document("an entry of a batch"));
            decode(document.ok_or_else(wrong)?).map(Some)
        };
        self.shared.core.run(write, read).await
    }
}

impl<T: DeserializeOwned + 'static> IntoFuture for FindOne<T> {
    type Output = Result<Option<T>>;
    type IntoFuture = Running<Option<T>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
