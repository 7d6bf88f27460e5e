//! What a server says about itself, kept until its monitor asks again.

use std::time::Duration;

use bson::oid::ObjectId;
use bson::{DateTime, RawBsonRef, RawDocument};

use super::{HostAddress, TopologyVersion};
use crate::limits::{HELLO_ERROR_MAX, SERVERS_MAX};
use crate::uri::TagSet;

/// The part that a server plays in its deployment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ServerType {
    /// It has not answered, or its answer does not count any more.
    #[default]
    Unknown,
    /// It stands alone.
    Standalone,
    /// It routes to a sharded cluster.
    Mongos,
    /// The primary of a replica set.
    Primary,
    /// A secondary of a replica set.
    Secondary,
    /// A member of a replica set that only votes.
    Arbiter,
    /// Another member of a replica set, such as a hidden one.
    Other,
    /// A member of a replica set that has not been set up.
    Ghost,
    /// A load balancer, which is not asked.
    LoadBalancer,
}

impl ServerType {
    /// Whether operations can be sent to it.
    pub fn holds_data(self) -> bool {
        matches!(
            self,
            Self::Standalone | Self::Mongos | Self::Primary | Self::Secondary | Self::LoadBalancer
        )
    }

    /// The type in the answer to `hello`, by the specification's table "type".
    fn of(hello: &RawDocument) -> Self {
        let is = |name| hello.get_bool(name).unwrap_or(false);
        let is_in_set = hello.get_str("setName").is_ok();
        match () {
            () if !is_ok(hello) => Self::Unknown,
            () if hello.get_str("msg").ok() == Some("isdbgrid") => Self::Mongos,
            () if is("isreplicaset") => Self::Ghost,
            () if !is_in_set => Self::Standalone,
            () if is("isWritablePrimary") || is("ismaster") => Self::Primary,
            () if is("hidden") => Self::Other,
            () if is("secondary") => Self::Secondary,
            () if is("arbiterOnly") => Self::Arbiter,
            () => Self::Other,
        }
    }
}

/// What is known of a server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerDescription {
    /// Where it is, as the deployment names it.
    pub address: HostAddress,
    /// The part that it plays.
    pub kind: ServerType,
    /// Why it is unknown, if that has a reason.
    pub error: Option<String>,
    /// The time of its last answer since the client's origin.
    pub updated_at: Duration,
    /// The average time of a round trip.
    pub round_trip: Option<Duration>,
    /// The shortest of the last ten round trips; zero until there are two.
    pub round_trip_min: Duration,
    /// When it was last written to, by its own clock.
    pub last_write: Option<DateTime>,
    /// The oldest version of the wire protocol that it speaks.
    pub min_wire_version: i32,
    /// The newest version of the wire protocol that it speaks.
    pub max_wire_version: i32,
    /// Its address as it knows itself.
    pub me: Option<HostAddress>,
    /// All members of its replica set.
    pub members: Vec<HostAddress>,
    /// The primary of its replica set, as it believes.
    pub primary: Option<HostAddress>,
    /// Its tags.
    pub tags: TagSet,
    /// The name of its replica set.
    pub set_name: Option<String>,
    /// The version of its replica set's configuration.
    pub set_version: Option<i32>,
    /// The election that made it primary.
    pub election_id: Option<ObjectId>,
    /// Minutes after which its unused sessions end.
    pub session_timeout_minutes: Option<i64>,
    /// The version of its view.
    pub topology_version: Option<TopologyVersion>,
}

impl ServerDescription {
    /// Describes a server that is not known, for a reason if there is one. Of a long one the beginning is kept.
    pub fn unknown(address: HostAddress, error: Option<String>) -> Self {
        let error = error.map(shortened);
        Self {
            address,
            kind: ServerType::Unknown,
            error,
            updated_at: Duration::ZERO,
            round_trip: None,
            round_trip_min: Duration::ZERO,
            last_write: None,
            min_wire_version: 0,
            max_wire_version: 0,
            me: None,
            members: Vec::new(),
            primary: None,
            tags: TagSet::new(),
            set_name: None,
            set_version: None,
            election_id: None,
            session_timeout_minutes: None,
            topology_version: None,
        }
    }

    pub(super) fn load_balancer(address: HostAddress) -> Self {
        Self { kind: ServerType::LoadBalancer, ..Self::unknown(address, None) }
    }

    /// Describes a server by its answer to `hello`, received at `now` since the client's origin. An answer that says
    /// no makes it unknown; fields of another type count as missing.
    pub fn from_hello(
        address: HostAddress,
        hello: &RawDocument,
        round_trip: Option<Duration>,
        now: Duration,
    ) -> Self {
        let kind = ServerType::of(hello);
        if kind == ServerType::Unknown {
            let reason = hello.get_str("errmsg").unwrap_or("the server refused hello");
            let unknown = Self::unknown(address, Some(reason.to_owned()));
            return Self { topology_version: TopologyVersion::of(hello), ..unknown };
        }
        let address_in =
            |name| hello.get_str(name).ok().and_then(|it| it.to_lowercase().parse().ok());
        let int = |name| number(hello, name).and_then(|value| i32::try_from(value).ok());
        let last_write =
            hello.get_document("lastWrite").and_then(|write| write.get_datetime("lastWriteDate"));
        Self {
            kind,
            error: None,
            updated_at: now,
            round_trip,
            round_trip_min: Duration::ZERO,
            last_write: last_write.ok(),
            min_wire_version: int("minWireVersion").unwrap_or(0),
            max_wire_version: int("maxWireVersion").unwrap_or(0),
            me: address_in("me"),
            primary: address_in("primary"),
            members: ["hosts", "passives", "arbiters"]
                .into_iter()
                .flat_map(|name| hosts(hello, name))
                .collect(),
            tags: tags(hello),
            set_name: hello.get_str("setName").ok().map(str::to_owned),
            set_version: int("setVersion"),
            election_id: hello.get_object_id("electionId").ok(),
            session_timeout_minutes: number(hello, "logicalSessionTimeoutMinutes"),
            topology_version: TopologyVersion::of(hello),
            address,
        }
    }
}

fn shortened(mut reason: String) -> String {
    if reason.len() > HELLO_ERROR_MAX {
        reason.truncate(reason.floor_char_boundary(HELLO_ERROR_MAX));
        reason.push('…');
        reason.shrink_to_fit();
    }
    reason
}

fn is_ok(reply: &RawDocument) -> bool {
    match reply.get("ok") {
        Ok(Some(RawBsonRef::Boolean(is_ok))) => is_ok,
        Ok(Some(RawBsonRef::Double(ok))) => ok == 1.0,
        _ => number(reply, "ok") == Some(1),
    }
}

/// A whole number of either size, or a double without a fraction.
pub(crate) fn number(document: &RawDocument, name: &str) -> Option<i64> {
    match document.get(name).ok()?? {
        RawBsonRef::Int32(number) => Some(number.into()),
        RawBsonRef::Int64(number) => Some(number),
        RawBsonRef::Double(number) if number.fract() == 0.0 => Some(number as i64),
        _ => None,
    }
}

/// The addresses in a list. What is no place in a network is left out, as is what a client would not follow.
fn hosts(hello: &RawDocument, name: &str) -> Vec<HostAddress> {
    let Ok(list) = hello.get_array(name) else { return Vec::new() };
    list.into_iter()
        .flatten()
        .filter_map(|host| host.as_str()?.to_lowercase().parse().ok())
        .filter(|host: &HostAddress| {
            matches!(host, HostAddress::Tcp { .. }) && host.to_address(false).is_ok()
        })
        .take(SERVERS_MAX)
        .collect()
}

fn tags(hello: &RawDocument) -> TagSet {
    let Ok(tags) = hello.get_document("tags") else { return TagSet::new() };
    let tag = |(name, value): (&bson::raw::CStr, RawBsonRef<'_>)| {
        Some((name.as_str().to_owned(), value.as_str()?.to_owned()))
    };
    tags.into_iter().flatten().filter_map(tag).collect()
}
