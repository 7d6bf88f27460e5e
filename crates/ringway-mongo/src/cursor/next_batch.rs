//! The question for the next batch of a cursor.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bson::raw::RawBson;
use bson::{RawDocument, RawDocumentBuf};
use ringway_runtime::{now_exact, sleep};
use ringway_wire::mongo::MsgFlags;

use super::{BatchSource, Place, RestingStream};
use crate::client_core::{AfterBatch, Attempt, ClientCore, OperationTime, Purpose, Slot};
use crate::client_shared::ClientShared;
use crate::connection::{OwnedAnswer, unsendable};
use crate::error::{Error, Result};
use crate::here::CoreNumber;
use crate::pool::ServerId;
use crate::running::{OnCore, Operation};

/// `getMore`
pub(crate) struct NextBatch {
    pub(super) place: Place,
    pub(super) home: CoreNumber,
    pub(super) id: i64,
    pub(super) server: ServerId,
    pub(super) source: BatchSource,
    /// The time before the server is asked.
    pub(super) pause: Duration,
}

/// A batch that was fetched.
pub(crate) struct Batch {
    pub(super) source: BatchSource,
    pub(super) answer: OwnedAnswer,
    /// The time from the question to the answer.
    pub(super) took: Duration,
}

impl Operation for NextBatch {
    type Output = Batch;

    fn client(&self) -> &Arc<ClientShared> {
        &self.place.client
    }

    fn home(&self) -> Option<CoreNumber> {
        Some(self.home)
    }

    async fn run(self, OnCore(core): OnCore) -> Result<Batch> {
        if !self.pause.is_zero() {
            sleep(self.pause).await;
        }
        let asked_at = now_exact();
        let (source, answer) = self.fetch(&core).await?;
        Ok(Batch { source, answer, took: now_exact().saturating_duration_since(asked_at) })
    }
}

impl NextBatch {
    async fn fetch(self, core: &Rc<ClientCore>) -> Result<(BatchSource, OwnedAnswer)> {
        let Self { place, home, id, server, source, pause: _ } = self;
        let comment = place.comment_field()?;
        let (place, comment) = (&place, comment.as_deref());
        match source {
            BatchSource::Streamed(mut resting) => {
                let key = resting.key.take().expect("it rests");
                let stream = core.streams().take(key)?;
                let next = core.streams().next(stream);
                streamed((core, home, place.client.id), place.time.next(), next).await
            }
            BatchSource::Asked(session) if place.is_exhaust => {
                let session = core.rested_session(session)?;
                let write = |slot: Slot<'_>| place.write_more(slot, id, comment);
                let next = async {
                    let stream = core.streams().begin(server, session, write).await?;
                    core.streams().next(stream).await
                };
                streamed((core, home, place.client.id), place.time.next(), next).await
            }
            BatchSource::Asked(session) => {
                let mut session = core.rested_session(session)?;
                let write = |slot: Slot<'_>| place.write_more(slot, id, comment);
                let (time, purpose) = (place.time.next(), Purpose::Cursor(server));
                let attempt = Attempt::new(&mut session, time, purpose);
                let answer = core.run_in(attempt, write, |answer| Ok(answer.into_owned())).await?;
                Ok((BatchSource::Asked(session.rest()), answer))
            }
        }
    }
}

/// A batch that came by itself, or began those that do.
async fn streamed(
    (core, home, client): (&Rc<ClientCore>, CoreNumber, u64),
    time: OperationTime,
    next: impl Future<Output = Result<(OwnedAnswer, AfterBatch)>>,
) -> Result<(BatchSource, OwnedAnswer)> {
    let (answer, after) = time.over(next).await?;
    let source = match after {
        AfterBatch::Comes(stream) => {
            let key = Some(core.streams().keep(stream));
            BatchSource::Streamed(RestingStream { home, client, key })
        }
        AfterBatch::Ask(session) => BatchSource::Asked(session),
    };
    Ok((source, answer))
}

impl Place {
    /// The field `comment`, if there is one.
    fn comment_field(&self) -> Result<Option<RawDocumentBuf>> {
        let comment = self.comment.clone().map(RawBson::try_from).transpose();
        Ok(comment.map_err(Error::encoding)?.map(|comment| {
            let mut field = RawDocumentBuf::new();
            field.append(bson::raw::cstr!("comment"), comment);
            field
        }))
    }

    /// Asks for the next batch of a cursor.
    fn write_more(&self, slot: Slot<'_>, id: i64, comment: Option<&RawDocument>) -> Result {
        let takes_comment = slot.takes_comments_of_more();
        let mut writer = slot.begin_more("getMore", id);
        if self.is_exhaust {
            writer.flags(MsgFlags::EXHAUST_ALLOWED);
        }
        writer.str("collection", &self.collection);
        writer.str("$db", &self.database);
        if let Some(size) = self.batch_size.filter(|size| *size > 0) {
            writer.i64("batchSize", size.into());
        }
        if let Some(time) = self.max_await {
            writer.i64("maxTimeMS", i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
        }
        if let Some(comment) = comment.filter(|_| takes_comment) {
            writer.fields(comment);
        }
        writer.finish().map(drop).map_err(unsendable)
    }
}
