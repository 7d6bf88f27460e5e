//! The thread that looks up names for all clients of the process. The library runs on tokio; a core never waits for it.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use hickory_resolver::config::{NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;
use hickory_resolver::{Resolver, TokioResolver};
use tokio::sync::{mpsc, oneshot};

use crate::limits;

/// What is looked up.
pub(super) struct Query {
    pub(super) name: String,
    /// The port of the hosts; `None` if SRV records have it.
    pub(super) port: Option<u16>,
    /// The name server to ask, instead of the system's.
    pub(super) server: Option<SocketAddr>,
}

/// What was found: one host or more.
pub(super) struct Found {
    pub(super) hosts: Vec<FoundHost>,
    /// When the first record ends.
    pub(super) valid_until: Instant,
}

pub(super) struct FoundHost {
    pub(super) at: SocketAddr,
    pub(super) weight: u32,
}

type LookedUp = Result<Found, String>;

struct Job {
    query: Query,
    answer: oneshot::Sender<LookedUp>,
}

static THREAD: Mutex<Option<mpsc::Sender<Job>>> = Mutex::new(None);

/// Looks up a name. Dropping the future gives it up.
pub(super) async fn look_up(query: Query) -> LookedUp {
    let (answer, answered) = oneshot::channel();
    let jobs = jobs().map_err(|error| format!("the thread for DNS cannot be started: {error}"))?;
    if jobs.try_send(Job { query, answer }).is_err() {
        return Err("too many names are being looked up".to_owned());
    }
    answered.await.unwrap_or_else(|_| Err("the thread for DNS has ended".to_owned()))
}

/// The queue of the thread, which is started at first use.
fn jobs() -> std::io::Result<mpsc::Sender<Job>> {
    let mut thread = THREAD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(jobs) = thread.as_ref().filter(|jobs| !jobs.is_closed()) {
        return Ok(jobs.clone());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (jobs, mut queue) = mpsc::channel::<Job>(limits::DNS_QUERIES_MAX);
    let serve = async move {
        while let Some(Job { query, mut answer }) = queue.recv().await {
            tokio::spawn(async move {
                tokio::select! {
                    () = answer.closed() => {}
                    found = answer_of(query) => drop(answer.send(found)),
                }
            });
        }
    };
    thread::Builder::new().name("ringway-dns".into()).spawn(move || runtime.block_on(serve))?;
    Ok(thread.insert(jobs).clone())
}

async fn answer_of(query: Query) -> LookedUp {
    let resolver = resolver(query.server).map_err(|error| error.to_string())?;
    let mut found = Found { hosts: Vec::new(), valid_until: Instant::now() + limits::DNS_TTL_MAX };
    match query.port {
        Some(port) => add_addresses(&resolver, &query.name, (port, 1), &mut found).await?,
        None => add_services(&resolver, &query.name, &mut found).await?,
    }
    match found.hosts.is_empty() {
        false => Ok(found),
        true => Err(format!("{} has no addresses", query.name)),
    }
}

/// A resolver for one look-up, so that changes of the system's configuration are seen and no record outlives its TTL.
fn resolver(server: Option<SocketAddr>) -> Result<TokioResolver, hickory_resolver::net::NetError> {
    let Some(server) = server else {
        return Resolver::builder_tokio()?.build();
    };
    let mut config = NameServerConfig::udp_and_tcp(server.ip());
    config.connections.iter_mut().for_each(|connection| connection.port = server.port());
    let config = ResolverConfig::from_parts(None, Vec::new(), vec![config]);
    let mut builder = Resolver::builder_with_config(config, TokioRuntimeProvider::default());
    builder.options_mut().timeout = limits::DNS_SERVER_TIMEOUT;
    builder.build()
}

/// Adds the addresses of a name, with a port and a weight.
async fn add_addresses(
    resolver: &TokioResolver,
    name: &str,
    (port, weight): (u16, u32),
    found: &mut Found,
) -> Result<(), String> {
    let addresses = resolver.lookup_ip(name).await.map_err(|error| error.to_string())?;
    found.valid_until = found.valid_until.min(addresses.valid_until());
    let host = |ip: IpAddr| FoundHost { at: SocketAddr::new(ip, port), weight };
    found.hosts.extend(addresses.iter().map(host));
    Ok(())
}

/// Adds the hosts of the SRV records that come first (RFC 2782). Targets without addresses are left out, unless all are.
async fn add_services(
    resolver: &TokioResolver,
    name: &str,
    found: &mut Found,
) -> Result<(), String> {
    let records = resolver.srv_lookup(name).await.map_err(|error| error.to_string())?;
    found.valid_until = found.valid_until.min(records.valid_until());
    let services: Vec<_> = records
        .answers()
        .iter()
        .filter_map(|record| match &record.data {
            RData::SRV(service) => Some(service),
            _ => None,
        })
        .collect();
    let first = services.iter().map(|service| service.priority).min();
    let first = services.iter().filter(|service| Some(service.priority) == first);
    let first: Vec<_> = first.take(limits::DNS_TARGETS_MAX).collect();
    let heaviest = first.iter().map(|service| service.weight).max().unwrap_or(0);
    let mut failure = None;
    for service in first {
        let with = (service.port, scaled(service.weight, heaviest));
        let target = service.target.to_ascii();
        if let Err(why) = add_addresses(resolver, &target, with, found).await {
            failure.get_or_insert(why);
        }
    }
    match failure {
        Some(why) if found.hosts.is_empty() => Err(why),
        _ => Ok(()),
    }
}

/// The weight of an SRV record, 0 to 65,535, in the range of hosts.
fn scaled(weight: u16, heaviest: u16) -> u32 {
    let (weight, heaviest) = (u32::from(weight), u32::from(heaviest));
    match heaviest <= limits::WEIGHT_MAX {
        true => weight.max(1),
        false => (weight * limits::WEIGHT_MAX / heaviest).max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_records_keep_their_ratio() {
        for (weight, heaviest, expected) in [
            (0, 0, 1),
            (3, 10, 3),
            (100, 100, 100),
            (65_535, 65_535, 100),
            (500, 1_000, 50),
            (1, 1_000, 1),
        ] {
            assert_eq!(scaled(weight, heaviest), expected);
        }
    }
}
