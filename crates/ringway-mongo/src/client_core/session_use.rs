//! The session that a command uses.

use bson::RawDocument;
use ringway_wire::mongo::ServerKind;

use super::purpose::Purpose;
use super::slot::{ReadConcernOf, SessionFields};
use crate::connection::Sent;
use crate::core_number::CoreNumber;
use crate::deployment::{Keep, Wanted};
use crate::error::{Error, Fate, Kind, Result};
use crate::limits::WIRE_VERSION_SNAPSHOTS;
use crate::pool::{Lease, ServerId};
use crate::reads::Reads;
use crate::session::{ClusterClock, Session, SessionTimes};
use crate::transaction::Pinned;

/// A session that a command uses. Unless the command is answered, or was not sent, the session is lost when this is
/// dropped: nobody else may use it while the server may be at work in it.
pub(super) struct SessionUse<'a> {
    pub(super) session: Option<&'a mut Session>,
    pub(super) sent: &'a Sent,
    /// The core that sends it.
    pub(super) home: Option<CoreNumber>,
}

impl SessionUse<'_> {
    pub(super) fn is_in_transaction(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.transaction.is_open())
    }

    pub(super) fn ends_transaction(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.transaction.is_ending())
    }

    /// Which server the next command needs.
    pub(super) fn wanted<'a>(&'a self, purpose: Purpose, reads: Option<&'a Reads>) -> Wanted<'a> {
        match &self.session {
            Some(session) if session.transaction.is_open() => match session.transaction.pinned() {
                Some(Pinned::Router(router)) => Wanted::Of(router),
                Some(Pinned::Connection(pin)) => Wanted::At(pin.id()),
                None => Wanted::Write,
            },
            _ => purpose.wanted(reads),
        }
    }

    /// Notes where the next command goes, and returns what its session adds to it.
    ///
    /// # Errors
    /// The session reads of a snapshot, and the server has none.
    pub(super) fn begin_command(
        &mut self,
        (lease, server): (&Lease, ServerId),
        (purpose, concern): (Purpose, Option<ReadConcernOf<'_>>),
        clock: &ClusterClock,
        pinned: impl FnOnce(bool) -> Option<Pinned>,
    ) -> Result<SessionFields> {
        let (kind, mut fields) = (lease.server(), SessionFields::default());
        if kind != ServerKind::Standalone {
            fields.cluster_time = clock.now();
        }
        let concern_alone = concern.and_then(|concern| concern.0).cloned();
        let Some(session) = self.session.as_mut() else {
            fields.read_concern = concern_alone;
            return Ok(fields);
        };
        session.note_server(server, lease.limits().session_timeout);
        if kind != ServerKind::Standalone {
            fields.cluster_time = match &session.times {
                Some(times) => times.latest(fields.cluster_time),
                None => fields.cluster_time,
            };
        }
        fields.read_concern = match (&session.times, concern) {
            (Some(times), _) if times.is_snapshot() => {
                check_snapshots(lease)?;
                Some(times.snapshot_concern())
            }
            // A server that stands alone has no time of a cluster.
            (Some(times), Some(ReadConcernOf(concern))) if kind != ServerKind::Standalone => {
                times.causal_concern(concern.map(|it| &**it)).or(concern_alone)
            }
            _ => concern_alone,
        };
        fields.transaction = session.transaction_fields();
        if let Some(transaction) = &fields.transaction {
            session.transaction.pin(|| pinned(transaction.is_first));
        }
        // Specification: Driver Sessions, "Unacknowledged writes".
        let has_session = lease.has_sessions() && purpose != Purpose::Unanswered;
        fields.id = has_session.then(|| *session.id());
        Ok(fields)
    }

    /// With whom the connection stays behind a load balancer. After an error of the server a cursor has still to be ended.
    pub(super) fn keep(&self, purpose: Purpose, has_cursor: bool, error: Option<&Error>) -> Keep {
        let session = self.session.as_ref();
        let is_refused = error.is_some_and(|error| error.server().is_some());
        match purpose {
            _ if session.is_some_and(|it| it.transaction.pinned().is_some()) => Keep::Transaction,
            _ if has_cursor => Keep::Cursor,
            Purpose::Cursor(_) if is_refused => Keep::Cursor,
            _ => Keep::Nobody,
        }
    }

    /// The same if the command was not sent: whoever had the connection before has it still.
    pub(super) fn keep_unsent(&self, purpose: Purpose) -> Keep {
        self.keep(purpose, matches!(purpose, Purpose::Cursor(_)), None)
    }

    /// The times of the session, if a user keeps it.
    pub(super) fn times(&mut self) -> Option<&mut SessionTimes> {
        self.session.as_mut()?.times.as_deref_mut()
    }

    /// Notes that the command was sent, if it was, and what a router has answered. A server that has refused it because it
    /// has too much to do has begun no transaction: then this is not called.
    pub(super) fn end_command(&mut self, answer: Option<&RawDocument>) {
        if let Some(session) = self.session.as_mut().filter(|_| self.sent.get()) {
            session.transaction.sent(self.home);
            answer.iter().for_each(|answer| session.transaction.take_reply(answer));
        }
    }

    pub(super) fn transaction_failed(&mut self, error: &mut Error) {
        if let Some(session) = self.session.as_mut().filter(|it| it.transaction.is_open()) {
            session.transaction.failed(error);
        }
    }

    /// A later try may be answered, but the server may still be at work on this one.
    pub(super) fn failed(&mut self, error: &Error) {
        if error.is_network()
            && self.sent.get()
            && let Some(session) = &mut self.session
        {
            session.lose();
        }
    }
}

impl Drop for SessionUse<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.session.as_mut().filter(|_| self.sent.get()) {
            session.transaction.sent(self.home);
            session.lose();
        }
    }
}

/// Specification: Snapshot Reads, "Snapshot reads require MongoDB 5.0".
fn check_snapshots(lease: &Lease) -> Result {
    if lease.wire_version() >= WIRE_VERSION_SNAPSHOTS {
        return Ok(());
    }
    let what = "Snapshot reads require MongoDB 5.0 or later, which the server is not";
    Err(Error::new(Kind::Incompatible, Fate::NotSent, what))
}

/// Takes what a server says of the time.
pub(super) fn heard(
    clock: &ClusterClock,
    kind: ServerKind,
    times: Option<&mut SessionTimes>,
    body: &RawDocument,
) {
    if kind != ServerKind::Standalone {
        clock.take(body);
        times.into_iter().for_each(|times| times.take(body));
    }
}
