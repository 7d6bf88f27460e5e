//! `delete`

use std::future::IntoFuture;
use std::rc::Rc;

use bson::RawDocumentBuf;

use super::{Running, write_reply};
use crate::client_core::Slot;
use crate::collection_shared::{CollectionShared, CommandKind};
use crate::connection::unsendable;
use crate::error::Result;

/// A removal of documents, made by [`Collection::delete_one`](crate::Collection::delete_one) and
/// [`delete_many`](crate::Collection::delete_many). Await it to have it done.
#[must_use = "an action does nothing until it is awaited"]
pub struct Delete {
    shared: Rc<CollectionShared>,
    filter: Result<RawDocumentBuf>,
    /// 1, or 0 for all.
    limit: i32,
}

/// What a removal has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeleteResult {
    /// Documents that are gone.
    pub deleted: u64,
}

impl Delete {
    pub(crate) fn new(
        shared: Rc<CollectionShared>,
        filter: Result<RawDocumentBuf>,
        limit: i32,
    ) -> Self {
        Self { shared, filter, limit }
    }

    async fn run(self) -> Result<DeleteResult> {
        let filter = self.filter?;
        let template = self.shared.template(CommandKind::Delete);
        let write = |slot: Slot<'_>| {
            let mut sequence = slot.begin(template).sequence("deletes");
            sequence.with(|statement| {
                statement.document("q", &filter);
                statement.i32("limit", self.limit);
            });
            sequence.finish().map(drop).map_err(unsendable)
        };
        let read = |answer: crate::connection::Answer<'_>| {
            write_reply::check(answer.body())?;
            Ok(DeleteResult { deleted: write_reply::count(answer.body(), "n") })
        };
        self.shared.core.run(write, read).await
    }
}

impl IntoFuture for Delete {
    type Output = Result<DeleteResult>;
    type IntoFuture = Running<DeleteResult>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
