//! Change streams, by MongoDB's specification "Change Streams".

mod open;
mod watch;

use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bson::{Document, RawDocument, RawDocumentBuf, Timestamp};
use futures_core::Stream;
use serde::de::DeserializeOwned;

use self::open::OpenStream;
pub use self::watch::Watch;
use crate::cursor::{Cursor, pause_after};
use crate::decode::decode;
use crate::error::{Error, Fate, Kind, Result};
use crate::running::Running;

/// The changes of a collection, a database or a whole deployment, as they happen: a cursor that waits for the next one.
///
/// When its connection breaks or its server is no longer the right one, it goes on behind the last change, with another
/// server if need be. [`resume_token`](Self::resume_token) is from where another stream would go on, such as after a
/// restart of the program.
///
/// ```no_run
/// # async fn follow(books: ringway_mongo::Collection<bson::Document>) -> ringway_mongo::Result {
/// let mut changes = books.watch().await?;
/// while let Some(change) = changes.next().await? {
///     println!("{change}");
/// }
/// # Ok(())
/// # }
/// ```
pub struct ChangeStream<T = Document> {
    /// How it is opened, and opened again.
    watch: Watch<T>,
    /// `None` while it is being opened again, and at its end.
    cursor: Option<Cursor<RawDocumentBuf>>,
    opening: Option<Running<OpenStream>>,
    position: Position,
    /// How often it was opened, one after the other, without a change, and when it was last.
    in_vain: u32,
    opened_at: Instant,
    changes: PhantomData<fn() -> T>,
}

/// From where a stream goes on.
#[derive(Default, Clone)]
struct Position {
    token: Option<RawDocumentBuf>,
    /// When the stream began, for one that has no token yet.
    began: Option<Timestamp>,
    has_changes: bool,
}

impl<T> ChangeStream<T> {
    fn new(watch: Watch<T>, cursor: Cursor<RawDocumentBuf>) -> Self {
        let position = Position::of_first(&watch, &cursor);
        let (cursor, opening, in_vain, opened_at) = (Some(cursor), None, 0, Instant::now());
        Self { watch, cursor, opening, position, in_vain, opened_at, changes: PhantomData }
    }

    /// Waits for the next change. False when there will be none, such as when the collection was dropped.
    ///
    /// # Errors
    /// Those of every operation, unless the stream can go on elsewhere; [`is_protocol`](Error::is_protocol) if the
    /// `_id` of a change is missing, from which the stream would go on. After an error the stream has ended, unless its time
    /// was over ([`is_timeout`](Error::is_timeout)): then the next call goes on behind the last change.
    pub async fn advance(&mut self) -> Result<bool> {
        poll_fn(|cx| self.poll_advance(cx)).await
    }

    /// Polls like [`advance`](Self::advance), for hand-written futures.
    ///
    /// # Errors
    /// Those of [`advance`](Self::advance).
    pub fn poll_advance(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool>> {
        loop {
            if let Some(opening) = &mut self.opening {
                let opened = ready!(Pin::new(opening).poll(cx));
                self.opening = None;
                match opened {
                    Ok(cursor) => {
                        self.position.go_to_batch_end(&cursor);
                        (self.cursor, self.opened_at) = (Some(cursor), Instant::now());
                    }
                    Err(error) => {
                        if error.is_timeout() {
                            self.open_again();
                        }
                        return Poll::Ready(Err(error));
                    }
                }
            }
            let Some(cursor) = &mut self.cursor else { return Poll::Ready(Ok(false)) };
            match ready!(cursor.poll_advance(cx)) {
                Ok(true) => {
                    self.in_vain = 0;
                    let noted = self.position.go_to_change(cursor);
                    if noted.is_err() {
                        self.cursor = None;
                    }
                    return Poll::Ready(noted.map(|()| true));
                }
                Ok(false) => {
                    self.position.go_to_batch_end(cursor);
                    self.cursor = None;
                }
                Err(error) if error.is_resumable() || error.is_timeout() => {
                    tracing::debug!(error = %error.redacted(), "a change stream is opened again");
                    self.position.go_to_batch_end(cursor);
                    self.open_again();
                    // A server that labels its own time as passing is asked again, and nobody is told.
                    if !error.is_resumable() {
                        return Poll::Ready(Err(error));
                    }
                }
                Err(error) => {
                    self.cursor = None;
                    return Poll::Ready(Err(error));
                }
            }
        }
    }

    /// Has the next call open the stream again, behind its last change.
    fn open_again(&mut self) {
        self.cursor = None;
        // The first time at once, and then more and more slowly, however far each one came; one that has lasted is opened
        // again at once.
        let pause = pause_after(self.in_vain).saturating_sub(self.opened_at.elapsed());
        self.in_vain = self.in_vain.saturating_add(1);
        self.opening = Some(self.watch.open(&self.position, pause));
    }

    /// The change that [`advance`](Self::advance) has gone to.
    ///
    /// # Panics
    /// Panics if `advance` has not returned `true`.
    #[must_use]
    pub fn current(&self) -> &RawDocument {
        self.cursor.as_ref().expect("advance() has not gone to a change").current()
    }

    /// From where another stream would go on behind what this one has returned, by
    /// [`Watch::resume_after`]. `None` while the server has not told.
    #[must_use]
    pub fn resume_token(&self) -> Option<RawDocumentBuf> {
        let mut position = self.position.clone();
        self.cursor.iter().for_each(|cursor| position.go_to_batch_end(cursor));
        position.token
    }
}

impl<T: DeserializeOwned + 'static> ChangeStream<T> {
    /// Waits for the next change, decoded; `None` at the end.
    ///
    /// # Errors
    /// [`is_document`](Error::is_document): it is not a `T`, and the cause names the field; the stream goes on behind it.
    /// Otherwise those of [`advance`](Self::advance).
    pub async fn next(&mut self) -> Result<Option<T>> {
        match self.advance().await? {
            true => decode(self.current()).map(Some),
            false => Ok(None),
        }
    }
}

/// The same as [`next`](ChangeStream::next), for combinators of streams.
impl<T: DeserializeOwned + 'static> Stream for ChangeStream<T> {
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

impl Position {
    /// Specification: "startAtOperationTime [...] MUST be saved [...] if the initial aggregate's reply has none" of a
    /// change, a token and a position that was asked for.
    fn of_first<T>(watch: &Watch<T>, cursor: &Cursor<RawDocumentBuf>) -> Self {
        let mut position = Self { token: watch.token().cloned(), ..Self::default() };
        position.go_to_batch_end(cursor);
        if position.token.is_none() && cursor.is_batch_over() {
            position.began = cursor.reply().get_timestamp("operationTime").ok();
        }
        position
    }

    /// Notes the change that the cursor has gone to.
    fn go_to_change(&mut self, cursor: &Cursor<RawDocumentBuf>) -> Result {
        let Ok(token) = cursor.current().get_document("_id") else {
            let what = "a change has no `_id`, from which the stream would go on; the pipeline must keep it";
            return Err(Error::new(Kind::Protocol, Fate::Answered, what));
        };
        self.token = Some(token.to_owned());
        self.has_changes = true;
        Ok(())
    }

    /// Behind its last change, a batch has a token of its own.
    fn go_to_batch_end(&mut self, cursor: &Cursor<RawDocumentBuf>) {
        if cursor.is_batch_over()
            && let Ok(reply) = cursor.reply().get_document("cursor")
            && let Ok(token) = reply.get_document("postBatchResumeToken")
        {
            self.token = Some(token.to_owned());
        }
    }
}

impl<T> fmt::Debug for ChangeStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeStream").field("cursor", &self.cursor).finish_non_exhaustive()
    }
}
