//! A registry on etcd, or on a registry server.

use std::sync::Arc;
use std::time::Duration;

use super::config::EtcdConfig;
use super::failure::{Failure, Fault};
use super::keys::ServiceKeys;
use super::listing::Listing;
use super::members::Members;
use super::own_core;
use super::range;
use super::registering::Registering;
use super::registration::{EtcdRegistration, Wanted};
use super::shared::SharedState;
use super::watch::{EtcdWatch, Published};
use super::watching::Watching;
use crate::contract::{Answer, Discovery, Freshness, Registration, ServiceSnapshot, ServiceWatch};
use crate::endpoint::{Endpoint, Error};
use crate::limits;
use crate::store::Revision;

/// A registry on a cluster of etcd, or on a [registry server](crate::Registry); cheap to clone, usable on any thread.
///
/// It connects at first use. Registrations and watches live in a thread of their own.
///
/// ```no_run
/// use std::time::Duration;
/// use ringway_discovery::{Discovery, Endpoint, EtcdConfig, EtcdRegistry};
///
/// # async fn run() -> Result<(), ringway_discovery::Error> {
/// let registry = EtcdRegistry::new(EtcdConfig::new(["10.0.0.1:2379", "10.0.0.2:2379"])?);
/// let endpoint = Endpoint::new("tcp://10.0.1.1:9000").zone("eu-1");
/// let mut registration = registry.register("market", endpoint, Duration::from_secs(10))?;
/// registration.registered().await?;
/// let mut watch = registry.watch("market", None)?;
/// loop {
///     for change in watch.changed().await {
///         println!("{change:?}");
///     }
/// }
/// # }
/// ```
#[derive(Clone)]
pub struct EtcdRegistry {
    members: Arc<Members>,
}

impl EtcdRegistry {
    /// A registry with this configuration.
    pub fn new(config: EtcdConfig) -> Self {
        Self { members: Arc::new(Members::new(config)) }
    }

    fn keys(&self, service: &str) -> Result<ServiceKeys, Error> {
        ServiceKeys::new(&self.members.config.namespace, service)
    }
}

impl Discovery for EtcdRegistry {
    fn check(&self, service: &str, endpoint: &Endpoint, ttl: Duration) -> Result<(), Error> {
        self.keys(service)?;
        let (least, most) = (limits::LEASE_TTL_MIN, limits::REGISTRATION_TTL_MAX);
        if !(least..=most).contains(&ttl) {
            return Err(Error::new(format!("the TTL is {ttl:?}, not {least:?} to {most:?}")));
        }
        Endpoint::from_json(endpoint.to_json().as_bytes()).map(drop)
    }

    fn register(
        &self,
        service: &str,
        endpoint: Endpoint,
        ttl: Duration,
    ) -> Result<Box<dyn Registration>, Error> {
        self.check(service, &endpoint, ttl)?;
        let keys = self.keys(service)?;
        let shared = Arc::new(SharedState::new(Wanted::new(endpoint)));
        let (members, of_task) = (Arc::clone(&self.members), Arc::clone(&shared));
        drop(own_core::spawn(async move || {
            Registering::new(members, of_task, keys, ttl).run().await;
        })?);
        Ok(Box::new(EtcdRegistration { shared, told: None }))
    }

    /// Members are asked in turn, for as long as two requests may take.
    fn snapshot(&self, service: &str) -> Answer<'_, Result<ServiceSnapshot, Error>> {
        let (members, keys) = (Arc::clone(&self.members), self.keys(service));
        Box::pin(async move {
            let keys = keys?;
            let reading = own_core::spawn(async move || snapshot(&members, &keys).await)?;
            reading.await.unwrap_or_else(|error| Err(Error::new(error.to_string())))
        })
    }

    fn watch(
        &self,
        service: &str,
        from: Option<ServiceSnapshot>,
    ) -> Result<Box<dyn ServiceWatch>, Error> {
        let keys = self.keys(service)?;
        let (revision, mut known) = match from {
            Some(snapshot) => (snapshot.revision.0, snapshot.endpoints),
            None => (0, Vec::new()),
        };
        known.sort_by(|one, other| one.address().cmp(other.address()));
        known.dedup_by(|one, other| one.address() == other.address());
        let freshness = Freshness::Unknown(None);
        let shared = Arc::new(SharedState::new(Published {
            endpoints: known.clone(),
            revision,
            freshness: freshness.clone(),
            is_confirmed: false,
            is_new: false,
            is_dropped: false,
        }));
        let (members, of_task) = (Arc::clone(&self.members), Arc::clone(&shared));
        drop(own_core::spawn(async move || Watching::new(members, of_task, keys).run().await)?);
        Ok(Box::new(EtcdWatch { shared, known, revision, freshness, is_confirmed: false }))
    }
}

async fn snapshot(members: &Members, keys: &ServiceKeys) -> Result<ServiceSnapshot, Error> {
    let attempts = members.config.members.len().max(2);
    let mut last = Failure::of_member("nobody was asked");
    for _ in 0..attempts {
        match range::read(members, keys).await {
            Ok(listed) => {
                let mut listing = Listing::new(keys.clone());
                listing.replace(listed)?;
                let revision = Revision(listing.revision());
                return Ok(ServiceSnapshot { revision, endpoints: listing.endpoints() });
            }
            Err(failure) if failure.fault == Fault::Member => last = failure,
            Err(failure) => return Err(failure.error),
        }
    }
    Err(last.error)
}
