//! The messages of `grpc.health.v1`.

use std::collections::BTreeMap;

use crate::builtin::health::ServingStatus;

/// The request about one service; the empty name stands for the server.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    pub(crate) service: String,
}

/// The answer: a status of [`GrpcServingStatus`].
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct HealthCheckResponse {
    #[prost(enumeration = "GrpcServingStatus", tag = "1")]
    pub(crate) status: i32,
}

/// The request for all services.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct HealthListRequest {}

/// The status of each service.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HealthListResponse {
    #[prost(btree_map = "string, message", tag = "1")]
    pub(crate) statuses: BTreeMap<String, HealthCheckResponse>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum GrpcServingStatus {
    Unknown = 0,
    Serving = 1,
    NotServing = 2,
    /// Only `Watch` returns it.
    ServiceUnknown = 3,
}

impl HealthCheckResponse {
    /// Makes a response; `None` stands for an unknown service.
    pub(crate) fn of(serving: Option<ServingStatus>) -> Self {
        let status = match serving {
            Some(ServingStatus::Serving) => GrpcServingStatus::Serving,
            Some(ServingStatus::NotServing) => GrpcServingStatus::NotServing,
            None => GrpcServingStatus::ServiceUnknown,
        };
        Self { status: status.into() }
    }
}
