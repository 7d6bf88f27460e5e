//! `distinct`

use std::future::IntoFuture;
use std::rc::Rc;

use bson::{Bson, RawDocumentBuf};
use ringway_wire::mongo::{MongoFault, check_nesting};

use super::Running;
use crate::client_core::Slot;
use crate::collection_shared::{CollectionShared, CommandKind};
use crate::connection::{Answer, unsendable};
use crate::error::{Error, Result};

/// The different values of a field, made by [`Collection::distinct`](crate::Collection::distinct). Await it to
/// get them.
#[must_use = "an action does nothing until it is awaited"]
pub struct Distinct {
    shared: Rc<CollectionShared>,
    field: String,
    filter: Result<RawDocumentBuf>,
}

impl Distinct {
    pub(crate) fn new(
        shared: Rc<CollectionShared>,
        field: &str,
        filter: Result<RawDocumentBuf>,
    ) -> Self {
        Self { shared, field: field.to_owned(), filter }
    }

    async fn run(self) -> Result<Vec<Bson>> {
        let filter = self.filter?;
        let template = self.shared.template(CommandKind::Distinct);
        let write = |slot: Slot<'_>| {
            let mut distinct = slot.begin(template);
            distinct.str("key", &self.field);
            distinct.document("query", &filter);
            distinct.finish().map(drop).map_err(unsendable)
        };
        let read = |answer: Answer<'_>| {
            check_nesting(answer.body()).map_err(Error::decoding)?;
            let wrong = |_| Error::reply(MongoFault::Field("values"));
            let values = answer.body().get_array("values").map_err(wrong)?;
            let decode = |value: bson::error::Result<bson::RawBsonRef<'_>>| {
                value.and_then(Bson::try_from).map_err(Error::decoding)
            };
            values.into_iter().map(decode).collect()
        };
        self.shared.core.run(write, read).await
    }
}

impl IntoFuture for Distinct {
    type Output = Result<Vec<Bson>>;
    type IntoFuture = Running<Vec<Bson>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
