//! What is watched, and from where.

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bson::raw::RawBson;
use bson::{Bson, RawArrayBuf, RawBsonRef, RawDocumentBuf, Timestamp, rawdoc};

use super::open::OpenStream;
use super::{ChangeStream, Position};
use crate::action::Fields;
use crate::client_shared::ClientShared;
use crate::collection_shared::Concerns;
use crate::error::{Error, Fate, Kind, Result};
use crate::raw_argument::IntoRaw;
use crate::running::Running;
use crate::session::KeptSession;
use crate::transaction::ClientSession;

/// A change stream to be opened, made by the methods `watch` of [`Collection`](crate::Collection),
/// [`Database`](crate::Database) and [`Client`](crate::Client). Await it to open it.
#[must_use = "an action does nothing until it is awaited"]
pub struct Watch<T> {
    client: Arc<ClientShared>,
    database: Arc<str>,
    /// The collection; `None` for all of the database.
    collection: Option<Arc<str>>,
    /// Fields of `$changeStream`.
    stage: Fields,
    /// Further stages.
    stages: Vec<RawDocumentBuf>,
    /// Fields of the command.
    fields: Fields,
    start: Option<(&'static str, RawDocumentBuf)>,
    began: Option<Timestamp>,
    batch_size: Option<u32>,
    comment: Option<Bson>,
    max_await: Option<Duration>,
    time: Option<Duration>,
    session: Option<Arc<KeptSession>>,
    concerns: Concerns,
    fault: Option<Error>,
    changes: PhantomData<fn() -> T>,
}

impl<T> Watch<T> {
    pub(crate) fn new(
        client: &Arc<ClientShared>,
        database: Arc<str>,
        collection: Option<Arc<str>>,
    ) -> Self {
        Self {
            client: Arc::clone(client),
            database,
            collection,
            stage: Fields::default(),
            stages: Vec::new(),
            fields: Fields::default(),
            start: None,
            began: None,
            batch_size: None,
            comment: None,
            max_await: None,
            time: None,
            session: None,
            concerns: Concerns::of(client),
            fault: None,
            changes: PhantomData,
        }
    }

    /// For all databases.
    pub(crate) fn of_cluster(mut self) -> Self {
        self.stage.set("allChangesForCluster", true);
        self
    }

    /// Passes the changes through further stages, such as `$match`. They must keep the field `_id`.
    pub fn pipeline<S: IntoRaw>(mut self, stages: impl IntoIterator<Item = S>) -> Self {
        match stages.into_iter().map(IntoRaw::into_raw).collect() {
            Ok(stages) => self.stages = stages,
            Err(fault) => self.fault = Some(fault),
        }
        self
    }

    /// Sets the type of the changes.
    pub fn with_type<U>(self) -> Watch<U> {
        let Self { client, database, collection, stage, stages, fields, start, began, .. } = self;
        let Self { batch_size, comment, max_await, time, session, concerns, fault, .. } = self;
        Watch {
            client,
            database,
            collection,
            stage,
            stages,
            fields,
            start,
            began,
            batch_size,
            comment,
            max_await,
            time,
            session,
            concerns,
            fault,
            changes: PhantomData,
        }
    }

    /// Sets what an update shows of the document: `updateLookup`, `whenAvailable` or `required`; by default, only what
    /// has changed.
    pub fn full_document(mut self, mode: &str) -> Self {
        self.stage.set("fullDocument", mode);
        self
    }

    /// Sets what is shown of the document before the change: `whenAvailable` or `required`; nothing by default.
    pub fn full_document_before_change(mut self, mode: &str) -> Self {
        self.stage.set("fullDocumentBeforeChange", mode);
        self
    }

    /// Sets whether changes of indexes, and of collections as such, are shown.
    pub fn show_expanded_events(mut self, are_shown: bool) -> Self {
        self.stage.set("showExpandedEvents", are_shown);
        self
    }

    /// Goes on behind the change, or from the token, that another stream has had.
    pub fn resume_after(mut self, token: impl IntoRaw) -> Self {
        self.start_at("resumeAfter", token.into_raw());
        self
    }

    /// The same, also behind the end of a stream whose collection was dropped.
    pub fn start_after(mut self, token: impl IntoRaw) -> Self {
        self.start_at("startAfter", token.into_raw());
        self
    }

    fn start_at(&mut self, how: &'static str, token: Result<RawDocumentBuf>) {
        match token {
            Ok(token) => self.start = Some((how, token)),
            Err(fault) => self.fault = Some(fault),
        }
    }

    /// Begins at a time of the server.
    pub fn start_at_operation_time(mut self, time: Timestamp) -> Self {
        self.began = Some(time);
        self
    }

    /// Sets how many changes a batch has at most; the server's choice by default.
    pub fn batch_size(mut self, count: u32) -> Self {
        self.batch_size = Some(count);
        self
    }

    /// Sets how long the server waits for a change before it answers that there is none; a second by default. It must be
    /// less than the client's time of an operation.
    pub fn max_await_time(mut self, limit: Duration) -> Self {
        self.max_await = Some(limit);
        self
    }

    /// Sets the time of opening the stream, and of each batch, instead of the client's
    /// ([`ClientOptions::timeout`](crate::ClientOptions::timeout)).
    pub fn timeout(self, limit: Duration) -> Self {
        self.within(Some(limit))
    }

    pub(crate) fn within(mut self, time: Option<Duration>) -> Self {
        self.time = time;
        self
    }

    /// The same with the concerns and the time of its collection.
    pub(crate) fn concerned(self, concerns: &Concerns) -> Self {
        Self { concerns: concerns.clone(), ..self.within(concerns.time) }
    }

    /// Sets the session that it runs in, also when it is opened again elsewhere. Its batches come one after the other with
    /// the other operations of the session, of which none may be under way meanwhile.
    pub fn session(mut self, session: &ClientSession) -> Self {
        self.session = Some(Arc::clone(session.kept()));
        self
    }

    /// Sets by which language's rules strings are compared.
    pub fn collation(mut self, collation: impl IntoRaw) -> Self {
        self.fields.set_document("collation", collation.into_raw());
        self
    }

    /// Sets a comment for the server's logs and profiles, for each batch.
    pub fn comment(mut self, comment: impl Into<Bson>) -> Self {
        let comment = comment.into();
        self.fields.set_value("comment", comment.clone());
        self.comment = Some(comment);
        self
    }

    /// The token from which it begins.
    pub(super) fn token(&self) -> Option<&RawDocumentBuf> {
        self.start.as_ref().map(|(_, token)| token)
    }

    /// Opens the stream again, at another position and after a pause.
    pub(super) fn open(&self, position: &Position, pause: Duration) -> Running<OpenStream> {
        self.run(Ok(self.command(Some(position))), pause)
    }

    fn first(&mut self) -> Running<OpenStream> {
        let checked = self.check();
        self.run(checked.map(|()| self.command(None)), Duration::ZERO)
    }

    fn run(&self, command: Result<RawDocumentBuf>, pause: Duration) -> Running<OpenStream> {
        Running::new(OpenStream {
            pause,
            client: Arc::clone(&self.client),
            database: Arc::clone(&self.database),
            command,
            batch_size: self.batch_size,
            comment: self.comment.clone(),
            max_await: self.max_await,
            time: self.time,
            concerns: self.concerns.clone(),
            session: self.session.clone(),
        })
    }

    fn check(&mut self) -> Result {
        self.fault.take().map_or(Ok(()), Err)?;
        self.stage.check()?;
        self.fields.check()?;
        let limit = self.time.unwrap_or(self.client.options.timeout);
        match self.max_await.filter(|time| *time >= limit) {
            None => Ok(()),
            Some(time) => {
                let what = format!(
                    "the server would wait {time:?} for a change, and the client {limit:?}"
                );
                Err(Error::new(Kind::Options, Fate::NotSent, what))
            }
        }
    }

    /// `aggregate` with the stage `$changeStream`.
    fn command(&self, position: Option<&Position>) -> RawDocumentBuf {
        let mut stage = self.stage.to_document();
        self.put_start(position, &mut stage);
        let mut pipeline = RawArrayBuf::new();
        pipeline.push(rawdoc! { "$changeStream": stage });
        self.stages.iter().for_each(|stage| pipeline.push(stage.clone()));
        let mut cursor = RawDocumentBuf::new();
        if let Some(size) = self.batch_size {
            cursor.append(bson::raw::cstr!("batchSize"), i64::from(size));
        }
        let of = match &self.collection {
            Some(name) => RawBson::String(name.to_string()),
            None => RawBson::Int32(1),
        };
        let mut command = rawdoc! { "aggregate": of, "pipeline": pipeline, "cursor": cursor };
        for (key, value) in self.fields.to_document().iter().flatten() {
            command.append(key, value);
        }
        command
    }

    /// Specification: "Resume Process".
    fn put_start(&self, position: Option<&Position>, stage: &mut RawDocumentBuf) {
        let token = position.and_then(|position| position.token.as_ref());
        let has_changes = position.is_some_and(|position| position.has_changes);
        match (&self.start, token) {
            (Some((how, _)), Some(token)) => {
                let how = if has_changes { "resumeAfter" } else { *how };
                append(stage, how, RawBsonRef::Document(token));
            }
            (Some((how, token)), None) => append(stage, how, RawBsonRef::Document(token)),
            (None, Some(token)) => append(stage, "resumeAfter", RawBsonRef::Document(token)),
            (None, None) => {
                let began = self.began.or_else(|| position.and_then(|position| position.began));
                if let Some(began) = began {
                    append(stage, "startAtOperationTime", RawBsonRef::Timestamp(began));
                }
            }
        }
    }
}

fn append(stage: &mut RawDocumentBuf, name: &str, value: RawBsonRef<'_>) {
    let name = <&bson::raw::CStr>::try_from(name).expect("a name without zero bytes");
    stage.append(name, value);
}

impl<T: 'static> IntoFuture for Watch<T> {
    type Output = Result<ChangeStream<T>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(mut self) -> Self::IntoFuture {
        let opening = self.first();
        Box::pin(async move { Ok(ChangeStream::new(self, opening.await?)) })
    }
}
