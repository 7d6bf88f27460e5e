//! Databases.

use std::fmt;
use std::rc::Rc;

use bson::{RawDocumentBuf, rawdoc};

use crate::client_core::ClientCore;
use crate::collection::Collection;
use crate::error::Result;
use crate::raw_argument::IntoRaw;

/// A database of a server. It costs nothing to make; clones share the client.
#[derive(Clone)]
pub struct Database {
    core: Rc<ClientCore>,
    name: Rc<str>,
}

impl Database {
    pub(crate) fn new(core: Rc<ClientCore>, name: &str) -> Self {
        Self { core, name: name.into() }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A collection by its name, whose documents are read as `T`. Nothing is sent.
    #[must_use]
    pub fn collection<T>(&self, name: &str) -> Collection<T> {
        Collection::new(Rc::clone(&self.core), &self.name, name)
    }

    /// Runs any command, whose first field is its name, and returns the reply, whose `ok` is 1. Errors of
    /// writes inside of it are in the reply.
    ///
    /// # Errors
    /// The server answers with `ok: 0` ([`Error::server`](crate::Error::server)), or no reply comes.
    pub async fn run_command(&self, command: impl IntoRaw) -> Result<RawDocumentBuf> {
        let command = command.into_raw()?;
        let write = |slot: crate::client_core::Slot<'_>| slot.write_any(&command, &self.name);
        self.core.run(write, |answer| Ok(answer.body().to_owned())).await
    }

    /// Asks the server whether it is there.
    ///
    /// # Errors
    /// Those of [`run_command`](Self::run_command).
    pub async fn ping(&self) -> Result {
        let ping = rawdoc! { "ping": 1 };
        self.core.run(|slot| slot.write_any(&ping, &self.name), |_| Ok(())).await
    }

    /// Removes the database with all of its collections.
    ///
    /// # Errors
    /// Those of [`run_command`](Self::run_command).
    pub async fn drop(&self) -> Result {
        self.run_command(rawdoc! { "dropDatabase": 1 }).await.map(drop)
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Database({})", self.name)
    }
}
