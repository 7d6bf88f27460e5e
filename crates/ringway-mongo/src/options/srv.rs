//! Servers from DNS.

use std::net::SocketAddr;
use std::time::Duration;

use ringway_net::dns;
use ringway_net::dns::hickory_resolver::TokioResolver;
use ringway_net::dns::hickory_resolver::net::NetError;
use ringway_net::dns::hickory_resolver::proto::rr::RData;
use ringway_runtime::timeout;

use super::{ClientOptions, from_uri};
use crate::error::{Error, Fate, Kind, Result};
use crate::limits::{DNS_TIMEOUT, SERVERS_MAX, SRV_PERIOD_MIN};
use crate::uri::{ConnectionString, HostAddress, InvalidUri, LookedUp, SrvRecords, verified_hosts};

impl ClientOptions {
    /// Reads a connection string, and looks up the servers of a `mongodb+srv://` one: its SRV records, and the options of
    /// its TXT record. TLS is on for it. Other strings are read as by [`parse`](Self::parse).
    ///
    /// ```no_run
    /// use ringway_mongo::{Client, ClientOptions};
    ///
    /// # async fn connect() -> ringway_mongo::Result<Client> {
    /// let options = ClientOptions::look_up("mongodb+srv://ada:secret@cluster0.example.mongodb.net").await?;
    /// # Ok(Client::new(options))
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`parse`](Self::parse); [`is_options`](Error::is_options) for records that the specification forbids,
    /// such as a server in another domain; [`is_network`](Error::is_network) if the name cannot be looked up.
    pub async fn look_up(uri: &str) -> Result<Self> {
        Self::from_connection_string(&ConnectionString::look_up(uri, None).await?)
    }
}

impl ConnectionString {
    /// Parses a connection string, and looks up the hosts and options of a `mongodb+srv://` one: by the name server at
    /// `server` if there is one, otherwise by the system's.
    ///
    /// # Errors
    /// Those of [`ClientOptions::look_up`].
    pub async fn look_up(uri: &str, server: Option<SocketAddr>) -> Result<Self> {
        let parsed = Self::parse(uri).map_err(from_uri::malformed)?;
        let Some(question) = parsed.srv_question() else { return Ok(parsed) };
        let (records, valid_for) = ask(&question, server).await?;
        let answered = Self::parse_answered(uri, &question, records);
        let mut answered = answered.map_err(from_uri::malformed)?;
        answered.looked_up = Some(LookedUp { server, valid_for });
        Ok(answered)
    }
}

/// What has to be asked.
#[derive(Clone, Debug)]
struct SrvQuestion {
    name: String,
    service: String,
    servers_max: usize,
}

/// The records of a deployment's servers, to be looked up again.
#[derive(Clone, Debug)]
pub(crate) struct SrvSource {
    question: SrvQuestion,
    server: Option<SocketAddr>,
    /// How long the records of the first look-up are valid.
    pub(crate) valid_for: Duration,
    /// The least time between two look-ups.
    pub(crate) period_min: Duration,
}

impl SrvSource {
    /// `None` if the hosts are those of the string itself.
    pub(super) fn of(uri: &ConnectionString) -> Option<Self> {
        let (question, looked_up) = (uri.srv_question()?, uri.looked_up?);
        let LookedUp { server, valid_for } = looked_up;
        Some(Self { question, server, valid_for, period_min: SRV_PERIOD_MIN })
    }

    /// The most servers that are taken.
    pub(crate) fn servers_max(&self) -> usize {
        self.question.servers_max
    }

    /// Looks the servers up again. Returns those that may belong to the deployment, in no order, and how long their
    /// records are valid.
    pub(crate) async fn look_up(&self) -> Result<(Vec<HostAddress>, Duration)> {
        let service = self.question.service.clone();
        let asked =
            dns::ask(self.server, |resolver| async move { targets(&resolver, &service).await });
        let (targets, valid_for) = in_time(&self.question.name, asked).await?;
        let mut hosts = verified_hosts(&self.question.name, targets);
        shuffle(&mut hosts);
        Ok((hosts, valid_for))
    }
}

impl ConnectionString {
    /// What has to be asked before the servers are known; `None` if the string names them.
    fn srv_question(&self) -> Option<SrvQuestion> {
        let name = self.srv_host.clone()?;
        let service = self.options.srv_service_name.as_deref().unwrap_or("mongodb");
        let max = self.options.srv_max_hosts.filter(|max| *max > 0);
        let servers_max = max.map_or(usize::MAX, |max| max as usize);
        Some(SrvQuestion { service: format!("_{service}._tcp.{name}"), name, servers_max })
    }

    /// Parses a connection string again, with what DNS has answered.
    ///
    /// # Errors
    /// Those of `parse`, and what the specification forbids records to have.
    fn parse_answered(
        uri: &str,
        question: &SrvQuestion,
        records: SrvRecords,
    ) -> Result<Self, InvalidUri> {
        let mut parsed = Self::parse_with(uri, Some(records))?;
        if parsed.hosts.len() > question.servers_max {
            shuffle(&mut parsed.hosts);
            parsed.hosts.truncate(question.servers_max);
        }
        Ok(parsed)
    }
}

/// Each client takes others.
fn shuffle(hosts: &mut [HostAddress]) {
    hosts.sort_by_cached_key(|_| bson::Uuid::new().bytes());
}

/// Asks for the SRV and TXT records, and how long the SRV records are valid.
async fn ask(question: &SrvQuestion, server: Option<SocketAddr>) -> Result<(SrvRecords, Duration)> {
    let (name, service) = (question.name.clone(), question.service.clone());
    let asked = dns::ask(server, |resolver| async move {
        let (targets, valid_for) = targets(&resolver, &service).await?;
        Ok((SrvRecords { targets, texts: texts(&resolver, &name).await? }, valid_for))
    });
    in_time(&question.name, asked).await
}

async fn in_time<T>(name: &str, asked: impl Future<Output = Result<T, String>>) -> Result<T> {
    let found = timeout(DNS_TIMEOUT, asked).await;
    found.unwrap_or_else(|_| Err(format!("no answer within {DNS_TIMEOUT:?}"))).map_err(|why| {
        let what = format!("the servers of {name} cannot be looked up: {why}");
        Error::new(Kind::Network, Fate::NotSent, what)
    })
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
