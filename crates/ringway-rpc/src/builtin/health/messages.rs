//! The messages of `grpc.health.v1`.

use std::collections::BTreeMap;

use crate::builtin::health::Serving;

/// Asks about one service; the empty name is the server.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    pub(crate) service: String,
}

/// The answer: a `ServingStatus`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct HealthCheckResponse {
    #[prost(enumeration = "ServingStatus", tag = "1")]
    pub(crate) status: i32,
}

/// Asks about all services.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct HealthListRequest {}

/// Each service and its status.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HealthListResponse {
    #[prost(btree_map = "string, message", tag = "1")]
    pub(crate) statuses: BTreeMap<String, HealthCheckResponse>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum ServingStatus {
    Unknown = 0,
    Serving = 1,
    NotServing = 2,
    /// Only `Watch` says so.
    ServiceUnknown = 3,
}

impl HealthCheckResponse {
    /// `None` is a service that nobody has heard of.
    pub(crate) fn of(serving: Option<Serving>) -> Self {
        let status = match serving {
            Some(Serving::Yes) => ServingStatus::Serving,
            Some(Serving::No) => ServingStatus::NotServing,
            None => ServingStatus::ServiceUnknown,
        };
        Self { status: status.into() }
    }
}
