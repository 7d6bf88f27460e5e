//! Clients that take their hosts from a registry: the resolver of `local://` and `etcd://`, and the table of schemes.

use std::sync::Arc;

use ringway_rpc::{HostUpdates, Resolver, Resolving, Status, Verdict, register_scheme};
use ringway_runtime::{sleep, timeout};

use crate::contract::{Discovery, Freshness, ServiceWatch};
use crate::etcd::{EtcdConfig, EtcdRegistry};
use crate::limits;
use crate::local::Local;
use crate::sources::{dns, file};

/// Makes the addresses of discovery known to all clients of the process: `Client::connect("local://market")` and
/// those of the other schemes work from then on. Further calls do nothing new.
///
/// | address | source |
/// |---|---|
/// | `local://service` | [`Local::of_process`], the registry of this process |
/// | `etcd://host:port,host:port/service` | a cluster of etcd or a registry server; `etcds://` with TLS |
/// | `dns://host:port` | the addresses of a name; `dns://_service._tcp.name` for SRV records |
/// | `file:///path` | a file with a list, JSON or an address on each line |
///
/// ```
/// use ringway_discovery::{Endpoint, Local};
/// use ringway_rpc::Client;
///
/// ringway_discovery::install();
/// let market = Local::of_process().service("market");
/// let registration = market.register(Endpoint::new("tcp://10.0.0.1:9000"));
/// let client = Client::connect("local://market")?;
/// # Ok::<(), ringway_rpc::Status>(())
/// ```
pub fn install() {
    register_scheme("local", |address| {
        let service = service_of(address, "local://")?;
        Ok(Box::new(RegistryResolver::named(Arc::new(Local::of_process()), service, address)))
    });
    register_scheme("etcd", |address| of_etcd(address, ""));
    register_scheme("etcds", |address| of_etcd(address, "https://"));
    register_scheme("dns", dns::resolver);
    register_scheme("file", |address| Ok(Box::new(file::FileResolver::parse(address)?)));
}

/// The resolver of an address such as `etcd://10.0.0.1:2379,10.0.0.2:2379/market`.
fn of_etcd(address: &str, before_member: &str) -> Result<Box<dyn Resolver>, Status> {
    let (_, rest) = address.split_once("://").unwrap_or_default();
    let Some((members, service)) = rest.split_once('/').filter(|(_, service)| !service.is_empty())
    else {
        let why = format!("`{address}` names no service: write etcd://host:port,host:port/service");
        return Err(Status::invalid_argument(why));
    };
    if members.contains('@') {
        let why = "an address has no password: give `EtcdConfig::user` and a `RegistryResolver`";
        return Err(Status::invalid_argument(format!("the user of etcd://…/{service}: {why}")));
    }
    let members = members.split(',').map(|member| format!("{before_member}{member}"));
    let config =
        EtcdConfig::new(members).map_err(|error| Status::invalid_argument(error.to_string()))?;
    let registry = Arc::new(EtcdRegistry::new(config));
    Ok(Box::new(RegistryResolver::named(registry, service, address)))
}

fn service_of<'a>(address: &'a str, scheme: &str) -> Result<&'a str, Status> {
    match address.strip_prefix(scheme) {
        Some(service) if !service.is_empty() => Ok(service),
        _ => {
            let why = format!("`{address}` names no service: write {scheme}service");
            Err(Status::invalid_argument(why))
        }
    }
}

/// Tells a client the endpoints of a service in a registry.
///
/// ```
/// use ringway_discovery::{Local, RegistryResolver};
/// use ringway_rpc::Client;
///
/// let registry = Local::new();
/// let client = Client::builder().resolver(RegistryResolver::new(registry, "market")).build()?;
/// # Ok::<(), ringway_rpc::Status>(())
/// ```
pub struct RegistryResolver {
    registry: Arc<dyn Discovery>,
    service: String,
    name: String,
}

impl RegistryResolver {
    /// A resolver of this service.
    pub fn new(registry: impl Discovery + 'static, service: &str) -> Self {
        Self::named(Arc::new(registry), service, service)
    }

    /// A resolver with a name for messages.
    pub(crate) fn named(registry: Arc<dyn Discovery>, service: &str, name: &str) -> Self {
        Self { registry, service: service.to_owned(), name: name.to_owned() }
    }

    async fn follow(self: Box<Self>, updates: HostUpdates) {
        let mut wait = limits::RETRY_FIRST;
        let mut watch = loop {
            match self.registry.watch(&self.service, None) {
                Ok(watch) => break watch,
                // There may be no threads or descriptors for it at the moment.
                Err(error) => updates.failed(error),
            }
            sleep(wait).await;
            wait = (wait * 2).min(limits::RETRY_MAX);
        };
        loop {
            let mut is_held = tell(&*watch, &updates) == Some(Verdict::Held);
            while is_held {
                match timeout(HostUpdates::CONFIRM_AFTER, watch.changed()).await {
                    Ok(_changed) => is_held = tell(&*watch, &updates) == Some(Verdict::Held),
                    Err(_unchanged) => is_held = self.confirm(&updates).await == Verdict::Held,
                }
            }
            watch.changed().await;
        }
    }

    /// Reads the list anew, as often as that fails.
    async fn confirm(&self, updates: &HostUpdates) -> Verdict {
        loop {
            let read = timeout(limits::SNAPSHOT_TIMEOUT, self.registry.snapshot(&self.service));
            match read.await {
                Ok(Ok(snapshot)) => {
                    return updates.set(snapshot.endpoints.iter().map(|it| it.to_host()));
                }
                Ok(Err(error)) => updates.failed(error),
                Err(_late) => updates.failed("it does not answer"),
            }
            sleep(HostUpdates::CONFIRM_AFTER).await;
        }
    }
}

impl Resolver for RegistryResolver {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn run(self: Box<Self>, updates: HostUpdates) -> Resolving {
        Box::pin(self.follow(updates))
    }
}

/// Tells what the watch knows.
fn tell(watch: &dyn ServiceWatch, updates: &HostUpdates) -> Option<Verdict> {
    match watch.freshness() {
        Freshness::Unknown(None) => None,
        Freshness::Unknown(Some(error)) | Freshness::Stale(error) => {
            updates.failed(error);
            None
        }
        Freshness::Current => {
            let hosts = watch.endpoints().iter().map(|endpoint| endpoint.to_host());
            Some(if watch.is_confirmed() {
                updates.set_confirmed(hosts)
            } else {
                updates.set(hosts)
            })
        }
    }
}
