//! A connection on loan.

use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use super::Pool;
use crate::connection::ServerConnection;
use crate::observer::ObservedServer;
use crate::options::ClientOptions;
use crate::pool_events::PoolChange;

/// A connection that belongs to one operation. Dropping it, at whatever moment, gives it back: at once if
/// it waits for nothing, otherwise when the reply has come that nobody wants any more.
pub(crate) struct Lease {
    pool: Rc<Pool>,
    /// Taken by `drop` only.
    connection: Option<ServerConnection>,
    generation: u64,
}

impl Lease {
    /// The pool counts the connection as one in use.
    pub(super) fn new(pool: Rc<Pool>, connection: ServerConnection, generation: u64) -> Self {
        Self { pool, connection: Some(connection), generation }
    }

    pub(crate) fn pool(&self) -> &Rc<Pool> {
        &self.pool
    }

    /// Who is told of commands on it, if anybody is.
    pub(crate) fn observed(&self, options: &ClientOptions) -> Option<ObservedServer> {
        let service = self.service().map(|service| service.id);
        let of = |observer| ObservedServer::new(observer, self.pool.address(), service);
        options.observer.as_ref().map(of)
    }

    /// The generation of its connection.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }
}

impl Deref for Lease {
    type Target = ServerConnection;

    fn deref(&self) -> &ServerConnection {
        self.connection.as_ref().expect("taken by `drop` only")
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut ServerConnection {
        self.connection.as_mut().expect("taken by `drop` only")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.pool.telling.tell(PoolChange::CheckedIn { connection: connection.number() });
            self.pool.give_back(connection, self.generation);
        }
    }
}
