//! Commands that do not wait for each other.

mod allowed;
mod multiplexed;

use std::sync::Arc;
use std::time::Duration;

use bson::RawDocumentBuf;
use ringway_runtime::timeout;
use ringway_wire::mongo::ServerKind;

pub use self::multiplexed::{Multiplexed, MultiplexedCommand};
use crate::client_shared::ClientShared;
use crate::connection::PipelinedCommand;
use crate::deployment::Wanted;
use crate::error::{Error, Fate, Kind, Result};
use crate::limits::{PIPELINE_COMMANDS_MAX, PIPELINE_DEPTH_DEFAULT, PIPELINE_DEPTH_MAX};
use crate::raw_argument::IntoRaw;
use crate::running::{OnCore, Operation, Running};

/// Commands that are sent on one connection without waiting for each other's answers: over a long line many
/// times as fast as one after the other. Made by [`Database::pipeline`](crate::Database::pipeline).
///
/// Awaiting it sends the commands and returns the result of each, in their order. The server executes them in that
/// order, each in a session of its own; a slow one delays those behind it. A reply is one whose `ok` is 1; errors of
/// writes inside of it are in the reply. If the connection breaks, or the time is over, each command that was not
/// answered has an error, whose [`may_have_happened`](Error::may_have_happened) is false only if the command was
/// not sent. So writes are refused unless [`allow_writes`](Self::allow_writes) is called. Commands that belong
/// to a handshake, a transaction or a cursor, or that wait for news, are always refused. Nothing is tried again.
///
/// Awaiting it fails as a whole if there was no connection, so that nothing was sent.
///
/// ```no_run
/// use bson::rawdoc;
///
/// # async fn prices(shop: ringway_mongo::Database) -> ringway_mongo::Result {
/// let mut pipeline = shop.pipeline().depth(64);
/// for id in 0..1000 {
///     pipeline.push(rawdoc! { "find": "books", "filter": { "_id": id }, "limit": 1, "singleBatch": true })?;
/// }
/// for reply in pipeline.await? {
///     println!("{:?}", reply?.get_document("cursor"));
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "a pipeline does nothing until it is awaited"]
pub struct Pipeline {
    client: Arc<ClientShared>,
    database: Arc<str>,
    depth: usize,
    allows_writes: bool,
    timeout: Option<Duration>,
    commands: Vec<RawDocumentBuf>,
}

impl Pipeline {
    pub(crate) fn new(client: &Arc<ClientShared>, database: &Arc<str>) -> Self {
        Self {
            client: Arc::clone(client),
            database: Arc::clone(database),
            depth: PIPELINE_DEPTH_DEFAULT,
            allows_writes: false,
            timeout: None,
            commands: Vec::new(),
        }
    }

    /// Sets how many commands are under way at a time: 16 by default, from 1 to 1,024.
    pub fn depth(mut self, commands: usize) -> Self {
        self.depth = commands.clamp(1, PIPELINE_DEPTH_MAX);
        self
    }

    /// Allows commands that write. If the connection breaks, several of them may have been executed or not, and only
    /// [`Error::may_have_happened`] tells of each.
    pub fn allow_writes(mut self) -> Self {
        self.allows_writes = true;
        self
    }

    /// Sets the time in which all commands are answered, instead of the client's
    /// ([`ClientOptions::timeout`](crate::ClientOptions::timeout)).
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Adds a command, whose first field is its name.
    ///
    /// # Errors
    /// [`is_document`](Error::is_document): it is malformed. [`is_limit`](Error::is_limit): there are 65,536
    /// commands already.
    pub fn push(&mut self, command: impl IntoRaw) -> Result {
        if self.commands.len() == PIPELINE_COMMANDS_MAX {
            let what = format!("a pipeline has at most {PIPELINE_COMMANDS_MAX} commands");
            return Err(Error::new(Kind::Limit, Fate::NotSent, what));
        }
        self.commands.push(command.into_raw()?);
        Ok(())
    }
}

impl Operation for Pipeline {
    type Output = Vec<Result<RawDocumentBuf>>;

    fn client(&self) -> &Arc<ClientShared> {
        &self.client
    }

    async fn run(self, OnCore(core): OnCore) -> Result<Self::Output> {
        let Self { database, depth, allows_writes, commands, .. } = self;
        let limit = self.timeout.unwrap_or_else(|| core.timeout());
        let make = |command: RawDocumentBuf| match allowed::check(&command, allows_writes) {
            Ok(()) => PipelinedCommand::new(command),
            Err(why) => PipelinedCommand::refused(why),
        };
        let mut commands: Vec<PipelinedCommand> = commands.into_iter().map(make).collect();
        let mut is_connected = false;
        let session = || core.session();
        let exchange = async {
            let mut lease = core.deployment().lease_patiently(Wanted::Write).await?;
            is_connected = true;
            let preference = match lease.server() {
                ServerKind::Standalone => None,
                kind => core.deployment().least_preference(kind != ServerKind::Mongos),
            };
            let observed = lease.observed(core.options());
            let ran = lease.run_pipelined(
                &database,
                preference,
                depth,
                &session,
                observed.as_ref(),
                &mut commands,
            );
            let ran = ran.await;
            let mut errors = commands.iter().filter_map(PipelinedCommand::error);
            let refused = errors.find(|error| error.state_change().is_some());
            if let Some(error) = ran.as_ref().err().or(refused) {
                core.deployment().failed(&lease, error);
            }
            ran
        };
        let ran = timeout(limit, exchange).await;
        let why = ran.unwrap_or_else(|_| Err(Error::timeout(limit, Fate::NotSent))).err();
        match why {
            Some(error) if !is_connected => Err(error),
            why => Ok(commands.into_iter().map(|it| it.into_outcome(why.as_ref())).collect()),
        }
    }
}

impl IntoFuture for Pipeline {
    type Output = Result<Vec<Result<RawDocumentBuf>>>;
    type IntoFuture = Running<Self>;

    fn into_future(self) -> Self::IntoFuture {
        Running::new(self)
    }
}
