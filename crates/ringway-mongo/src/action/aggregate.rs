//! `aggregate`

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::rc::Rc;

use bson::RawDocumentBuf;

use super::Running;
use crate::client_core::{Attempt, Slot};
use crate::collection_shared::{CollectionShared, CommandKind};
use crate::connection::unsendable;
use crate::cursor::{Cursor, Place};
use crate::error::Result;

/// A pipeline, made by [`Collection::aggregate`](crate::Collection::aggregate). Await it to get its cursor.
#[must_use = "an action does nothing until it is awaited"]
pub struct Aggregate<T> {
    shared: Rc<CollectionShared>,
    stages: Result<Vec<RawDocumentBuf>>,
    batch_size: Option<u32>,
    documents: PhantomData<fn() -> T>,
}

impl<T> Aggregate<T> {
    pub(crate) fn new(shared: Rc<CollectionShared>, stages: Result<Vec<RawDocumentBuf>>) -> Self {
        Self { shared, stages, batch_size: None, documents: PhantomData }
    }

    /// Sets how many documents a batch has; the server's choice by default.
    pub fn batch_size(mut self, count: u32) -> Self {
        self.batch_size = Some(count);
        self
    }

    /// Sets the type of the results, which is seldom that of the collection.
    pub fn with_type<U>(self) -> Aggregate<U> {
        let Self { shared, stages, batch_size, documents: _ } = self;
        Aggregate { shared, stages, batch_size, documents: PhantomData }
    }

    async fn run(self) -> Result<Cursor<T>> {
        let core = &self.shared.core;
        let stages = self.stages?;
        let mut session = core.session();
        let attempt = Attempt { session: Some(&mut session), timeout: core.timeout() };
        let template = self.shared.template(CommandKind::Aggregate);
        let write = |slot: Slot<'_>| {
            let mut aggregate = slot.begin(template);
            aggregate.documents("pipeline", stages.iter().map(|stage| &**stage));
            aggregate.nested("cursor", |cursor| {
                if let Some(size) = self.batch_size {
                    cursor.i64("batchSize", size.into());
                }
            });
            aggregate.finish().map(drop).map_err(unsendable)
        };
        let answer = core.run_in(attempt, write, |answer| Ok(answer.into_owned())).await?;
        let place = Place {
            core: Rc::clone(core),
            database: Rc::clone(&self.shared.database),
            collection: Rc::clone(&self.shared.name),
            batch_size: self.batch_size,
        };
        Cursor::new(place, session, answer)
    }
}

impl<T: 'static> IntoFuture for Aggregate<T> {
    type Output = Result<Cursor<T>>;
    type IntoFuture = Running<Cursor<T>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
