//! The pages `/version` and `/health`, by which supervisors and older tools know an etcd.

use ringway_http::http::StatusCode;
use ringway_http::{Response, Result, json};
use ringway_rpc::Server;
use serde::Serialize;

use super::Registry;
use super::durable::LogState;
use crate::limits;

#[derive(Serialize)]
struct VersionPage {
    etcdserver: &'static str,
    etcdcluster: &'static str,
}

/// etcd writes the truth as a text.
#[derive(Serialize)]
struct HealthPage {
    health: &'static str,
}

impl Registry {
    /// Adds the pages to a server.
    pub(super) fn pages_on(&self, server: Server) -> Server {
        let version =
            VersionPage { etcdserver: limits::API_VERSION, etcdcluster: limits::API_VERSION };
        let registry = self.clone();
        server
            .http_page("/version", async move |_request| json(&version))
            .http_page("/health", async move |_request| registry.health())
    }

    /// Whether the log takes changes.
    pub(crate) fn health(&self) -> Result<Response> {
        let is_well = self.state().log.as_ref().and_then(LogState::failure).is_none();
        let mut response = json(&HealthPage { health: if is_well { "true" } else { "false" } })?;
        if !is_well {
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        }
        Ok(response)
    }
}
