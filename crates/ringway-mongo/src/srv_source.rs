//! What DNS says of a deployment's servers, and says again later.

use std::net::SocketAddr;
use std::time::Duration;

use ringway_net::dns;
use ringway_net::dns::hickory_resolver::TokioResolver;
use ringway_net::dns::hickory_resolver::net::NetError;
use ringway_net::dns::hickory_resolver::proto::rr::RData;

use crate::error::{Error, Fate, Kind, Result};
use crate::limits::{DNS_TIMEOUT, SERVERS_MAX, SRV_PERIOD_MIN};
use crate::uri::{ConnectionString, HostAddress, LookedUp, SrvRecords};

/// What has to be asked.
#[derive(Clone, Debug)]
pub(crate) struct SrvQuestion {
    name: String,
    service: String,
    pub(crate) servers_max: usize,
}

/// The records of a deployment's servers, to be looked up again.
#[derive(Clone, Debug)]
pub(crate) struct SrvSource {
    question: SrvQuestion,
    server: Option<SocketAddr>,
    /// How long the records of the first look-up are valid.
    valid_for: Duration,
    /// The least time between two look-ups.
    pub(crate) period_min: Duration,
}

impl SrvSource {
    /// `None` if the hosts are those of the string itself.
    pub(crate) fn of(uri: &ConnectionString) -> Option<Self> {
        let (question, looked_up) = (SrvQuestion::of(uri)?, uri.looked_up?);
        let LookedUp { server, valid_for } = looked_up;
        Some(Self { question, server, valid_for, period_min: SRV_PERIOD_MIN })
    }

    /// The most servers that are taken.
    pub(crate) fn servers_max(&self) -> usize {
        self.question.servers_max
    }

    /// The time until the records of the first look-up are looked up again.
    pub(crate) fn first_pause(&self) -> Duration {
        self.pause(self.valid_for)
    }

    /// The time until records are looked up again that are valid for some time.
    pub(crate) fn pause(&self, valid_for: Duration) -> Duration {
        valid_for.max(self.period_min)
    }

    /// Looks the servers up again. Returns those that may belong to the deployment, in no order, and how long their
    /// records are valid.
    pub(crate) async fn look_up(&self) -> Result<(Vec<HostAddress>, Duration)> {
        let service = self.question.service.clone();
        let asked = dns::ask(self.server, DNS_TIMEOUT, |resolver| async move {
            targets(&resolver, &service).await
        });
        let (targets, valid_for) =
            asked.await.map_err(|why| not_found(&self.question.name, &why))?;
        let mut hosts = verified_hosts(&self.question.name, targets);
        shuffle(&mut hosts);
        Ok((hosts, valid_for))
    }
}

/// Those of the targets of a name that are below its parent. Of the others the log tells, as "Polling SRV Records for
/// mongos Discovery" has it.
fn verified_hosts(name: &str, targets: Vec<(String, u16)>) -> Vec<HostAddress> {
    let verified = |target| {
        let record = SrvRecords { targets: vec![target], texts: Vec::new() };
        let hosts = record.hosts(name);
        hosts.inspect_err(|error| tracing::warn!("a server is left out: {error}")).ok()
    };
    targets.into_iter().filter_map(verified).flatten().map(|(host, _)| host).collect()
}

impl SrvQuestion {
    /// What has to be asked before the servers are known; `None` if the string names them.
    pub(crate) fn of(uri: &ConnectionString) -> Option<Self> {
        let name = uri.srv_host.clone()?;
        let service = uri.options.srv_service_name.as_deref().unwrap_or("mongodb");
        let max = uri.options.srv_max_hosts.filter(|max| *max > 0);
        let servers_max = max.map_or(usize::MAX, |max| max as usize);
        Some(Self { service: format!("_{service}._tcp.{name}"), name, servers_max })
    }
}

/// Each client takes others.
pub(crate) fn shuffle(hosts: &mut [HostAddress]) {
    hosts.sort_by_cached_key(|_| bson::Uuid::new().bytes());
}

/// Asks for the SRV and TXT records, and how long the SRV records are valid.
pub(crate) async fn ask(
    question: &SrvQuestion,
    server: Option<SocketAddr>,
) -> Result<(SrvRecords, Duration)> {
    let (name, service) = (question.name.clone(), question.service.clone());
    let asked = dns::ask(server, DNS_TIMEOUT, |resolver| async move {
        let (targets, valid_for) = targets(&resolver, &service).await?;
        Ok((SrvRecords { targets, texts: texts(&resolver, &name).await? }, valid_for))
    });
    asked.await.map_err(|why| not_found(&question.name, &why))
}

fn not_found(name: &str, why: &str) -> Error {
    let what = format!("the servers of {name} cannot be looked up: {why}");
    Error::new(Kind::Network, Fate::NotSent, what)
}

/// The targets, and the time for which all of their records are valid.
async fn targets(
    resolver: &TokioResolver,
    service: &str,
) -> Result<(Vec<(String, u16)>, Duration), String> {
    let records = resolver.srv_lookup(service).await.map_err(|error| error.to_string())?;
    let target = |data: &RData| match data {
        RData::SRV(service) => Some((service.target.to_ascii(), service.port)),
        _ => None,
    };
    let valid_for = records.answers().iter().map(|record| record.ttl).min().unwrap_or(0);
    let targets = records.answers().iter().filter_map(|record| target(&record.data));
    let valid_for = Duration::from_secs(valid_for.into());
    Ok((targets.take(SERVERS_MAX).collect(), valid_for))
}

/// The TXT records; a name may have none.
async fn texts(resolver: &TokioResolver, name: &str) -> Result<Vec<String>, String> {
    let records = match resolver.txt_lookup(name).await {
        Ok(records) => records,
        Err(error) if is_none(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error.to_string()),
    };
    let text = |data: &RData| match data {
        RData::TXT(text) => {
            let bytes: Vec<u8> = text.txt_data.iter().flatten().copied().collect();
            Some(String::from_utf8_lossy(&bytes).into_owned())
        }
        _ => None,
    };
    Ok(records.answers().iter().filter_map(|record| text(&record.data)).collect())
}

/// Whether a name server has said that there are no such records.
fn is_none(error: &NetError) -> bool {
    error.is_no_records_found() || error.is_nx_domain()
}
