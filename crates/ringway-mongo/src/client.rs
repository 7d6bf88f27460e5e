//! Clients.

use std::fmt;
use std::rc::Rc;

use crate::client_core::ClientCore;
use crate::database::Database;
use crate::error::Result;
use crate::options::ClientOptions;
use crate::pool::PoolCounts;

/// A client of one MongoDB server, with a pool of connections. It belongs to the core that made it; clones
/// share the pool.
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
    core: Rc<ClientCore>,
    options: Rc<ClientOptions>,
}

impl Client {
    /// Makes a client. Nothing is connected yet.
    ///
    /// # Panics
    /// Panics outside of a runtime's thread.
    #[must_use]
    pub fn new(options: ClientOptions) -> Self {
        let options = Rc::new(options);
        Self { core: ClientCore::start(&options), options }
    }

    /// Makes a client by a connection string. Nothing is connected yet.
    ///
    /// # Errors
    /// Those of [`ClientOptions::parse`].
    ///
    /// # Panics
    /// Panics outside of a runtime's thread.
    pub fn connect(uri: &str) -> Result<Self> {
        Ok(Self::new(ClientOptions::parse(uri)?))
    }

    /// The database that the connection string names.
    #[must_use]
    pub fn default_database(&self) -> Option<Database> {
        self.options.database.as_deref().map(|name| self.database(name))
    }

    /// A database by its name. Nothing is sent.
    #[must_use]
    pub fn database(&self, name: &str) -> Database {
        Database::new(Rc::clone(&self.core), name)
    }

    /// What the pool of this client has done.
    #[must_use]
    pub fn pool_counts(&self) -> PoolCounts {
        self.core.pool().counts()
    }

    /// Connections that wait for an operation.
    #[must_use]
    pub fn idle_connections(&self) -> usize {
        self.core.pool().idle_count()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("address", &self.options.address).finish_non_exhaustive()
    }
}
