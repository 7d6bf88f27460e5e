//! Configuration that all pools of a client share, on every core.

use std::sync::Arc;
use std::time::Duration;

use ringway_wire::{grpc, http2, native};

use super::connector::Connector;
use super::host_rules::HostRules;
use super::interceptor::MakeClientInterceptor;
use super::jsonrpc::{JsonClient, JsonClientConfig};
use super::machine::AnyMachine;
use super::resolve::SharedState;
use super::server_address::{Protocol, ServerAddress};
use crate::metrics::Metrics;
use crate::policy::balance::Policy;

pub(super) struct ClientConfig {
    pub(super) connector: Connector,
    pub(super) policy: Policy,
    /// The number of connections that each core keeps to each host it uses.
    pub(super) connections_min: usize,
    pub(super) connections_max: usize,
    pub(super) native: native::Config,
    pub(super) http2: http2::Http2Config,
    pub(super) compression: Option<grpc::ClientCompression>,
    /// The interceptors, outermost first.
    pub(super) interceptors: Vec<MakeClientInterceptor>,
    /// The metrics of all cores.
    pub(super) metrics: Metrics,
    /// Which hosts of a list are called.
    pub(super) rules: HostRules,
    /// What is known of the client's resolver, if it has one.
    pub(super) resolver: Option<Arc<SharedState>>,
}

impl ClientConfig {
    /// A default configuration for tests.
    #[cfg(test)]
    pub(super) fn plain() -> Self {
        Self {
            connector: Connector::new(),
            policy: Policy::default(),
            connections_min: 1,
            connections_max: 2,
            native: native::Config::default(),
            http2: http2::Http2Config::client(),
            compression: None,
            interceptors: Vec::new(),
            metrics: Metrics::new(),
            rules: HostRules::new(),
            resolver: None,
        }
    }

    /// Makes the machine of a new connection.
    pub(super) fn machine(&self, server: &ServerAddress, now: Duration) -> AnyMachine {
        match server.protocol {
            Protocol::Native => AnyMachine::native(self.native.clone(), now),
            Protocol::Grpc => {
                let config = grpc::ClientConfig {
                    http2: self.http2.clone(),
                    is_secure: server.is_secure(),
                    compression: self.compression,
                    max_message: self.native.settings.max_message,
                    ..grpc::ClientConfig::new(server.authority())
                };
                AnyMachine::grpc(config, now)
            }
            Protocol::JsonLines | Protocol::JsonPost | Protocol::JsonSocket => {
                let config = JsonClientConfig::of(&self.native);
                AnyMachine::json(match server.protocol {
                    Protocol::JsonPost => {
                        JsonClient::by_post(config, &server.authority(), server.path(), now)
                    }
                    Protocol::JsonSocket => {
                        JsonClient::by_socket(config, &server.authority(), server.path(), now)
                    }
                    _ => JsonClient::on_lines(config, now),
                })
            }
        }
    }
}
