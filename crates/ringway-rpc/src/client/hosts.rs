//! The servers of a client: how users describe them, and how the list changes.
//!
//! A host is identified by its address. Policies distribute calls in proportion to the hosts' weights,
//! which range from 1 to 100 and default to 1. A client has 1 to 1,024 hosts. If an address is given
//! twice, the last weight wins.
//!
//! The list of a running client may be changed from any thread. The new list goes into the
//! [registry](super::registry), and every core with a pool of the client is notified; a core that makes a
//! pool later finds the new list. Calls take no lock for that, and none fails because of it:
//!
//! - A host that stays keeps its connections and statistics.
//! - A new host is connected lazily, and its latency starts as the mean of the others; with the default
//!   policy its share ramps up.
//! - A host that leaves gets no new calls, retries included. Its running calls and streams finish, then
//!   its connections are closed.
//! - An empty list is refused and changes nothing. A [resolver](super::resolve) may find no hosts: its client has
//!   an empty list then, and calls wait for the first host.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::server_address::ServerAddress;
use crate::call::status::Status;

/// A server that a client calls: its address, its weight in balancing, and what else is known of it.
///
/// ```
/// use ringway_rpc::{Host, HostStatus};
///
/// let host = Host::new("tcp://10.0.0.1:9000")?.weight(3).zone("eu-1").version("2.1").with("rack", "7");
/// assert_eq!(host.address().to_string(), "tcp://10.0.0.1:9000");
/// assert_eq!(host.status_of(), HostStatus::Serving);
/// assert_eq!(host.metadata("rack"), Some("7"));
/// # Ok::<(), ringway_rpc::Status>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    pub(super) address: ServerAddress,
    pub(super) weight: u32,
    pub(super) status: HostStatus,
    pub(super) about: Arc<About>,
}

/// What is known of a host beside its address, weight and status.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct About {
    pub(super) zone: String,
    pub(super) version: String,
    pub(super) metadata: BTreeMap<String, String>,
}

/// Whether a host takes calls.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub enum HostStatus {
    /// It takes calls.
    #[default]
    Serving,
    /// It finishes its calls and gets no new ones.
    Draining,
    /// It gets no calls for now, unless no host of the list is serving.
    Unavailable,
}

impl Host {
    /// A serving host of weight 1, at one of the addresses that [`ServerAddress`] lists.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when the address is malformed.
    pub fn new<A>(address: A) -> Result<Self, Status>
    where
        A: TryInto<ServerAddress>,
        Status: From<A::Error>,
    {
        let address = address.try_into()?;
        Ok(Self { address, weight: 1, status: HostStatus::Serving, about: Arc::default() })
    }

    /// Sets the weight, from 1 to 100: the host gets `weight` times as many calls as one of weight 1. The
    /// range is checked when the host is given to a client.
    #[must_use]
    pub fn weight(mut self, weight: u32) -> Self {
        self.weight = weight;
        self
    }

    /// Sets the zone. Clients [of the same zone](crate::ClientBuilder::zone) prefer it.
    #[must_use]
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.about).zone = zone.into();
        self
    }

    /// Sets the version of the service.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.about).version = version.into();
        self
    }

    /// Adds an entry of metadata, which [`ClientBuilder::only`](crate::ClientBuilder::only) may look at.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.about).metadata.insert(key.into(), value.into());
        self
    }

    /// Sets whether the host takes calls.
    #[must_use]
    pub fn status(mut self, status: HostStatus) -> Self {
        self.status = status;
        self
    }

    /// The address of the host.
    pub fn address(&self) -> &ServerAddress {
        &self.address
    }

    /// The weight in balancing.
    pub fn weight_of(&self) -> u32 {
        self.weight
    }

    /// The zone; empty if it is not known.
    pub fn zone_of(&self) -> &str {
        &self.about.zone
    }

    /// The version of the service; empty if it is not known.
    pub fn version_of(&self) -> &str {
        &self.about.version
    }

    /// An entry of metadata.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.about.metadata.get(key).map(String::as_str)
    }

    /// Whether the host takes calls.
    pub fn status_of(&self) -> HostStatus {
        self.status
    }
}

/// The hosts that a client calls, each once, in the order in which they were given.
pub(super) type HostList = Arc<[ListedHost]>;

/// A host as pools use it.
#[derive(Clone)]
pub(super) struct ListedHost {
    pub(super) address: ServerAddress,
    pub(super) weight: u32,
    /// Whether other hosts are called only where the near ones cannot take a call.
    pub(super) is_near: bool,
    /// Connects to the host.
    pub(super) dial: ringway_net::Client,
}
