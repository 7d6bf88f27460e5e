//! The servers of a client: what users say of them, and what pools make of it.
//!
//! A host is known by its address. It has a weight from 1 to [`limits::HOST_WEIGHT_MAX`], 1 if
//! nothing is said; policies give it calls in that proportion. A client has at least one host and at
//! most [`limits::HOSTS_MAX`]. An address that is named twice is one host, with the weight said last.

use ringway_net::Address;

use crate::limits;
use crate::limits::HOST_WEIGHT_MAX;
use crate::status::Status;

/// A server of a client, and how much of the load it takes.
#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) address: Address,
    pub(super) weight: u32,
}

/// A host, and how to connect to it.
pub(super) struct Target {
    pub(super) host: Host,
    pub(super) dial: ringway_net::Client,
}

impl Host {
    /// # Errors
    /// INVALID_ARGUMENT when the address is malformed.
    pub(super) fn new<A>(address: A, weight: u32) -> Result<Self, Status>
    where
        A: TryInto<Address>,
        ringway_net::Error: From<A::Error>,
    {
        match address.try_into() {
            Ok(address) => Ok(Self { address, weight }),
            Err(error) => Err(invalid(error.into())),
        }
    }
}

/// The hosts of a list, each once.
///
/// # Errors
/// INVALID_ARGUMENT when there is none, when there are too many, or when a weight is out of bounds.
pub(super) fn checked(list: impl IntoIterator<Item = Host>) -> Result<Vec<Host>, Status> {
    let mut hosts = Vec::<Host>::new();
    for host in list {
        let Host { address, weight } = &host;
        if !(1..=HOST_WEIGHT_MAX).contains(weight) {
            let why = format!("the weight of {address} is {weight}, not 1 to {HOST_WEIGHT_MAX}");
            return Err(Status::invalid_argument(why));
        }
        match hosts.iter().position(|known| known.address == *address) {
            Some(known) => hosts[known] = host,
            None if hosts.len() == limits::HOSTS_MAX => {
                let why = format!("a client has {} servers at most", limits::HOSTS_MAX);
                return Err(Status::invalid_argument(why));
            }
            None => hosts.push(host),
        }
    }
    if hosts.is_empty() {
        return Err(Status::invalid_argument("a client needs the address of a server"));
    }
    Ok(hosts)
}

pub(super) fn invalid(error: ringway_net::Error) -> Status {
    Status::invalid_argument(error.to_string()).with_source(error)
}
