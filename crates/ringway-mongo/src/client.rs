//! Clients.

use std::fmt;
use std::sync::Arc;

use bson::{Document, rawdoc};

use crate::action::{ClientBulkWrite, ListDatabases, NamespacedWrite, Shutdown};
use crate::change_stream::Watch;
use crate::client_shared::ClientShared;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::options::{ClientOptions, DriverInfo};
use crate::pool::PoolCounts;
use crate::raw_argument::IntoRaw;
use crate::running::Running;
use crate::topology::ServerDescription;
use crate::transaction::ClientSession;

/// A client of a MongoDB deployment, for any thread; clones are the same client.
///
/// On a core of Ringway, operations run right there, over a pool of connections that the core has for itself.
/// Tasks of tokio and plain threads use the same methods: their operations run on a core in the background.
/// A plain thread blocks with [`wait`](crate::Wait::wait) instead of awaiting.
///
/// Connections are made when operations need them. Every operation has one deadline over all that it does,
/// [`ClientOptions::timeout`], and may be dropped at any moment.
///
/// ```no_run
/// use bson::doc;
/// use ringway_mongo::{Client, ClientOptions};
///
/// # ringway_runtime::block_on(async {
/// let client = Client::new(ClientOptions::parse("mongodb://127.0.0.1")?);
/// let books = client.database("shop").collection::<bson::Document>("books");
/// books.insert_one(&doc! { "title": "Emma", "year": 1815 }).await?;
/// let emma = books.find_one(doc! { "title": "Emma" }).await?;
/// assert!(emma.is_some());
/// # Ok::<(), ringway_mongo::Error>(())
/// # })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Client {
    shared: Arc<ClientShared>,
}

impl Client {
    /// Makes a client. Nothing is connected yet.
    #[must_use]
    pub fn new(options: ClientOptions) -> Self {
        Self { shared: ClientShared::new(options) }
    }

    pub(crate) fn of(shared: &Arc<ClientShared>) -> Self {
        Self { shared: Arc::clone(shared) }
    }

    /// Makes a client by a connection string. Nothing is connected yet.
    ///
    /// # Errors
    /// Those of [`ClientOptions::parse`].
    pub fn connect(uri: &str) -> Result<Self> {
        Ok(Self::new(ClientOptions::parse(uri)?))
    }

    /// The database that the connection string names.
    #[must_use]
    pub fn default_database(&self) -> Option<Database> {
        self.shared.options.database.as_deref().map(|name| self.database(name))
    }

    /// A database by its name. Nothing is sent.
    #[must_use]
    pub fn database(&self, name: &str) -> Database {
        Database::new(&self.shared, name)
    }

    /// Watches the changes of all databases.
    pub fn watch(&self) -> Watch<Document> {
        Watch::new(&self.shared, "admin".into(), None).of_cluster()
    }

    /// Does many writes to several collections in as few commands as possible, at servers from MongoDB 8.0 on.
    ///
    /// ```no_run
    /// use bson::doc;
    /// use ringway_mongo::{Client, WriteModel};
    ///
    /// # async fn sell(client: Client) -> ringway_mongo::Result {
    /// let shop = client.database("shop");
    /// let (books, sales) = (shop.collection::<bson::Document>("books"), shop.collection::<bson::Document>("sales"));
    /// let sold = client
    ///     .bulk_write([
    ///         books.model(WriteModel::update_one(doc! { "_id": 7 }, doc! { "$inc": { "left": -1 } })),
    ///         sales.model(WriteModel::insert_one(&doc! { "book": 7 })),
    ///     ])
    ///     .await?;
    /// assert_eq!((sold.modified, sold.inserted), (1, 1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn bulk_write(&self, writes: impl IntoIterator<Item = NamespacedWrite>) -> ClientBulkWrite {
        ClientBulkWrite::new(&self.shared, writes)
    }

    /// Makes a session, for operations that belong together. Nothing is sent.
    #[must_use]
    pub fn start_session(&self) -> ClientSession {
        ClientSession::new(&self.shared)
    }

    /// Lists the databases that match a filter; awaiting it returns a document for each. The primary answers, whatever the
    /// read preference.
    pub fn list_databases(&self, filter: impl IntoRaw) -> ListDatabases {
        ListDatabases::new(&self.shared, filter.into_raw())
    }

    /// Lists the names of all databases.
    ///
    /// # Errors
    /// Those of every operation.
    pub fn list_database_names(&self) -> impl Future<Output = Result<Vec<String>>> + Send + use<> {
        let listed = self.list_databases(rawdoc! {}).name_only(true);
        async move {
            let name = |listed: Document| listed.get_str("name").map(str::to_owned);
            listed.await?.into_iter().map(name).collect::<Result<_, _>>().map_err(Error::decoding)
        }
    }

    /// Ends the client: its server is told of the end of all sessions that no operation uses any more, and connections are
    /// closed with the last handle of the client. This waits a second at most; what the server was not told, it finds out
    /// by itself, after half an hour.
    ///
    /// Dropping the last handle does the same in the background, so this is for programs that end right afterwards.
    /// Sessions of other handles that still run operations are left to the server.
    ///
    /// # Errors
    /// None of the server. [`is_network`](Error::is_network): there is no core that could do it.
    pub fn shutdown(self) -> Running<Shutdown> {
        Running::new(Shutdown::new(self.shared))
    }

    /// Has servers told of a library that wraps this client, on each connection that is made from now on. What was
    /// appended before is not told twice.
    ///
    /// # Errors
    /// Those of [`ClientOptions::driver_info`].
    pub fn append_driver_info(&self, info: DriverInfo) -> Result {
        self.shared.metadata.append(info)
    }

    /// What the pools of this client have done: on a core those of that core, elsewhere those of all cores.
    #[must_use]
    pub fn pool_counts(&self) -> PoolCounts {
        let views = self.shared.views();
        views.iter().fold(PoolCounts::default(), |all, view| view.add_counts(all))
    }

    /// What is known of each server, in the order of their addresses: on a core what that core knows, elsewhere what any
    /// core of the client knows, which is nothing before the first operation. It is up to date within the heartbeat of
    /// the connection string, 10 s by default.
    #[must_use]
    pub fn servers(&self) -> Vec<ServerDescription> {
        let mut servers = Vec::new();
        self.shared.views().iter().for_each(|view| view.add_servers(&mut servers));
        servers
    }

    /// Connections that wait for an operation: on a core those of that core, elsewhere those of all cores.
    #[must_use]
    pub fn idle_connections(&self) -> usize {
        self.shared.views().iter().map(|view| view.idle_count()).sum()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.shared.options;
        f.debug_struct("Client").field("seeds", &options.seeds.addresses()).finish_non_exhaustive()
    }
}
