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
//! - An empty list is refused and changes nothing, so that a source which has lost its data does not
//!   disarm its clients. Whether to believe a list that has shrunk is up to the source.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ringway_net::{ClientTls, StreamLimits};

use super::server_address::{Protocol, ServerAddress};
use crate::call::status::Status;
use crate::limits;

/// A server that a client calls, with its weight in balancing.
///
/// ```
/// use ringway_rpc::Host;
///
/// let host = Host::new("tcp://10.0.0.1:9000")?.weight(3);
/// assert_eq!(host.address().to_string(), "tcp://10.0.0.1:9000");
/// # Ok::<(), ringway_rpc::Status>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    address: ServerAddress,
    weight: u32,
}

impl Host {
    /// A server of weight 1, at one of the addresses that [`ServerAddress`] lists.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when the address is malformed.
    pub fn new<A>(address: A) -> Result<Self, Status>
    where
        A: TryInto<ServerAddress>,
        Status: From<A::Error>,
    {
        Ok(Self { address: address.try_into()?, weight: 1 })
    }

    /// Sets the weight, from 1 to 100: the host gets `weight` times as many calls as one of weight 1. The
    /// range is checked when the host is given to a client.
    #[must_use]
    pub fn weight(mut self, weight: u32) -> Self {
        self.weight = weight;
        self
    }

    /// The address of the host.
    pub fn address(&self) -> &ServerAddress {
        &self.address
    }
}

/// The hosts of a client, each once, in the order in which they were given.
pub(super) type HostList = Arc<[ListedHost]>;

/// A host as pools use it.
#[derive(Clone)]
pub(super) struct ListedHost {
    pub(super) address: ServerAddress,
    pub(super) weight: u32,
    /// Connects to the host.
    pub(super) dial: ringway_net::Client,
}

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

    /// Makes the list of these hosts.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when there are no hosts or too many, when a weight is out of range, when an
    /// address cannot be connected to, or when only some of the hosts speak JSON-RPC.
    pub(super) fn list(&self, hosts: impl IntoIterator<Item = Host>) -> Result<HostList, Status> {
        let mut list = Vec::new();
        let mut indices = HashMap::new();
        for Host { address, weight } in hosts {
            let most = limits::HOST_WEIGHT_MAX;
            if !(1..=most).contains(&weight) {
                let why = format!("the weight of {address} is {weight}, not 1 to {most}");
                return Err(Status::invalid_argument(why));
            }
            let index = *indices.entry(address.clone()).or_insert(list.len());
            let listed = ListedHost { dial: self.dial(&address)?, address, weight };
            match list.get_mut(index) {
                Some(known) => *known = listed,
                None => list.push(listed),
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
        Ok(list.into())
    }

    fn dial(&self, address: &ServerAddress) -> Result<ringway_net::Client, Status> {
        let limits = StreamLimits {
            // The driver hands over no more than may be queued, and continues at half of that.
            send_low_water: limits::OUTPUT_QUEUED_MAX / 2,
            ..StreamLimits::default()
        };
        let dial = ringway_net::Client::new(address.at.clone()).map_err(invalid)?;
        let tls = match address.protocol {
            Protocol::Native | Protocol::JsonLines | Protocol::JsonPost => &self.tls,
            Protocol::Grpc => &self.grpc_tls,
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
