//! How a client connects to its hosts, and its list of them.

use std::collections::HashMap;
use std::time::Duration;

use ringway_net::{ClientTls, StreamLimits};

use super::host_rules::{ChosenHost, HostRules};
use super::hosts::{Host, HostList, ListedHost};
use super::server_address::{Protocol, ServerAddress};
use crate::call::status::Status;
use crate::limits;

/// The settings for connecting to the hosts of a client.
#[derive(Clone)]
pub(super) struct Connector {
    tls: ClientTls,
    /// The TLS settings for gRPC, which offer its ALPN protocol.
    grpc_tls: ClientTls,
    /// The timeout of connecting, and then of the server's first bytes.
    pub(super) connect_timeout: Duration,
}

impl Connector {
    /// A connector that verifies servers against the machine's root certificates.
    pub(super) fn new() -> Self {
        let (tls, grpc_tls) = (ClientTls::new(), ClientTls::new().alpn([ALPN_HTTP2]));
        Self { tls, grpc_tls, connect_timeout: limits::CONNECT_TIMEOUT }
    }

    pub(super) fn set_tls(&mut self, tls: ClientTls) {
        self.grpc_tls = tls.clone().alpn([ALPN_HTTP2]);
        self.tls = tls;
    }

    /// Makes the list of those hosts that `rules` choose.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when there are no hosts or too many, when a weight is out of range, when an
    /// address cannot be connected to, when only some of the hosts speak JSON-RPC, or when none is chosen.
    pub(super) fn list(
        &self,
        hosts: impl IntoIterator<Item = Host>,
        rules: &HostRules,
    ) -> Result<HostList, Status> {
        let mut list: Vec<Host> = Vec::new();
        let mut indices = HashMap::new();
        for host in hosts {
            let (address, weight, most) = (&host.address, host.weight, limits::HOST_WEIGHT_MAX);
            if !(1..=most).contains(&weight) {
                let why = format!("the weight of {address} is {weight}, not 1 to {most}");
                return Err(Status::invalid_argument(why));
            }
            let index = *indices.entry(address.clone()).or_insert(list.len());
            match list.get_mut(index) {
                Some(known) => *known = host,
                None => list.push(host),
            }
            if list.len() > limits::HOSTS_MAX {
                let why = format!("a client has {} servers at most", limits::HOSTS_MAX);
                return Err(Status::invalid_argument(why));
            }
        }
        let Some(first) = list.first() else {
            return Err(Status::invalid_argument("a client needs the address of a server"));
        };
        let is_json = first.address.protocol.is_json();
        if let Some(other) = list.iter().find(|it| it.address.protocol.is_json() != is_json) {
            let why = format!(
                "{} and {} are no servers of one client: only one of them speaks JSON-RPC, and a request is \
                 encoded before its server is picked",
                first.address, other.address
            );
            return Err(Status::invalid_argument(why));
        }
        let chosen = rules.choose(list);
        if chosen.is_empty() {
            return Err(Status::invalid_argument("no server of the list is chosen for calls"));
        }
        let listed = chosen.into_iter().map(|chosen| self.listed(chosen));
        Ok(listed.collect::<Result<Vec<_>, Status>>()?.into())
    }

    /// Prepares a host for pools.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when its address cannot be connected to.
    pub(super) fn listed(&self, chosen: ChosenHost) -> Result<ListedHost, Status> {
        let ChosenHost { host, is_near } = chosen;
        let dial = self.dial(&host.address)?;
        Ok(ListedHost { address: host.address, weight: host.weight, is_near, dial })
    }

    fn dial(&self, address: &ServerAddress) -> Result<ringway_net::Client, Status> {
        let limits = StreamLimits {
            // The driver hands over no more than may be queued, and continues at half of that.
            send_low_water: limits::OUTPUT_QUEUED_MAX / 2,
            ..StreamLimits::default()
        };
        let dial = ringway_net::Client::new(address.at.clone()).map_err(invalid)?;
        let (dial, tls) = match address.protocol {
            Protocol::Native | Protocol::JsonLines | Protocol::JsonPost | Protocol::JsonSocket => {
                (dial, &self.tls)
            }
            // Idle connections are not pinged, so the kernel looks whether their servers live.
            Protocol::Grpc => (dial.keepalive(limits::GRPC_KEEPALIVE), &self.grpc_tls),
        };
        let dial = dial.tls(tls.clone()).connect_timeout(self.connect_timeout);
        Ok(dial.attempts_max(1).stream_limits(limits))
    }
}

/// The ALPN protocol of HTTP/2.
pub(super) const ALPN_HTTP2: &str = "h2";

fn invalid(error: ringway_net::Error) -> Status {
    Status::invalid_argument(error.to_string()).with_source(error)
}
