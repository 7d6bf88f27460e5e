//! A server that offers a service, as registries keep it.

use std::collections::BTreeMap;
use std::fmt;

use ringway_rpc::{Host, HostStatus, Status};
use serde::{Deserialize, Serialize};

use crate::limits;

/// A server that offers a service: its address and what clients want to know before they call it.
///
/// ```
/// use ringway_discovery::{Endpoint, Health};
///
/// let endpoint = Endpoint::new("tcp://10.0.0.1:9000").weight(3).zone("eu-1").with("rack", "7");
/// assert_eq!(endpoint.health(), Health::Serving);
/// let text = endpoint.to_json();
/// assert_eq!(Endpoint::from_json(text.as_bytes())?, endpoint);
/// # Ok::<(), ringway_discovery::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Endpoint {
    #[serde(rename = "Addr")]
    address: String,
    #[serde(rename = "Metadata", default)]
    about: About,
}

/// What is known of an endpoint beside its address. What is left out has its default, and what is not known is skipped,
/// so that versions of this crate understand each other.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
struct About {
    weight: u32,
    #[serde(skip_serializing_if = "String::is_empty")]
    zone: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    version: String,
    health: Health,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, String>,
}

impl Default for About {
    fn default() -> Self {
        Self {
            weight: 1,
            zone: String::new(),
            version: String::new(),
            health: Health::Serving,
            metadata: BTreeMap::new(),
        }
    }
}

/// Whether an endpoint takes calls.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// It takes calls.
    Serving,
    /// It finishes its calls and takes no new ones.
    Draining,
    /// It is there and takes no calls for now.
    Unavailable,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Serving => "serving",
            Self::Draining => "draining",
            Self::Unavailable => "unavailable",
        })
    }
}

impl Endpoint {
    /// An endpoint of weight 1 that is serving, at an address such as `tcp://10.0.0.1:9000` or `grpc://10.0.0.1:9000`.
    pub fn new(address: impl Into<String>) -> Self {
        Self { address: address.into(), about: About::default() }
    }

    /// Sets the weight, 1 to 100: it gets `weight` times as many calls as an endpoint of weight 1.
    #[must_use]
    pub fn weight(mut self, weight: u32) -> Self {
        self.about.weight = weight;
        self
    }

    /// Sets the zone. Clients in the same zone prefer it.
    #[must_use]
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.about.zone = zone.into();
        self
    }

    /// Sets the version of the service.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.about.version = version.into();
        self
    }

    /// Sets whether the endpoint takes calls.
    #[must_use]
    pub fn with_health(mut self, health: Health) -> Self {
        self.about.health = health;
        self
    }

    /// Adds an entry of metadata.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.about.metadata.insert(key.into(), value.into());
        self
    }

    /// The same at another address.
    pub(crate) fn at(self, address: &str) -> Self {
        Self { address: address.to_owned(), about: self.about }
    }

    /// The address.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The weight in balancing.
    pub fn weight_of(&self) -> u32 {
        self.about.weight
    }

    /// The zone; empty if it is not known.
    pub fn zone_of(&self) -> &str {
        &self.about.zone
    }

    /// The version of the service; empty if it is not known.
    pub fn version_of(&self) -> &str {
        &self.about.version
    }

    /// Whether the endpoint takes calls.
    pub fn health(&self) -> Health {
        self.about.health
    }

    /// An entry of metadata.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.about.metadata.get(key).map(String::as_str)
    }

    /// The endpoint as the value of a key. The fields `Addr` and `Metadata` are those of etcd's own naming package, so
    /// that its resolver finds the address.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads the value of a key.
    ///
    /// # Errors
    /// Fails if it is not an endpoint, or if it is longer than 64 KiB.
    pub fn from_json(value: &[u8]) -> Result<Self, Error> {
        if value.len() > limits::ENDPOINT_BYTES_MAX {
            return Err(Error::new(format!("an endpoint of {} bytes is too long", value.len())));
        }
        serde_json::from_slice(value)
            .map_err(|error| Error::new(format!("not an endpoint: {error}")))
    }

    /// The endpoint as a client calls it.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if the address is malformed.
    pub fn to_host(&self) -> Result<Host, Status> {
        let About { weight, zone, version, health, metadata } = &self.about;
        let status = match health {
            Health::Serving => HostStatus::Serving,
            Health::Draining => HostStatus::Draining,
            Health::Unavailable => HostStatus::Unavailable,
        };
        let host = Host::new(self.address.as_str())?.weight((*weight).clamp(1, limits::WEIGHT_MAX));
        let host = host.zone(zone).version(version).status(status);
        Ok(metadata.iter().fold(host, |host, (key, value)| host.with(key, value)))
    }
}

/// An operation of discovery has failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    message: String,
}

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_written_as_etcds_naming_does() {
        let endpoint = Endpoint::new("grpc://10.0.0.1:9000");
        let expected =
            r#"{"Addr":"grpc://10.0.0.1:9000","Metadata":{"weight":1,"health":"serving"}}"#;
        assert_eq!(endpoint.to_json(), expected);
        let bare = Endpoint::from_json(
            br#"{"Op":0,"Addr":"grpc://10.0.0.1:9000","Metadata":{"later":[1]}}"#,
        );
        assert_eq!(bare.expect("fields that are not known are skipped"), endpoint);
    }

    #[test]
    fn values_that_are_no_endpoints_are_named() {
        for value in [&b""[..], b"{}", b"[1]", b"{\"Addr\":7}", b"\xFF"] {
            let error = Endpoint::from_json(value).expect_err("no endpoint");
            assert!(error.to_string().starts_with("not an endpoint"), "{error}");
        }
        let long = Endpoint::new("x".repeat(limits::ENDPOINT_BYTES_MAX)).to_json();
        assert!(Endpoint::from_json(long.as_bytes()).is_err());
    }

    #[test]
    fn a_host_has_what_is_known_of_its_endpoint() {
        for (health, status) in [
            (Health::Serving, HostStatus::Serving),
            (Health::Draining, HostStatus::Draining),
            (Health::Unavailable, HostStatus::Unavailable),
        ] {
            let endpoint = Endpoint::new("tcp://10.0.0.1:9000").zone("a").version("2");
            let host =
                endpoint.with("rack", "7").with_health(health).to_host().expect("an address");
            assert_eq!((host.zone_of(), host.version_of()), ("a", "2"));
            assert_eq!((host.metadata("rack"), host.status_of()), (Some("7"), status));
        }
    }

    #[test]
    fn a_weight_out_of_range_is_brought_into_it() {
        let host = |weight| {
            Endpoint::new("tcp://10.0.0.1:9000").weight(weight).to_host().expect("an address")
        };
        assert_eq!(host(0), Host::new("tcp://10.0.0.1:9000").expect("an address"));
        assert_eq!(host(1_000), Host::new("tcp://10.0.0.1:9000").expect("an address").weight(100));
    }
}
