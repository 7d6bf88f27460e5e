//! Cursors: documents in batches.

mod batch_document;
mod next_batch;
mod tailing;

use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bson::{Bson, RawDocument};
use futures_core::Stream;
use ringway_wire::mongo::CursorReply;
use serde::de::DeserializeOwned;

use self::batch_document::next_document;
use self::next_batch::{Batch, NextBatch};
pub use self::tailing::CursorType;
use self::tailing::Pace;
pub(crate) use self::tailing::pause_after;
use crate::client_core::{ClientCore, OperationTime, StreamKey};
use crate::client_shared::ClientShared;
use crate::collection_shared::CollectionShared;
use crate::connection::OwnedAnswer;
use crate::decode::decode;
use crate::error::{Error, Result};
use crate::here::{self, CoreNumber};
use crate::orphans::{Orphan, OrphanPlace};
use crate::pool::ServerId;
use crate::running::Running;
use crate::session::{RestingSession, UsedSession};

/// The documents of a query, fetched batch by batch: no more than one batch is in memory.
///
/// Each further batch has the client's time again, unless a time was set for the client
/// ([`ClientOptions::timeout`](crate::ClientOptions::timeout)) or the operation: that is of all batches together, but for
/// tailable cursors.
/// A cursor that is dropped before its end is ended at the server, in the background. A future of it that is dropped loses
/// nothing: the next one goes on from there. So a tailable cursor ([`CursorType`]) can be read as long as one likes.
///
/// ```no_run
/// # async fn titles(books: ringway_mongo::Collection<bson::Document>) -> ringway_mongo::Result {
/// let mut cursor = books.find(bson::doc! {}).await?;
/// while cursor.advance().await? {
///     // Borrowed from the batch, without a copy.
///     let title = cursor.current().get_str("title").unwrap_or("untitled");
///     println!("{title}");
/// }
/// # Ok(())
/// # }
/// ```
pub struct Cursor<T> {
    place: Place,
    /// The core that made it, which fetches its batches.
    home: CoreNumber,
    /// The cursor at the server; 0 when it has ended there.
    id: i64,
    server: ServerId,
    /// Where its next batch comes from; `None` while that is being fetched.
    source: Option<BatchSource>,
    batch: OwnedAnswer,
    /// Where the next element of the batch begins in the body, and where the body ends for it: behind the array.
    next: usize,
    batch_end: usize,
    current: Range<usize>,
    fetching: Option<Running<NextBatch>>,
    pace: Pace,
    documents: PhantomData<fn() -> T>,
}

/// Where the next batch of a cursor comes from.
pub(crate) enum BatchSource {
    /// The server is asked for it, in the session that the cursor was made in.
    Asked(RestingSession),
    /// It comes by itself.
    Streamed(RestingStream),
}

/// Batches that come by themselves, kept at their core. Dropping this, on whatever thread, closes their connection: a batch
/// may come when nobody wants it any more.
pub(crate) struct RestingStream {
    home: CoreNumber,
    client: u64,
    /// Taken when an operation reads on.
    key: Option<StreamKey>,
}

impl Drop for RestingStream {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            let close = move |core: &Rc<ClientCore>| drop(core.streams().take(key));
            here::with_core(self.home, self.client, close);
        }
    }
}

/// Where a cursor reads.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) client: Arc<ClientShared>,
    pub(crate) database: Arc<str>,
    pub(crate) collection: Arc<str>,
    /// Documents of a batch; the server's choice if `None`.
    pub(crate) batch_size: Option<u32>,
    pub(crate) comment: Option<Bson>,
    /// How long the server waits for a document before it answers that there is none, if it waits at all.
    pub(crate) max_await: Option<Duration>,
    pub(crate) time: BatchTime,
    /// Whether the server may send all batches without being asked for each.
    pub(crate) is_exhaust: bool,
}

impl Place {
    pub(crate) fn of(shared: &CollectionShared) -> Self {
        let (database, collection) = (Arc::clone(&shared.database), Arc::clone(&shared.name));
        Self::new(Arc::clone(&shared.client), database, collection)
    }

    pub(crate) fn new(client: Arc<ClientShared>, database: Arc<str>, collection: Arc<str>) -> Self {
        let time = BatchTime::Each(client.options.timeout);
        Self {
            client,
            database,
            collection,
            batch_size: None,
            comment: None,
            max_await: None,
            time,
            is_exhaust: false,
        }
    }
}

/// The time of the batches behind the first one.
#[derive(Clone, Copy)]
pub(crate) enum BatchTime {
    /// Each has it again.
    Each(Duration),
    /// All have it together, the first one among them.
    All { began: Instant, limit: Duration },
}

impl BatchTime {
    /// That of an operation which begins then. One that servers are told of is that of all batches.
    pub(crate) fn of(time: OperationTime, began: impl FnOnce() -> Instant) -> Self {
        match time.is_told() {
            true => Self::All { began: began(), limit: time.limit() },
            false => Self::Each(time.limit()),
        }
    }

    /// What is left of it for the next batch. Servers are not told: they know it of the first one.
    fn next(self) -> OperationTime {
        match self {
            Self::Each(limit) => limit.into(),
            Self::All { began, limit } => OperationTime::from(limit).since(began),
        }
    }
}

impl<T> Cursor<T> {
    /// A cursor on the core that has fetched its first batch.
    pub(crate) fn new(
        core: &Rc<ClientCore>,
        mut place: Place,
        session: UsedSession,
        first: OwnedAnswer,
    ) -> Result<Self> {
        // A connection that stays with a cursor behind a load balancer is asked for each batch.
        place.is_exhaust &= !core.deployment().is_balanced();
        let mut cursor = Self {
            place,
            home: here::number().expect("a core that runs operations has a number"),
            id: 0,
            server: session.server().expect("its first batch has come from there"),
            source: Some(BatchSource::Asked(session.rest())),
            batch: first,
            next: 0,
            batch_end: 0,
            current: 0..0,
            fetching: None,
            pace: Pace::default(),
            documents: PhantomData,
        };
        cursor.begin_batch()?;
        if cursor.id != 0 {
            core.watch_orphans();
            core.deployment().claim(cursor.server);
        }
        Ok(cursor)
    }

    /// Goes to the next document, the first one at the first call. False at the end.
    ///
    /// # Errors
    /// Those of every operation. After an error the cursor has ended.
    pub async fn advance(&mut self) -> Result<bool> {
        poll_fn(|cx| self.poll_advance(cx)).await
    }

    /// Polls like [`advance`](Self::advance), for hand-written futures.
    ///
    /// # Errors
    /// Those of [`advance`](Self::advance).
    pub fn poll_advance(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool>> {
        loop {
            if let Some(fetching) = &mut self.fetching {
                let fetched = ready!(Pin::new(fetching).poll(cx));
                self.fetching = None;
                let begun = fetched.and_then(|Batch { source, answer, took }| {
                    (self.source, self.batch) = (Some(source), answer);
                    self.begin_batch()?;
                    self.pace.note(self.is_batch_over(), took);
                    Ok(())
                });
                if let Err(error) = begun {
                    self.end();
                    self.end_at_server();
                    return Poll::Ready(Err(error));
                }
            }
            match next_document(&self.batch.body_bytes()[..self.batch_end], self.next) {
                Ok(Some(document)) => {
                    (self.next, self.current) = (document.end, document);
                    return Poll::Ready(Ok(true));
                }
                Ok(None) => {}
                Err(fault) => {
                    self.end();
                    return Poll::Ready(Err(Error::reply(fault)));
                }
            }
            match self.take_source() {
                Some(source) => {
                    let (place, home, id) = (self.place.clone(), self.home, self.id);
                    let (server, pause) = (self.server, self.pace.pause(place.max_await));
                    let next = NextBatch { place, home, id, server, source, pause };
                    self.fetching = Some(Running::new(next));
                }
                None => {
                    self.end();
                    return Poll::Ready(Ok(false));
                }
            }
        }
    }

    /// The document that [`advance`](Self::advance) has gone to.
    ///
    /// # Panics
    /// Panics if `advance` has not returned `true`.
    #[must_use]
    pub fn current(&self) -> &RawDocument {
        assert!(!self.current.is_empty(), "advance() has not gone to a document");
        RawDocument::from_bytes(&self.batch.body_bytes()[self.current.clone()])
            .expect("checked when the cursor went there")
    }

    /// The reply with the last batch.
    pub(crate) fn reply(&self) -> &RawDocument {
        self.batch.body()
    }

    /// Whether the cursor has gone to the last document of its batch, or behind it.
    pub(crate) fn is_batch_over(&self) -> bool {
        self.batch.body_bytes().get(self.next) == Some(&0)
    }

    /// Where the next batch comes from, if there is one.
    fn take_source(&mut self) -> Option<BatchSource> {
        if self.id == 0 { None } else { self.source.take() }
    }

    /// Nothing is left here, in memory and at the session.
    fn end(&mut self) {
        self.current = 0..0;
        self.drop_source();
        // The end of the body is one of an empty array: there is no further document.
        self.batch_end = self.batch.body_bytes().len();
        self.next = self.batch_end - 1;
    }

    /// Gives up what the next batch would come from. True if it would have come by itself: then its connection is closed,
    /// and with it the server ends the cursor.
    fn drop_source(&mut self) -> bool {
        matches!(self.source.take(), Some(BatchSource::Streamed(_)))
    }

    fn begin_batch(&mut self) -> Result {
        let body = self.batch.body();
        let reply = CursorReply::of(body).map_err(Error::reply)?;
        let batch = reply.batch.as_bytes().as_ptr().addr() - body.as_bytes().as_ptr().addr();
        (self.id, self.next, self.current) = (reply.id, batch + 4, 0..0);
        self.batch_end = batch + reply.batch.as_bytes().len();
        if self.id == 0 {
            // Specification: Driver Sessions: drivers "MUST not wait until all documents have been iterated".
            self.drop_source();
        }
        Ok(())
    }
}

impl<T: DeserializeOwned + 'static> Cursor<T> {
    /// The next document, decoded; `None` at the end.
    ///
    /// # Errors
    /// [`is_document`](Error::is_document): it is not a `T`, and the cause names the field; the cursor goes on
    /// behind it. Otherwise those of [`advance`](Self::advance).
    pub async fn next(&mut self) -> Result<Option<T>> {
        match self.advance().await? {
            true => decode(self.current()).map(Some),
            false => Ok(None),
        }
    }

    /// All documents that are left, in memory.
    ///
    /// # Errors
    /// Those of [`next`](Self::next).
    pub async fn collect(mut self) -> Result<Vec<T>> {
        let mut all = Vec::new();
        while let Some(document) = self.next().await? {
            all.push(document);
        }
        Ok(all)
    }
}

/// The same as [`next`](Cursor::next), for combinators of streams: `try_next`, `try_collect`, `map` and so on. Reading goes on
/// behind a document that is not a `T`, and ends with any other error.
impl<T: DeserializeOwned + 'static> Stream for Cursor<T> {
    type Item = Result<T>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<T>>> {
        let this = self.get_mut();
        Poll::Ready(match ready!(this.poll_advance(cx)) {
            Ok(true) => Some(decode(this.current())),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        })
    }
}

impl<T> Cursor<T> {
    /// Has the server told, in the background, that nothing is wanted any more.
    fn end_at_server(&mut self) {
        let is_streamed = self.drop_source();
        let id = std::mem::take(&mut self.id);
        if id != 0 && !is_streamed {
            let Place { client, database, collection, .. } = &self.place;
            let (database, collection) = (Arc::clone(database), Arc::clone(collection));
            let place = OrphanPlace { server: self.server, database, collection };
            let orphan = Orphan { id, place };
            here::with_core(self.home, client.id, |core| core.orphan(orphan));
        }
    }
}

impl<T> Drop for Cursor<T> {
    fn drop(&mut self) {
        self.end_at_server();
    }
}

impl<T> fmt::Debug for Cursor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor").field("id", &self.id).finish_non_exhaustive()
    }
}
