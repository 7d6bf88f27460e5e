//! Commands of many tasks on one connection.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bson::RawDocumentBuf;

use super::allowed;
use crate::client_shared::ClientShared;
use crate::error::Result;
use crate::limits::{PIPELINE_DEPTH_DEFAULT, PIPELINE_DEPTH_MAX};
use crate::multiplexer::SharedCommand;
use crate::raw_argument::IntoRaw;
use crate::running::{OnCore, Operation, Running};

/// A handle whose commands share one connection of their core with those of all such handles of the client: over a
/// long line, few connections do what hundreds would. Made by
/// [`Database::multiplexed`](crate::Database::multiplexed); cheap to clone.
///
/// The server executes them in the order of their sending, each in a session of its own, so a slow one delays those
/// behind it: keep it for commands that are quick. If the connection breaks, each command under way has an error, whose
/// [`may_have_happened`](crate::Error::may_have_happened) is false only if it was not sent. So writes are refused
/// unless [`allow_writes`](Self::allow_writes) is called. Commands that belong to a handshake, a transaction or a
/// cursor, or that wait for news, are always refused. Nothing is tried again. A connection on which a command is not
/// answered until a second after its time is closed, and the others on it end with it.
///
/// ```no_run
/// use bson::rawdoc;
///
/// # async fn prices(shop: ringway_mongo::Database) -> ringway_mongo::Result {
/// let books = shop.multiplexed().depth(64);
/// let tasks = (0..1000).map(|id| {
///     let find = rawdoc! { "find": "books", "filter": { "_id": id }, "limit": 1, "singleBatch": true };
///     ringway_runtime::spawn(books.run_command(find).into_future())
/// });
/// for task in tasks.collect::<Vec<_>>() {
///     println!("{:?}", task.await.expect("no panic")?.get_document("cursor"));
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Multiplexed {
    client: Arc<ClientShared>,
    database: Arc<str>,
    depth: usize,
    allows_writes: bool,
    timeout: Option<Duration>,
}

/// A command of a [`Multiplexed`] handle. Awaiting it returns the reply, whose `ok` is 1; errors of writes inside of it
/// are in the reply.
#[must_use = "a command does nothing until it is awaited"]
pub struct MultiplexedCommand {
    handle: Multiplexed,
    command: Result<RawDocumentBuf>,
}

impl Multiplexed {
    pub(crate) fn new(client: &Arc<ClientShared>, database: &Arc<str>) -> Self {
        Self {
            client: Arc::clone(client),
            database: Arc::clone(database),
            depth: PIPELINE_DEPTH_DEFAULT,
            allows_writes: false,
            timeout: None,
        }
    }

    /// Sets how many commands may be under way on the connection when one of this handle is sent: 16 by default, from 1
    /// to 1,024.
    #[must_use]
    pub fn depth(mut self, commands: usize) -> Self {
        self.depth = commands.clamp(1, PIPELINE_DEPTH_MAX);
        self
    }

    /// Allows commands that write. If the connection breaks, those under way may have been executed or not, and only
    /// [`Error::may_have_happened`](crate::Error::may_have_happened) tells of each.
    #[must_use]
    pub fn allow_writes(mut self) -> Self {
        self.allows_writes = true;
        self
    }

    /// Sets the time of each command, instead of the client's
    /// ([`ClientOptions::timeout`](crate::ClientOptions::timeout)).
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Makes a command, whose first field is its name.
    ///
    /// # Errors
    /// Awaiting it fails if the command is refused ([`is_options`](crate::Error::is_options)), malformed
    /// ([`is_document`](crate::Error::is_document)), one of too many that wait ([`is_limit`](crate::Error::is_limit)),
    /// if the server answers with `ok: 0` ([`Error::server`](crate::Error::server)), or if no reply comes.
    pub fn run_command(&self, command: impl IntoRaw) -> MultiplexedCommand {
        MultiplexedCommand { handle: self.clone(), command: command.into_raw() }
    }
}

impl fmt::Debug for Multiplexed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Multiplexed").field("database", &self.database).finish_non_exhaustive()
    }
}

impl Operation for MultiplexedCommand {
    type Output = RawDocumentBuf;

    fn client(&self) -> &Arc<ClientShared> {
        &self.handle.client
    }

    async fn run(self, OnCore(core): OnCore) -> Result<RawDocumentBuf> {
        let Multiplexed { database, depth, allows_writes, timeout, .. } = self.handle;
        let command = self.command?;
        allowed::check(&command, allows_writes)?;
        let limit = timeout.unwrap_or_else(|| core.timeout());
        core.multiplexer().run(SharedCommand { database, command, depth, limit }).await
    }
}

impl IntoFuture for MultiplexedCommand {
    type Output = Result<RawDocumentBuf>;
    type IntoFuture = Running<Self>;

    fn into_future(self) -> Self::IntoFuture {
        Running::new(self)
    }
}
