//! Servers from DNS.

use std::net::SocketAddr;

use ringway_net::dns;
use ringway_net::dns::hickory_resolver::TokioResolver;
use ringway_net::dns::hickory_resolver::net::NetError;
use ringway_net::dns::hickory_resolver::proto::rr::RData;
use ringway_runtime::timeout;

use super::{ClientOptions, from_uri};
use crate::error::{Error, Fate, Kind, Result};
use crate::limits::{DNS_TIMEOUT, SERVERS_MAX};
use crate::uri::{ConnectionString, HostAddress, InvalidUri, SrvRecords};

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
        let records = ask(&question, server).await?;
        Self::parse_answered(uri, &question, records).map_err(from_uri::malformed)
    }
}

/// What has to be asked.
struct SrvQuestion {
    name: String,
    service: String,
    servers_max: usize,
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

/// Asks for the SRV and TXT records.
async fn ask(question: &SrvQuestion, server: Option<SocketAddr>) -> Result<SrvRecords> {
    let (name, service) = (question.name.clone(), question.service.clone());
    let asked = dns::ask(server, |resolver| async move {
        let targets = targets(&resolver, &service).await?;
        Ok(SrvRecords { targets, texts: texts(&resolver, &name).await? })
    });
    let records = timeout(DNS_TIMEOUT, asked).await;
    records.unwrap_or_else(|_| Err(format!("no answer within {DNS_TIMEOUT:?}"))).map_err(|why| {
        let what = format!("the servers of {} cannot be looked up: {why}", question.name);
        Error::new(Kind::Network, Fate::NotSent, what)
    })
}

async fn targets(resolver: &TokioResolver, service: &str) -> Result<Vec<(String, u16)>, String> {
    let records = resolver.srv_lookup(service).await.map_err(|error| error.to_string())?;
    let target = |data: &RData| match data {
        RData::SRV(service) => Some((service.target.to_ascii(), service.port)),
        _ => None,
    };
    let targets = records.answers().iter().filter_map(|record| target(&record.data));
    Ok(targets.take(SERVERS_MAX).collect())
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
