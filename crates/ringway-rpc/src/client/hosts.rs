//! The servers of a client: what users say of them, and how the list is changed.
//!
//! A host is known by its address. It has a weight from 1 to 100, 1 if nothing is said; policies give
//! it calls in that proportion. A client has at least one host, and 1,024 at most. An address that is
//! named twice is one host, with the weight said last.
//!
//! The list of a client that runs may be changed from any thread. The new one is put into the
//! [registry](super::registry) and every core that has a pool of the client is told; a core that
//! makes one later finds the new list. Calls take no lock for that, and none fails by it:
//!
//! - A host that stays keeps its connections, its latency, its failures and its turn.
//! - A new host is connected to by the next call, and believed to be as fast as the mean of the
//!   others; by the default policy it is given its share by and by.
//! - A host that leaves gets no new call, retries included. Calls and streams under way there are
//!   finished, then its connections are closed.
//! - An empty list is refused and changes nothing: a source that has lost its data must not disarm
//!   its clients. Whether a list that has shrunk is to be believed is for the source to know.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ringway_net::{ClientTls, StreamLimits};

use super::server_address::{Protocol, ServerAddress};
use crate::call::status::Status;
use crate::limits;

/// A server of a client, and how much of the load it takes.
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
    /// A server of weight 1: `tcp://host:port`, `tls://host:port`, `unix:///path`, `grpc://host:port` or
    /// `grpcs://host:port`.
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

    /// It gets `weight` times as many calls as a server of weight 1; from 1 to 100, which is checked
    /// where the host is given to a client.
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

/// The list of a client, each host once, in the order in which it was given.
pub(super) type HostList = Arc<[ListedHost]>;

/// A host as pools use it.
#[derive(Clone)]
pub(super) struct ListedHost {
    pub(super) address: ServerAddress,
    pub(super) weight: u32,
    /// How to connect to it.
    pub(super) dial: ringway_net::Client,
}

/// How the hosts of a client are connected to.
#[derive(Clone)]
pub(super) struct Connector {
    tls: ClientTls,
    /// The same for gRPC, which offers what it speaks.
    grpc_tls: ClientTls,
    /// Time to connect, and then for the server's first bytes.
    pub(super) connect_timeout: Duration,
}

impl Connector {
    /// Verifies servers against the machine's roots.
    pub(super) fn new() -> Self {
        let (tls, grpc_tls) = (ClientTls::new(), ClientTls::new().alpn([ALPN_HTTP2]));
        Self { tls, grpc_tls, connect_timeout: limits::CONNECT_TIMEOUT }
    }

    pub(super) fn set_tls(&mut self, tls: ClientTls) {
        self.grpc_tls = tls.clone().alpn([ALPN_HTTP2]);
        self.tls = tls;
    }

    /// The list of these hosts.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when there is none, when there are too many, when a weight is out of bounds,
    /// or when an address is none to connect to.
    pub(super) fn list(&self, hosts: impl IntoIterator<Item = Host>) -> Result<HostList, Status> {
        let mut list = Vec::new();
        let mut places = HashMap::new();
        for Host { address, weight } in hosts {
            let most = limits::HOST_WEIGHT_MAX;
            if !(1..=most).contains(&weight) {
                let why = format!("the weight of {address} is {weight}, not 1 to {most}");
                return Err(Status::invalid_argument(why));
            }
            let place = *places.entry(address.clone()).or_insert(list.len());
            let listed = ListedHost { dial: self.dial(&address)?, address, weight };
            match list.get_mut(place) {
                Some(known) => *known = listed,
                None => list.push(listed),
            }
            if list.len() > limits::HOSTS_MAX {
                let why = format!("a client has {} servers at most", limits::HOSTS_MAX);
                return Err(Status::invalid_argument(why));
            }
        }
        match list.is_empty() {
            true => Err(Status::invalid_argument("a client needs the address of a server")),
            false => Ok(list.into()),
        }
    }

    fn dial(&self, address: &ServerAddress) -> Result<ringway_net::Client, Status> {
        let limits = StreamLimits {
            // The driver gives out no more than it may queue, and goes on at half of that.
            send_low_water: limits::OUTPUT_QUEUED_MAX / 2,
            ..StreamLimits::default()
        };
        let dial = ringway_net::Client::new(address.at.clone()).map_err(invalid)?;
        let tls = match address.protocol {
            Protocol::Native => &self.tls,
            Protocol::Grpc => &self.grpc_tls,
        };
        let dial = dial.tls(tls.clone()).connect_timeout(self.connect_timeout);
        Ok(dial.attempts_max(1).stream_limits(limits))
    }
}

/// The name of HTTP/2 in ALPN.
pub(super) const ALPN_HTTP2: &str = "h2";

fn invalid(error: ringway_net::Error) -> Status {
    Status::invalid_argument(error.to_string()).with_source(error)
}
