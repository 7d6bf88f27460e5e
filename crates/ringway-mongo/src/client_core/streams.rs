//! Batches of a cursor that its server sends one after the other, without being asked for each: an exhaust cursor.
//!
//! ```text
//!   getMore, which allows it ──► batch, more to come ──► batch … ──► batch, the last one: the connection is free
//!                                     └── given up ──► the connection is closed, which ends the cursor
//! ```
//!
//! Specification: OP_MSG, "exhaustAllowed" and "moreToCome".

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;

use super::purpose::Purpose;
use super::session_use::{SessionUse, heard};
use super::slot::{Slot, SlotTerms};
use crate::connection::{OwnedAnswer, Sent, StreamedReply};
use crate::deployment::{Deployment, Wanted};
use crate::error::{Error, Fate, Kind, Result};
use crate::options::ClientOptions;
use crate::pool::{Lease, ServerId};
use crate::session::{ClusterClock, RestingSession, Session, UsedSession};

/// What exhaust cursors of a core read.
pub(crate) struct Streams {
    deployment: Rc<Deployment>,
    options: Arc<ClientOptions>,
    clock: Arc<ClusterClock>,
    /// Those that no operation reads at the moment.
    resting: RefCell<Vec<(StreamKey, Box<ReplyStream>)>>,
    keys: Cell<u64>,
}

/// The number of a stream on its core.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamKey(u64);

/// The replies of a server that sends one after the other, on a connection of their own.
pub(crate) struct ReplyStream {
    lease: Lease,
    /// Bytes that came with the reply before.
    ahead: Vec<u8>,
    /// Taken when the stream has ended. One of the user's is free for other operations meanwhile.
    session: Option<RestingSession>,
    /// The command with its number, if somebody is told of commands.
    told: Option<(i32, Vec<u8>)>,
}

/// What becomes of a stream after a batch.
pub(crate) enum AfterBatch {
    /// Another batch comes by itself.
    Comes(Box<ReplyStream>),
    /// The server wants to be asked again, if there are more.
    Ask(RestingSession),
}

impl Drop for ReplyStream {
    /// Nobody uses the session again in which the server may be at work.
    fn drop(&mut self) {
        self.session.take().into_iter().for_each(RestingSession::lose);
    }
}

impl Streams {
    pub(crate) fn new(
        deployment: &Rc<Deployment>,
        options: &Arc<ClientOptions>,
        clock: &Arc<ClusterClock>,
    ) -> Self {
        Self {
            deployment: Rc::clone(deployment),
            options: Arc::clone(options),
            clock: Arc::clone(clock),
            resting: RefCell::default(),
            keys: Cell::default(),
        }
    }

    /// Keeps a stream until its next batch is wanted.
    pub(crate) fn keep(&self, stream: Box<ReplyStream>) -> StreamKey {
        let key = StreamKey(self.keys.get());
        self.keys.set(key.0 + 1);
        self.resting.borrow_mut().push((key, stream));
        key
    }

    /// The stream, which is kept no longer.
    ///
    /// # Errors
    /// It is not there: its core has ended meanwhile.
    pub(crate) fn take(&self, key: StreamKey) -> Result<Box<ReplyStream>> {
        let mut resting = self.resting.borrow_mut();
        let at = resting.iter().position(|(known, _)| *known == key);
        at.map(|at| resting.swap_remove(at).1).ok_or_else(|| {
            let what = "the connection that an exhaust cursor reads is gone";
            Error::new(Kind::Network, Fate::Unknown, what)
        })
    }

    /// Checks that a cursor of the session may have a connection for itself.
    ///
    /// # Errors
    /// The session has a transaction.
    pub(crate) fn check(session: &Session) -> Result {
        match session.transaction.is_open() {
            false => Ok(()),
            true => {
                let what = "an exhaust cursor is none of a transaction: leave `exhaust` out";
                Err(Error::new(Kind::Options, Fate::NotSent, what))
            }
        }
    }

    /// Sends a command to the server of a cursor, and allows it to send all batches.
    ///
    /// # Errors
    /// Those of every operation; the session has a transaction.
    pub(crate) async fn begin(
        &self,
        server: ServerId,
        mut session: UsedSession,
        write: impl FnOnce(Slot<'_>) -> Result,
    ) -> Result<Box<ReplyStream>> {
        Self::check(&session)?;
        let sent = Sent::new(false);
        // It is none of a transaction, which would stay with its core.
        let mut used = SessionUse { session: Some(&mut session), sent: &sent, home: None };
        let mut lease = self.deployment.lease_patiently(Wanted::At(server)).await?;
        let purpose = Purpose::Cursor(server);
        let fields =
            used.begin_command((&lease, server), (purpose, None), &self.clock, |_| None)?;
        let is_told = self.options.observer.is_some();
        let (mut told, fields, limits) = (None, &fields, lease.limits());
        let (wire_version, api) = (lease.wire_version(), lease.api());
        let begun = lease.begin_streamed(&sent, |id, out| {
            let (number, read_preference, is_unanswered) = (None, None, false);
            let (is_once, max_time) = (&Cell::new(true), None);
            let terms = SlotTerms {
                fields,
                number,
                is_once,
                api: api.as_deref(),
                read_preference,
                max_time,
                is_unanswered,
                limits,
                wire_version,
            };
            write(Slot { id, terms, out })?;
            told = is_told.then(|| (id, out.clone()));
            Ok(())
        });
        // From here on, the stream says what becomes of the session.
        used.session = None;
        drop(used);
        begun?;
        let session = Some(session.rest());
        Ok(Box::new(ReplyStream { lease, ahead: Vec::new(), session, told }))
    }

    /// The next batch. Observers hear of a command for each.
    ///
    /// # Errors
    /// Those of every operation. The stream has ended, and its connection is closed unless the server has ended it.
    pub(crate) async fn next(
        &self,
        mut stream: Box<ReplyStream>,
    ) -> Result<(OwnedAnswer, AfterBatch)> {
        let observed = stream.lease.observed(&self.options).map(|server| server.command());
        if let (Some(observed), Some((number, command))) = (&observed, &stream.told) {
            observed.started(*number, command);
        }
        let ReplyStream { lease, ahead, .. } = &mut *stream;
        let came = poll_fn(|cx| lease.poll_streamed(cx, ahead)).await;
        let (answer, has_more) = match came {
            Ok(StreamedReply { answer, has_more }) => (answer, has_more),
            Err(error) => (Err(error), true),
        };
        if let Err(error) = &answer {
            observed.iter().for_each(|observed| observed.failed(error));
            self.deployment.failed(&stream.lease, error);
        }
        let session = if has_more { None } else { stream.session.take() };
        let answer = answer?;
        let (kind, body) = (stream.lease.server(), answer.body());
        match session.as_ref().or(stream.session.as_ref()) {
            Some(RestingSession::Kept(kept)) => {
                kept.with_times(|times| heard(&self.clock, kind, Some(times), body));
            }
            _ => heard(&self.clock, kind, None, body),
        }
        observed.iter().for_each(|observed| observed.succeeded(answer.body()));
        Ok(match session {
            Some(session) => (answer, AfterBatch::Ask(session)),
            None => (answer, AfterBatch::Comes(stream)),
        })
    }
}
