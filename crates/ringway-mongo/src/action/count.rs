//! Counting, by `aggregate` as the specification of CRUD says: the command `count` may be wrong.

use std::future::IntoFuture;
use std::rc::Rc;

use bson::{RawBsonRef, RawDocumentBuf, rawdoc};
use ringway_wire::mongo::CursorReply;

use super::{Running, write_reply};
use crate::client_core::Slot;
use crate::collection_shared::{CollectionShared, CommandKind};
use crate::connection::{Answer, unsendable};
use crate::error::{Error, Result};

/// A count, made by [`Collection::count_documents`](crate::Collection::count_documents). Await it to get the
/// number.
#[must_use = "an action does nothing until it is awaited"]
pub struct Count {
    shared: Rc<CollectionShared>,
    filter: Result<RawDocumentBuf>,
}

impl Count {
    pub(crate) fn new(shared: Rc<CollectionShared>, filter: Result<RawDocumentBuf>) -> Self {
        Self { shared, filter }
    }

    async fn run(self) -> Result<u64> {
        let stages = [
            rawdoc! { "$match": self.filter? },
            rawdoc! { "$group": { "_id": 1, "n": { "$sum": 1 } } },
        ];
        let template = self.shared.template(CommandKind::Aggregate);
        let write = |slot: Slot<'_>| {
            let mut aggregate = slot.begin(template);
            aggregate.documents("pipeline", stages.iter().map(|stage| &**stage));
            aggregate.nested("cursor", |_defaults| {});
            aggregate.finish().map(drop).map_err(unsendable)
        };
        let read = |answer: Answer<'_>| {
            let reply = CursorReply::of(answer.body()).map_err(Error::reply)?;
            let first = reply.batch.into_iter().next();
            let group = first.and_then(Result::ok).and_then(RawBsonRef::as_document);
            // Of no document there is no group.
            Ok(group.map_or(0, |group| write_reply::count(group, "n")))
        };
        self.shared.core.run(write, read).await
    }
}

impl IntoFuture for Count {
    type Output = Result<u64>;
    type IntoFuture = Running<u64>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
