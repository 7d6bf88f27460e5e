//! `find`

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use bson::RawDocumentBuf;

use super::explain::{Explain, Verbosity};
use super::settings::{Fields, Settings, option};
use crate::client_core::{Purpose, Streams};
use crate::client_shared::ClientShared;
use crate::collection_shared::{CollectionShared, CommandKind};
use crate::cursor::{BatchTime, Cursor, CursorType, Place};
use crate::error::{Error, Fate, Kind, Result};
use crate::raw_argument::IntoRaw;
use crate::running::{OnCore, Operation};

/// A query, made by [`Collection::find`](crate::Collection::find). Await it to get its cursor.
#[must_use = "an action does nothing until it is awaited"]
pub struct Find<T> {
    settings: Settings,
    filter: Result<RawDocumentBuf>,
    place: Place,
    limit: Option<i64>,
    kind: CursorType,
    max_await: Option<Duration>,
    documents: PhantomData<fn() -> T>,
}

impl<T> Find<T> {
    pub(crate) fn new(shared: &Arc<CollectionShared>, filter: Result<RawDocumentBuf>) -> Self {
        let (settings, place) = (Settings::new(shared), Place::of(shared));
        let (limit, kind, max_await) = (None, CursorType::default(), None);
        Self { settings, filter, place, limit, kind, max_await, documents: PhantomData }
    }

    option!(settings.sort);
    option!(settings.projection);
    option!(settings.collation);
    option!(settings.hint);
    option!(settings.let_vars);
    option!(settings.max_time);
    option!(settings.allow_disk_use);
    option!(settings.read_concern);
    option!(settings.read_preference);
    option!(settings.session);
    option!(settings.timeout);
    option!(settings.time_per_batch);

    /// Sets how many documents are returned at most; all by default. A negative number means that many, in one
    /// batch.
    pub fn limit(mut self, count: impl Into<i64>) -> Self {
        let count = count.into();
        self.settings.fields.set("limit", count.saturating_abs());
        self.limit = Some(count);
        if count < 0 {
            self.settings.fields.set("singleBatch", true);
        }
        self
    }

    /// Sets how many documents are passed over; none by default.
    pub fn skip(mut self, count: u32) -> Self {
        self.settings.fields.set("skip", i64::from(count));
        self
    }

    /// Sets how many documents a batch has; the server's choice by default, 101 for the first one.
    pub fn batch_size(mut self, count: u32) -> Self {
        self.place.batch_size = Some(count);
        self
    }

    /// Sets whether the server sends all batches one after the other, without being asked for each; false by default. The
    /// cursor has a connection for itself meanwhile, and dropping it before its end closes that. Worth it for many batches
    /// over a long line; servers that cannot do it, and routers before MongoDB 7.1, are asked for each batch. Not in
    /// transactions.
    pub fn exhaust(mut self, is_exhaust: bool) -> Self {
        self.place.is_exhaust = is_exhaust;
        self
    }

    /// Sets what the cursor does at the end of what there is; it ends by default. A tailable one is for collections of a
    /// limited size (capped) only. It ends all the same while there is nothing at all, and when what it has returned last
    /// is overwritten.
    ///
    /// ```no_run
    /// # async fn follow(log: ringway_mongo::Collection<bson::Document>) -> ringway_mongo::Result {
    /// let mut entries = log.find(bson::doc! {}).cursor_type(ringway_mongo::CursorType::TailableAwait).await?;
    /// while let Some(entry) = entries.next().await? {
    ///     println!("{entry}"); // also those that are written later
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn cursor_type(mut self, kind: CursorType) -> Self {
        self.kind = kind;
        self
    }

    /// Sets how long the server waits for a document before it answers a cursor of the type
    /// [`TailableAwait`](CursorType::TailableAwait) that there is none; a second by default. It must be less than the time
    /// of a batch, which is that of this action or else the client's. Other cursors do not wait.
    pub fn max_await_time(mut self, limit: Duration) -> Self {
        self.max_await = Some(limit);
        self
    }

    /// Has the server tell how it would execute this, instead of doing it.
    pub fn explain(mut self, verbosity: Verbosity) -> Explain {
        self.set_kind();
        let (batch_size, mut own) = (self.first_batch_size(), Fields::default());
        own.set_document("filter", self.filter);
        if let Some(size) = batch_size {
            own.set("batchSize", size);
        }
        Explain::new(self.settings, CommandKind::Find, own, verbosity)
    }

    fn set_kind(&mut self) {
        self.kind.fields().iter().for_each(|name| self.settings.fields.set(name, true));
    }

    fn check(&self) -> Result {
        let what = match (self.place.max_await, self.place.time) {
            (Some(time), BatchTime::Each(limit)) if time >= limit => {
                format!("the server would wait {time:?} for a document, and the client {limit:?}")
            }
            _ if self.place.is_exhaust && self.kind != CursorType::NonTailable => {
                "a tailable cursor asks for each batch: leave `exhaust` or `cursor_type` out".into()
            }
            _ => return Ok(()),
        };
        Err(Error::new(Kind::Options, Fate::NotSent, what))
    }

    /// A first batch of just as many documents as are wanted would leave an empty cursor at the server.
    fn first_batch_size(&self) -> Option<i64> {
        let size = i64::from(self.place.batch_size?);
        Some(if self.limit == Some(size) { size + 1 } else { size })
    }

    /// Sets a comment for the server's logs and profiles, for each batch.
    pub fn comment(mut self, comment: impl Into<bson::Bson>) -> Self {
        let comment = comment.into();
        self.settings.fields.set_value("comment", comment.clone());
        self.place.comment = Some(comment);
        self
    }

    /// Sets the least values of the fields of an index, which [`hint`](Self::hint) names.
    pub fn min(mut self, bound: impl IntoRaw) -> Self {
        self.settings.fields.set_document("min", bound.into_raw());
        self
    }

    /// Sets values of the fields of an index, which [`hint`](Self::hint) names, that are not reached.
    pub fn max(mut self, bound: impl IntoRaw) -> Self {
        self.settings.fields.set_document("max", bound.into_raw());
        self
    }

    /// Sets whether only the fields of the index are returned.
    pub fn return_key(mut self, is_only_key: bool) -> Self {
        self.settings.fields.set("returnKey", is_only_key);
        self
    }

    /// Sets whether each document has the number of its record, `$recordId`.
    pub fn show_record_id(mut self, is_shown: bool) -> Self {
        self.settings.fields.set("showRecordId", is_shown);
        self
    }

    /// Sets whether the server keeps the cursor for as long as nobody reads on.
    pub fn no_cursor_timeout(mut self, is_kept: bool) -> Self {
        self.settings.fields.set("noCursorTimeout", is_kept);
        self
    }
}

impl<T: 'static> Operation for Find<T> {
    type Output = Cursor<T>;

    fn client(&self) -> &Arc<ClientShared> {
        &self.settings.shared.client
    }

    async fn run(mut self, OnCore(core): OnCore) -> Result<Cursor<T>> {
        let batch_size = self.first_batch_size();
        self.set_kind();
        self.place.max_await = self.max_await.filter(|_| self.kind == CursorType::TailableAwait);
        if self.kind != CursorType::NonTailable {
            // It has no end, so that one time over all of it would be its end.
            self.settings.set_time_per_batch();
        }
        self.place.time = self.settings.batch_time(&core);
        self.check()?;
        let filter = self.filter?;
        let mut session = self.settings.used_session(&core)?;
        if self.place.is_exhaust {
            Streams::check(&session)?;
        }
        let command = (CommandKind::Find, Purpose::Read);
        let write = |mut find: ringway_wire::mongo::CommandWriter<'_>| {
            find.document("filter", &filter);
            if let Some(size) = batch_size {
                find.i64("batchSize", size);
            }
            find.finish()
        };
        let settings = &mut self.settings;
        let keep = |answer: crate::connection::Answer<'_>| Ok(answer.into_owned());
        let answer = settings.run_in(&core, &mut session, command, write, keep).await?;
        Cursor::new(&core, self.place, session, answer)
    }
}

impl<T: 'static> std::future::IntoFuture for Find<T> {
    type Output = Result<Cursor<T>>;
    type IntoFuture = crate::running::Running<Self>;

    fn into_future(self) -> Self::IntoFuture {
        crate::running::Running::new(self)
    }
}
