//! `aggregate`

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::sync::Arc;

use bson::raw::RawBson;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use ringway_wire::mongo::CommandWriter;

use super::explain::{Explain, Verbosity};
use super::settings::{Fields, Settings, option};
use crate::client_core::Purpose;
use crate::client_shared::ClientShared;
use crate::collection_shared::{CollectionShared, CommandKind};
use crate::connection::Answer;
use crate::cursor::{Cursor, Place};
use crate::error::Result;
use crate::raw_argument::{IntoRaw, array};
use crate::running::{OnCore, Operation, Running};

/// A pipeline, made by [`Collection::aggregate`](crate::Collection::aggregate). Await it to get its cursor.
#[must_use = "an action does nothing until it is awaited"]
pub struct Aggregate<T> {
    settings: Settings,
    stages: Result<Vec<RawDocumentBuf>>,
    place: Place,
    documents: PhantomData<fn() -> T>,
}

impl<T> Aggregate<T> {
    pub(crate) fn new(shared: &Arc<CollectionShared>, stages: Result<Vec<RawDocumentBuf>>) -> Self {
        let (settings, place) = (Settings::new(shared), Place::of(shared));
        Self { settings, stages, place, documents: PhantomData }
    }

    /// Sets how many documents a batch has; the server's choice by default.
    pub fn batch_size(mut self, count: u32) -> Self {
        self.place.batch_size = Some(count);
        self
    }

    /// Sets a comment for the server's logs and profiles, for each batch.
    pub fn comment(mut self, comment: impl Into<bson::Bson>) -> Self {
        let comment = comment.into();
        self.settings.fields.set_value("comment", comment.clone());
        self.place.comment = Some(comment);
        self
    }

    /// Sets the type of the results, which is seldom that of the collection.
    pub fn with_type<U>(self) -> Aggregate<U> {
        let Self { settings, stages, place, documents: _ } = self;
        Aggregate { settings, stages, place, documents: PhantomData }
    }

    /// Has the server tell how it would execute this, instead of doing it.
    pub fn explain(self, verbosity: Verbosity) -> Explain {
        let is_write = self.stages.as_ref().is_ok_and(|stages| last_writes(stages));
        let mut own = Fields::default();
        own.set_raw("pipeline", self.stages.and_then(array));
        own.set("cursor", RawDocumentBuf::new());
        let explain = Explain::new(self.settings, CommandKind::Aggregate, own, verbosity);
        if is_write { explain.of_write() } else { explain }
    }

    option!(settings.collation);
    option!(settings.hint);
    option!(settings.let_vars);
    option!(settings.max_time);
    option!(settings.allow_disk_use);
    option!(settings.bypass_document_validation);
    option!(settings.read_concern);
    option!(settings.read_preference);
    option!(settings.session);
    option!(settings.timeout);
    option!(settings.time_per_batch);

    /// Sets which members must confirm what `$out` and `$merge` write, instead of those of the collection.
    pub fn write_concern(mut self, concern: &crate::WriteConcern) -> Self {
        let concern = crate::options::write_concern(concern);
        self.settings.fields.set_document("writeConcern", concern);
        self
    }
}

impl<T: 'static> Operation for Aggregate<T> {
    type Output = Cursor<T>;

    fn client(&self) -> &Arc<ClientShared> {
        &self.settings.shared.client
    }

    async fn run(mut self, OnCore(core): OnCore) -> Result<Cursor<T>> {
        let stages = self.stages?;
        let is_write = last_writes(&stages);
        let purpose = if is_write { Purpose::WriteOnce } else { Purpose::Read };
        // A pipeline that writes returns nothing, and servers refuse a size for its batches.
        let batch_size = self.place.batch_size.filter(|_| !is_write);
        self.place.time = self.settings.batch_time(&core);
        let mut session = self.settings.used_session(&core)?;
        if is_write && !session.transaction.is_open() {
            let concern = self.settings.shared.concerns().write.as_ref();
            self.settings.fields.set_default_concern(concern);
        }
        let write = |mut aggregate: CommandWriter<'_>| {
            aggregate.documents("pipeline", stages.iter().map(|stage| &**stage));
            aggregate.nested("cursor", |cursor| {
                if let Some(size) = batch_size {
                    cursor.i64("batchSize", size.into());
                }
            });
            aggregate.finish()
        };
        let keep = |answer: Answer<'_>| {
            super::write_reply::check(answer.body())?;
            Ok(answer.into_owned())
        };
        let command = (CommandKind::Aggregate, purpose);
        let settings = &mut self.settings;
        let answer = settings.run_in(&core, &mut session, command, write, keep).await?;
        Cursor::new(&core, self.place, session, answer)
    }
}

/// Whether a pipeline, as the array that a command has, writes.
pub(crate) fn writes(stages: &RawBson) -> bool {
    let last = stages.as_array().and_then(|stages| stages.into_iter().last());
    last.and_then(Result::ok).and_then(RawBsonRef::as_document).is_some_and(is_write)
}

fn last_writes(stages: &[RawDocumentBuf]) -> bool {
    stages.last().is_some_and(|stage| is_write(stage))
}

fn is_write(stage: &RawDocument) -> bool {
    let name = stage.iter().next().and_then(|first| first.ok()).map(|(name, _)| name);
    name.is_some_and(|name| matches!(name.as_str(), "$out" | "$merge"))
}

impl<T: 'static> IntoFuture for Aggregate<T> {
    type Output = Result<Cursor<T>>;
    type IntoFuture = Running<Self>;

    fn into_future(self) -> Self::IntoFuture {
        Running::new(self)
    }
}
