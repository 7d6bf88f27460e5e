//! Databases.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bson::{Document, RawDocumentBuf, rawdoc};

use crate::action::{
    Command, CommandCursor, CommandReplied, CreateCollection, Fields, Multiplexed, Ping, Pipeline,
    names, writes,
};
use crate::change_stream::Watch;
use crate::client::Client;
use crate::client_core::Purpose;
use crate::client_shared::ClientShared;
use crate::collection::Collection;
use crate::collection_shared::Concerns;
use crate::error::Result;
use crate::gridfs::GridFs;
use crate::raw_argument::{IntoRaw, array};
use crate::reads::Reads;
use crate::running::Running;
use crate::uri::{ReadConcern, ReadPreference, WriteConcern};

/// A database of a server. It costs nothing to make; clones share the client.
#[derive(Clone)]
pub struct Database {
    client: Arc<ClientShared>,
    name: Arc<str>,
    /// Those of its collections, and of its own commands.
    concerns: Concerns,
}

impl Database {
    pub(crate) fn new(client: &Arc<ClientShared>, name: &str) -> Self {
        let concerns = Concerns::of(client);
        Self { client: Arc::clone(client), name: name.into(), concerns }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same database, whose operations, and those of its collections, have another time than the client's
    /// ([`ClientOptions::timeout`](crate::ClientOptions::timeout)).
    #[must_use]
    pub fn timeout(&self, limit: Duration) -> Self {
        self.with_concerns(|concerns| concerns.time = Some(limit))
    }

    /// The same database, whose collections have another concern for their reads than the client.
    #[must_use]
    pub fn read_concern(&self, concern: &ReadConcern) -> Self {
        let document = RawDocumentBuf::try_from(&concern.to_document());
        let read = document.expect("the level of a read concern is text");
        self.with_concerns(|concerns| concerns.read = Some(read))
    }

    /// The same database, the reads of whose collections are answered by other members of a replica set. Commands
    /// ([`run_command`](Self::run_command)) have a preference of their own.
    ///
    /// # Errors
    /// [`is_options`](crate::Error::is_options): tags or a lag are asked of the primary.
    pub fn read_preference(&self, preference: &ReadPreference) -> Result<Self> {
        let reads = Arc::new(Reads::new(preference)?);
        Ok(self.with_concerns(|concerns| concerns.reads = Some(reads)))
    }

    /// The same database with another concern for its writes and those of its collections.
    ///
    /// # Errors
    /// [`is_document`](crate::Error::is_document): the concern cannot be encoded.
    pub fn write_concern(&self, concern: &WriteConcern) -> Result<Self> {
        // That of the server is not told. Specification: Read and Write Concern, "Server's Default WriteConcern".
        let is_own = !concern.is_server_default();
        let write = is_own.then(|| crate::options::write_concern(concern)).transpose()?;
        Ok(self.with_concerns(|concerns| concerns.write = write))
    }

    fn with_concerns(&self, change: impl FnOnce(&mut Concerns)) -> Self {
        let mut changed = self.clone();
        change(&mut changed.concerns);
        changed
    }

    /// The client.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::of(&self.client)
    }

    /// A collection by its name, whose documents are read as `T`. Nothing is sent.
    #[must_use]
    pub fn collection<T>(&self, name: &str) -> Collection<T> {
        let concerns = self.concerns.clone();
        Collection::new(Arc::clone(&self.client), Arc::clone(&self.name), name, concerns)
    }

    /// The files of this database, in the bucket `fs`.
    #[must_use]
    pub fn gridfs(&self) -> GridFs {
        self.gridfs_bucket("fs")
    }

    /// The files of a bucket of this database.
    #[must_use]
    pub fn gridfs_bucket(&self, bucket: &str) -> GridFs {
        let files = self.collection(&format!("{bucket}.files"));
        GridFs::new(files, self.collection(&format!("{bucket}.chunks")))
    }

    /// Runs any command, whose first field is its name, and returns the reply, whose `ok` is 1. Errors of
    /// writes inside of it are in the reply.
    ///
    /// # Errors
    /// The server answers with `ok: 0` ([`Error::server`](crate::Error::server)), or no reply comes.
    pub fn run_command(&self, command: impl IntoRaw) -> Running<CommandReplied> {
        self.command(command.into_raw(), Purpose::ReadOnce).reply()
    }

    /// Runs any command whose reply has a cursor, such as `checkMetadataConsistency`, and returns that cursor. What its
    /// further batches are asked for with is set at the action.
    ///
    /// # Errors
    /// Those of [`run_command`](Self::run_command); [`is_protocol`](crate::Error::is_protocol): the reply has no cursor.
    pub fn run_cursor_command(&self, command: impl IntoRaw) -> Running<CommandCursor<Document>> {
        self.command(command.into_raw(), Purpose::ReadOnce).cursor()
    }

    /// Asks the server whether it is there.
    ///
    /// # Errors
    /// Those of [`run_command`](Self::run_command).
    pub fn ping(&self) -> impl Future<Output = Result> + Send + use<> {
        let (client, database) = (Arc::clone(&self.client), Arc::clone(&self.name));
        Running::new(Ping { client, database })
    }

    /// Begins a pipeline: commands that are sent on one connection without waiting for each other's answers.
    pub fn pipeline(&self) -> Pipeline {
        Pipeline::new(&self.client, &self.name)
    }

    /// A handle whose commands share a connection of their core with those of other tasks.
    pub fn multiplexed(&self) -> Multiplexed {
        Multiplexed::new(&self.client, &self.name)
    }

    /// Passes what the server itself has through the stages of a pipeline, which begins with such as
    /// `$currentOp` or `$listLocalSessions`. Those of documents are [`Collection::aggregate`].
    ///
    /// # Errors
    /// Those of every operation.
    pub fn aggregate<S: IntoRaw>(
        &self,
        stages: impl IntoIterator<Item = S>,
    ) -> Running<CommandCursor<Document>> {
        let stages = array(stages);
        let is_write = stages.as_ref().is_ok_and(writes);
        let purpose = if is_write { Purpose::WriteOnce } else { Purpose::Read };
        let mut command = Fields::default();
        command.set("aggregate", 1);
        command.set_raw("pipeline", stages);
        command.set("cursor", RawDocumentBuf::new());
        self.command(command.into_document(), purpose).cursor()
    }

    /// Lists the collections that match a filter, with their options. The primary answers, whatever the read preference.
    ///
    /// # Errors
    /// Those of every operation.
    pub fn list_collections(&self, filter: impl IntoRaw) -> Running<CommandCursor<Document>> {
        self.list(filter.into_raw(), false)
    }

    /// Lists the names of all collections.
    ///
    /// # Errors
    /// Those of every operation.
    pub fn list_collection_names(
        &self,
    ) -> impl Future<Output = Result<Vec<String>>> + Send + use<> {
        names(self.list(Ok(rawdoc! {}), true))
    }

    /// Watches the changes of all collections.
    pub fn watch(&self) -> Watch<Document> {
        Watch::new(&self.client, Arc::clone(&self.name), None).concerned(&self.concerns)
    }

    /// Makes a collection, which needs to be done only if it is to have options.
    pub fn create_collection(&self, name: &str) -> CreateCollection {
        CreateCollection::new(&self.client, &self.name, name, &self.concerns)
    }

    /// Removes the database with all of its collections.
    ///
    /// # Errors
    /// Those of [`run_command`](Self::run_command).
    pub fn drop(&self) -> impl Future<Output = Result> + Send + use<> {
        let command = Ok(rawdoc! { "dropDatabase": 1 });
        let dropped = self.command(command, Purpose::WriteOnce).reply();
        async move { dropped.await.map(drop) }
    }

    fn list(
        &self,
        filter: Result<RawDocumentBuf>,
        is_only_name: bool,
    ) -> Running<CommandCursor<Document>> {
        let mut command = Fields::default();
        command.set("listCollections", 1);
        command.set("cursor", RawDocumentBuf::new());
        match filter {
            Ok(filter) if filter.is_empty() => {}
            filter => command.set_document("filter", filter),
        }
        if is_only_name {
            command.set("nameOnly", true);
        }
        self.command(command.into_document(), Purpose::Read).at_primary().cursor()
    }

    fn command(&self, command: Result<RawDocumentBuf>, purpose: Purpose) -> Command {
        let Concerns { write, time, .. } = &self.concerns;
        Command::new(&self.client, &self.name, command, purpose)
            .concerned(write.as_ref())
            .within(*time)
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Database({})", self.name)
    }
}
