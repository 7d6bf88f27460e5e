//! The records of a name, and the addresses of its targets.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use ringway_net::dns;
use ringway_net::dns::hickory_resolver::TokioResolver;
use ringway_net::dns::hickory_resolver::net::{DnsError, NetError};
use ringway_net::dns::hickory_resolver::proto::op::ResponseCode;
use ringway_net::dns::hickory_resolver::proto::rr::rdata::SRV;
use ringway_net::dns::hickory_resolver::proto::rr::{RData, RecordType};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::limits;

/// What is looked up.
pub(super) struct Query {
    pub(super) name: String,
    /// The port of the hosts; `None` if SRV records have it.
    pub(super) port: Option<u16>,
    /// The name server to ask, instead of the system's.
    pub(super) server: Option<SocketAddr>,
}

/// What was found.
pub(super) struct Found {
    /// The name itself, or the targets of its SRV records.
    pub(super) targets: Vec<Target>,
    /// Why there are none.
    pub(super) why_none: Option<String>,
    /// When the first record ends.
    pub(super) valid_until: Instant,
}

/// A name with addresses.
pub(super) struct Target {
    pub(super) name: String,
    pub(super) port: u16,
    pub(super) weight: u32,
    /// Its addresses, or why they could not be looked up.
    pub(super) addresses: Result<Vec<IpAddr>, String>,
}

type LookedUp = Result<Found, String>;

/// Looks up a name. Dropping the future gives it up.
pub(super) async fn look_up(query: Query) -> LookedUp {
    dns::ask(query.server, limits::DNS_TIMEOUT, |resolver| answer_of(resolver, query)).await
}

async fn answer_of(resolver: TokioResolver, query: Query) -> LookedUp {
    let Some(port) = query.port else {
        return services(&resolver, &query.name).await;
    };
    let (addresses, valid_until) = addresses(&resolver, &query.name).await?;
    let target = Target { name: query.name, port, weight: 1, addresses: Ok(addresses) };
    Ok(Found { targets: vec![target], why_none: None, valid_until })
}

/// The addresses of a name, one or more, and when the first of them ends.
async fn addresses(resolver: &TokioResolver, name: &str) -> Result<(Vec<IpAddr>, Instant), String> {
    match resolver.lookup_ip(name).await {
        Ok(found) if found.iter().next().is_some() => {
            Ok((found.iter().collect(), found.valid_until()))
        }
        Ok(_) => Err(why_empty(resolver, name).await),
        Err(error) if response_code(&error) == Some(ResponseCode::NoError) => {
            Err(why_empty(resolver, name).await)
        }
        Err(error) => Err(why(&error, name)),
    }
}

/// Why a name that is there has no addresses.
async fn why_empty(resolver: &TokioResolver, name: &str) -> String {
    let mut chain = vec![name.trim_end_matches('.').to_ascii_lowercase()];
    for last in 0..limits::DNS_ALIASES_MAX {
        let found = resolver.lookup(chain[last].clone() + ".", RecordType::CNAME).await;
        let alias = found.ok().and_then(|found| {
            found.answers().iter().find_map(|record| match &record.data {
                RData::CNAME(alias) => Some(alias.0.to_ascii()),
                _ => None,
            })
        });
        let Some(alias) = alias else { break };
        let alias = alias.trim_end_matches('.').to_ascii_lowercase();
        if chain.contains(&alias) {
            return format!("{name} is an alias that leads to itself ({})", chain.join(" → "));
        }
        chain.push(alias);
    }
    match &chain[..] {
        chain if chain.len() > limits::DNS_ALIASES_MAX => {
            format!("{name} is the first of more than {} aliases", limits::DNS_ALIASES_MAX)
        }
        [_] => format!("{name} has no addresses, though there is such a name"),
        [.., last] => format!("{name} is an alias of {last}, which has no addresses"),
        [] => unreachable!("it begins with the name"),
    }
}

/// The code of a name server's answer, if there was one.
fn response_code(error: &NetError) -> Option<ResponseCode> {
    match error {
        NetError::Dns(DnsError::ResponseCode(code)) => Some(*code),
        NetError::Dns(DnsError::NoRecordsFound(none)) => Some(none.response_code),
        _ => None,
    }
}

/// Why a look-up has failed. Without addresses, [`why_empty`] knows more.
fn why(error: &NetError, name: &str) -> String {
    match response_code(error) {
        Some(ResponseCode::NXDomain) => format!("there is no name {name} (NXDOMAIN)"),
        Some(ResponseCode::ServFail) => {
            format!("the name servers cannot answer for {name} at the moment (SERVFAIL)")
        }
        Some(ResponseCode::NoError) => format!("{name} has no SRV records"),
        Some(code) => format!("the name servers refuse to answer for {name}: {code}"),
        None => format!("{name}: {error}"),
    }
}

/// The targets of the SRV records that come first (RFC 2782), whose addresses are looked up at the same time.
async fn services(resolver: &TokioResolver, name: &str) -> LookedUp {
    let records = resolver.srv_lookup(name).await.map_err(|error| why(&error, name))?;
    let mut services: Vec<_> = records
        .answers()
        .iter()
        .filter_map(|record| match &record.data {
            RData::SRV(service) => Some(service),
            _ => None,
        })
        .collect();
    let valid_until = records.valid_until().min(Instant::now() + limits::DNS_TTL_MAX);
    if !services.is_empty() && services.iter().all(|service| service.target.is_root()) {
        // RFC 2782: there is no such service, and nothing to look up.
        let why = format!("{name} says that the service is not available there (SRV target `.`)");
        return Ok(Found { targets: Vec::new(), why_none: Some(why), valid_until });
    }
    services.retain(|service| !service.target.is_root());
    let first = services.iter().map(|service| service.priority).min();
    let first = services.iter().filter(|service| Some(service.priority) == first);
    let first: Vec<_> = first.take(limits::DNS_TARGETS_MAX).collect();
    let heaviest = first.iter().map(|service| service.weight).max().unwrap_or(0);
    let target = |service: &&&SRV| Target {
        name: service.target.to_ascii(),
        port: service.port,
        weight: scaled(service.weight, heaviest),
        addresses: Err("its look-up has ended without an answer".to_owned()),
    };
    let mut found =
        Found { targets: first.iter().map(target).collect(), why_none: None, valid_until };
    look_up_targets(resolver, &mut found).await;
    match found.targets.is_empty() {
        false => Ok(found),
        true => Err(format!("{name} has no SRV records")),
    }
}

/// Looks up each name once, however many ports it has.
async fn look_up_targets(resolver: &TokioResolver, found: &mut Found) {
    let mut by_name = BTreeMap::<String, Vec<usize>>::new();
    for (at, target) in found.targets.iter().enumerate() {
        by_name.entry(target.name.clone()).or_default().push(at);
    }
    let mut looking = JoinSet::new();
    for (name, places) in by_name {
        let resolver = resolver.clone();
        looking.spawn(async move {
            let answer = timeout(limits::DNS_TARGET_TIMEOUT, addresses(&resolver, &name)).await;
            let late = || format!("no answer within {:?}", limits::DNS_TARGET_TIMEOUT);
            let answer = answer.unwrap_or_else(|_| Err(late()));
            (places, answer.map_err(|why| format!("{name}: {why}")))
        });
    }
    while let Some(looked_up) = looking.join_next().await {
        // A look-up that panics has told nothing, and its targets count as not found.
        let Ok((places, answer)) = looked_up else {
            continue;
        };
        if let Ok((_, valid_until)) = &answer {
            found.valid_until = found.valid_until.min(*valid_until);
        }
        let addresses = answer.map(|(addresses, _)| addresses);
        for at in places {
            found.targets[at].addresses.clone_from(&addresses);
        }
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
