//! `find`

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::rc::Rc;

use bson::RawDocumentBuf;

use super::Running;
use crate::client_core::Attempt;
use crate::collection_shared::{CollectionShared, CommandKind};
use crate::connection::unsendable;
use crate::cursor::{Cursor, Place};
use crate::error::Result;
use crate::raw_argument::IntoRaw;

/// A query, made by [`Collection::find`](crate::Collection::find). Await it to get its cursor.
#[must_use = "an action does nothing until it is awaited"]
pub struct Find<T> {
    shared: Rc<CollectionShared>,
    filter: Result<RawDocumentBuf>,
    sort: Option<Result<RawDocumentBuf>>,
    projection: Option<Result<RawDocumentBuf>>,
    limit: Option<i64>,
    skip: Option<i64>,
    batch_size: Option<u32>,
    documents: PhantomData<fn() -> T>,
}

impl<T> Find<T> {
    pub(crate) fn new(shared: Rc<CollectionShared>, filter: Result<RawDocumentBuf>) -> Self {
        Self {
            shared,
            filter,
            sort: None,
            projection: None,
            limit: None,
            skip: None,
            batch_size: None,
            documents: PhantomData,
        }
    }

    /// Sets the order; that of the server by default.
    pub fn sort(mut self, order: impl IntoRaw) -> Self {
        self.sort = Some(order.into_raw());
        self
    }

    /// Sets which fields are returned; all by default.
    pub fn projection(mut self, fields: impl IntoRaw) -> Self {
        self.projection = Some(fields.into_raw());
        self
    }

    /// Sets how many documents are returned at most; all by default.
    pub fn limit(mut self, count: u32) -> Self {
        self.limit = Some(count.into());
        self
    }

    /// Sets how many documents are passed over; none by default.
    pub fn skip(mut self, count: u32) -> Self {
        self.skip = Some(count.into());
        self
    }

    /// Sets how many documents a batch has; the server's choice by default, 101 for the first one.
    pub fn batch_size(mut self, count: u32) -> Self {
        self.batch_size = Some(count);
        self
    }

    async fn run(self) -> Result<Cursor<T>> {
        let core = &self.shared.core;
        let (filter, sort) = (self.filter?, self.sort.transpose()?);
        let projection = self.projection.transpose()?;
        let mut session = core.session();
        let attempt = Attempt { session: Some(&mut session), timeout: core.timeout() };
        let template = self.shared.template(CommandKind::Find);
        let answer = core
            .run_in(
                attempt,
                |slot| {
                    let mut find = slot.begin(template);
                    find.document("filter", &filter);
                    for (name, value) in [("sort", &sort), ("projection", &projection)] {
                        if let Some(value) = value {
                            find.document(name, value);
                        }
                    }
                    let batch_size = self.batch_size.map(i64::from);
                    let numbers =
                        [("limit", self.limit), ("skip", self.skip), ("batchSize", batch_size)];
                    for (name, value) in numbers {
                        if let Some(value) = value {
                            find.i64(name, value);
                        }
                    }
                    find.finish().map(drop).map_err(unsendable)
                },
                |answer| Ok(answer.into_owned()),
            )
            .await?;
        let place = Place {
            core: Rc::clone(core),
            database: Rc::clone(&self.shared.database),
            collection: Rc::clone(&self.shared.name),
            batch_size: self.batch_size,
        };
        Cursor::new(place, session, answer)
    }
}

impl<T: 'static> IntoFuture for Find<T> {
    type Output = Result<Cursor<T>>;
    type IntoFuture = Running<Cursor<T>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
