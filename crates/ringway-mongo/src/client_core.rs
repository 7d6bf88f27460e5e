//! What all operations of a client share: how a command is run.
//!
//! Every command goes through `run`, or `run_in` with a session and a time of its own. Its [`Purpose`] says whether
//! it is tried once more: a read is, unless `retryReads` is false; a write is not yet. One time is over all tries.

use std::cell::Cell;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use bson::{RawDocument, rawdoc};
use ringway_runtime::{spawn_detached, timeout};
use ringway_wire::mongo::{CommandTemplate, CommandWriter, SessionId};

use crate::connection::{Answer, Greeting, Sent};
use crate::error::{Error, Fate, Result};
use crate::limits::READ_TRIES_MAX;
use crate::options::ClientOptions;
use crate::orphans::{Orphan, Orphans};
use crate::pool::Pool;
use crate::session::{Session, SessionPool};

/// What operations, cursors and handles of one client share.
pub(crate) struct ClientCore {
    pool: Rc<Pool>,
    sessions: Arc<SessionPool>,
    orphans: Rc<Orphans>,
    timeout: Duration,
    /// How often a read is tried.
    read_tries: u32,
}

/// The session and the time of one operation.
pub(crate) struct Attempt<'a> {
    /// `None` for no session.
    pub(crate) session: Option<&'a mut Session>,
    pub(crate) timeout: Duration,
    pub(crate) purpose: Purpose,
}

/// What a command does to the server's data, and whether the specification of retries lets it be tried again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    Read,
    /// Such as a command that the user has written, or the next batch of a cursor.
    ReadOnce,
    Write,
    /// Such as a write to many documents at once, or of collections and indexes.
    WriteOnce,
}

impl ClientCore {
    pub(crate) fn start(options: &Arc<ClientOptions>, sessions: &Arc<SessionPool>) -> Rc<Self> {
        let core = Self {
            timeout: options.timeout,
            read_tries: if options.retry_reads { READ_TRIES_MAX } else { 1 },
            pool: Pool::start(Greeting::new(Arc::clone(options))),
            sessions: Arc::clone(sessions),
            orphans: Rc::default(),
        };
        Rc::new(core)
    }

    pub(crate) fn pool(&self) -> &Rc<Pool> {
        &self.pool
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(crate) fn session(&self) -> Session {
        self.sessions.take()
    }

    /// Ends a cursor at the server, in the background.
    pub(crate) fn orphan(&self, orphan: Orphan) {
        self.orphans.add(orphan);
    }

    /// Has the background ready for cursors that are dropped.
    pub(crate) fn watch_orphans(self: &Rc<Self>) {
        if self.orphans.begins_to_be_watched() {
            let (orphans, client) = (Rc::clone(&self.orphans), Rc::downgrade(self));
            spawn_detached("mongo cursors", end_each(orphans, client));
        }
    }

    /// Runs a command in a session of its own, within the client's time.
    pub(crate) async fn run<R>(
        self: &Rc<Self>,
        purpose: Purpose,
        write: impl FnMut(Slot<'_>) -> Result,
        read: impl FnOnce(Answer<'_>) -> Result<R>,
    ) -> Result<R> {
        let mut session = self.session();
        let attempt = Attempt { session: Some(&mut session), timeout: self.timeout, purpose };
        self.run_in(attempt, write, read).await
    }

    /// Runs a command, which is written anew for each try. Whatever happens, its connections are whole afterwards,
    /// or closed.
    pub(crate) async fn run_in<R>(
        self: &Rc<Self>,
        attempt: Attempt<'_>,
        write: impl FnMut(Slot<'_>) -> Result,
        read: impl FnOnce(Answer<'_>) -> Result<R>,
    ) -> Result<R> {
        let Attempt { session, timeout: limit, purpose } = attempt;
        let sent = Sent::new(false);
        let tries = if purpose == Purpose::Read { self.read_tries } else { 1 };
        let mut used = SessionUse { session, sent: &sent };
        let result = match timeout(limit, self.try_each(tries, &mut used, write, read)).await {
            Ok(result) => result,
            Err(_) => {
                let fate = if sent.get() { Fate::Unknown } else { Fate::NotSent };
                Err(Error::timeout(limit, fate))
            }
        };
        if let Err(error) = &result {
            tracing::debug!(?purpose, %error, "an operation failed");
        }
        let is_answered =
            !matches!(&result, Err(error) if error.is_network() || error.is_timeout());
        if is_answered {
            used.session = None;
        }
        drop(used);
        result
    }

    /// Specification: Retryable Reads, "Executing Retryable Read Commands".
    async fn try_each<R>(
        &self,
        mut tries: u32,
        used: &mut SessionUse<'_>,
        mut write: impl FnMut(Slot<'_>) -> Result,
        read: impl FnOnce(Answer<'_>) -> Result<R>,
    ) -> Result<R> {
        let id = used.session.as_ref().map(|session| *session.id());
        let mut read = Some(read);
        let mut earlier = None;
        loop {
            let read_once = |answer: Answer<'_>| read.take().expect("one reply is read")(answer);
            let error = match self.exchange(id, used.sent, &mut write, read_once).await {
                Ok(result) => return Ok(result),
                Err(error) => error,
            };
            used.failed(&error);
            tries -= 1;
            let is_worth_it = tries > 0 && read.is_some() && error.allows_another_read();
            let error = match earlier.take() {
                Some(earlier) => error.after(earlier),
                None => error,
            };
            if !is_worth_it {
                return Err(error);
            }
            tracing::debug!(%error, "a read is tried again");
            earlier = Some(error);
        }
    }

    async fn exchange<R>(
        &self,
        session: Option<SessionId>,
        sent: &Cell<bool>,
        write: impl FnOnce(Slot<'_>) -> Result,
        read: impl FnOnce(Answer<'_>) -> Result<R>,
    ) -> Result<R> {
        let mut lease = self.pool.lease().await?;
        let session = session.filter(|_| lease.has_sessions());
        let write = |id, out: &mut Vec<u8>| write(Slot { id, session: session.as_ref(), out });
        let result = lease.run(sent, write, read).await;
        if let Err(error) = &result {
            lease.failed(error);
        }
        result
    }
}

/// A session that a command uses. Unless the command is answered, or was not sent, the session is lost when this is
/// dropped: nobody else may use it while the server may be at work in it.
struct SessionUse<'a> {
    session: Option<&'a mut Session>,
    sent: &'a Sent,
}

impl SessionUse<'_> {
    /// A later try may be answered, but the server may still be at work on this one.
    fn failed(&mut self, error: &Error) {
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
            session.lose();
        }
    }
}

impl Drop for ClientCore {
    fn drop(&mut self) {
        self.orphans.wake();
    }
}

/// Where a command is to be written.
pub(crate) struct Slot<'a> {
    pub(crate) id: i32,
    pub(crate) session: Option<&'a SessionId>,
    pub(crate) out: &'a mut Vec<u8>,
}

impl<'a> Slot<'a> {
    /// Begins a command by its template, with the session if there is one.
    pub(crate) fn begin(self, template: &CommandTemplate) -> CommandWriter<'a> {
        let mut writer = template.begin(self.id, None, self.out);
        if let Some(session) = self.session {
            writer.nested("lsid", |lsid| lsid.uuid("id", session));
        }
        writer
    }

    /// Writes a command that has no template: `document`, whose first field is its name.
    pub(crate) fn write_any(self, document: &RawDocument, database: &str) -> Result {
        let mut writer = CommandWriter::new(self.out, self.id);
        writer.fields(document);
        writer.str("$db", database);
        if let Some(session) = self.session {
            writer.nested("lsid", |lsid| lsid.uuid("id", session));
        }
        writer.finish().map(drop).map_err(crate::connection::unsendable)
    }
}

/// Ends orphaned cursors at the server as long as the client is there.
async fn end_each(orphans: Rc<Orphans>, client: Weak<ClientCore>) {
    loop {
        while let Some(orphan) = orphans.next() {
            let Some(client) = client.upgrade() else { return };
            end(&client, &orphan).await;
        }
        if client.strong_count() == 0 {
            return;
        }
        orphans.changed().await;
    }
}

/// If this fails, the server ends the cursor by itself, after ten minutes.
async fn end(client: &Rc<ClientCore>, orphan: &Orphan) {
    let command = rawdoc! { "killCursors": &*orphan.collection, "cursors": [orphan.id] };
    let once = Purpose::ReadOnce;
    let ended =
        client.run(once, |slot| slot.write_any(&command, &orphan.database), |_| Ok(())).await;
    if let Err(error) = ended {
        tracing::debug!(collection = %orphan.collection, %error, "a cursor is left to the server");
    }
}
