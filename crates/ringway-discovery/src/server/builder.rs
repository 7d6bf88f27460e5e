//! Registries that keep their keys in a folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use ringway_runtime as runtime;

use super::durable::LogState;
use super::{Notice, Registry, member_urls};
use crate::endpoint::Error;
use crate::limits;
use crate::log::{Folder, Recovered, recover};
use crate::store::Revision;

/// The configuration of a registry; made by [`Registry::builder`].
#[derive(Default)]
#[must_use = "nothing happens before `open`"]
pub struct RegistryBuilder {
    data: Option<PathBuf>,
    notice: Option<Notice>,
    on_failure: Option<Notice>,
    advertised: Vec<String>,
    first: Option<Revision>,
}

impl RegistryBuilder {
    /// Keeps the keys in a folder, which is made where there is none. A change is answered, and seen by watches, when
    /// it is on the disk. Without a folder the keys are in memory.
    pub fn data(mut self, folder: impl AsRef<Path>) -> Self {
        self.data = Some(folder.as_ref().to_owned());
        self
    }

    /// Tells clients that ask for the members of the cluster these addresses, each `http://host:port` or
    /// `https://host:port`. Without them they are told the addresses that the server listens on, and instead of
    /// `0.0.0.0` or `::` the one that they have connected to, which is not what they need where ports are mapped.
    pub fn advertise_client_urls(
        mut self,
        urls: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        self.advertised.extend(urls.into_iter().map(Into::into));
        self
    }

    /// Calls this with what whoever operates the registry should know: that a write was not completed before the
    /// start, that a snapshot cannot be made, that the disk is full and has room again, that the log has failed and nothing is
    /// changed any more. Without it these
    /// are events of `tracing`.
    pub fn on_notice(mut self, notice: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.notice = Some(Arc::new(notice));
        self
    }

    /// Calls this with the reason when the log has failed for good, so that nothing is changed any more: the process
    /// should end and be started again. A full disk is no such failure, since changes are taken again when there is room.
    pub fn on_failure(mut self, failed: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_failure = Some(Arc::new(failed));
        self
    }

    /// Sets the revision of a registry that has no keys yet. The default is 1 in a folder, as in etcd, and in memory the time in
    /// microseconds since 1970: so a registry in memory that is started again has higher revisions than before, and a watch
    /// of a client that goes on from there hears that they are compacted, instead of missing changes.
    pub fn first_revision(mut self, first: Revision) -> Self {
        self.first = Some(first.max(Revision::FIRST));
        self
    }

    /// Opens the registry with everything that its folder has. Its leases have their whole time again, as after an
    /// election of etcd: a renewal that was answered holds, although it was not logged.
    ///
    /// # Errors
    /// Fails if another process has the folder, if the disk fails, if `/proc` is not mounted, by which the folder is held whatever
    /// becomes of its name, and if a file is damaged or missing; the error names
    /// the file and the place. A write that was not completed is cut off and is no error. Fails also if an address that is
    /// to be advertised is malformed, or means all addresses of the machine.
    ///
    /// # Panics
    /// Outside of a runtime's thread, if there is a folder.
    pub async fn open(mut self) -> Result<Registry, Error> {
        let urls = std::mem::take(&mut self.advertised);
        urls.iter().try_for_each(|url| member_urls::check(url)).map_err(Error::new)?;
        let registry = match &self.data {
            None => {
                let first = self.first.unwrap_or_else(revision_of_now);
                Registry::make_at(first, self.notice, self.on_failure)
            }
            Some(data) => {
                let folder = Folder::open(data).await?;
                self.open_in(folder).await?
            }
        };
        let mut state = registry.state();
        (state.is_advertised, state.urls) = (!urls.is_empty(), urls);
        drop(state);
        Ok(registry)
    }

    pub(crate) async fn open_in(self, folder: Folder) -> Result<Registry, Error> {
        let Recovered { mut store, writer, clock, notice } =
            recover(folder, self.first.unwrap_or(Revision::FIRST)).await?;
        store.prolong_leases(Duration::MAX, clock);
        store.keep_journal();
        let (ids, now) = (writer.ids(), runtime::now());
        let registry = Registry::make_with(self.notice, self.on_failure, ids, clock, now);
        if let Some(notice) = notice {
            registry.notice(&notice);
        }
        let mut state = registry.state();
        state.log = Some(LogState::new(writer, store.revision()));
        state.store = store;
        drop(state);
        Ok(registry)
    }
}

/// The time as a revision: far more microseconds pass than changes are made. A clock that is set back is not noticed.
pub(super) fn revision_of_now() -> Revision {
    let since = UNIX_EPOCH.elapsed().unwrap_or_default();
    let micros = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
    Revision(micros.clamp(Revision::FIRST.0, limits::FIRST_REVISION_MAX))
}
