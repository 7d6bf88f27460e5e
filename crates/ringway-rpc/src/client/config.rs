//! Configuration that all pools of a client share, on every core.

use ringway_wire::native;

use super::hosts::Connector;
use super::interceptor::MakeClientInterceptor;
use crate::metrics::Metrics;
use crate::policy::balance::Policy;

pub(super) struct ClientConfig {
    pub(super) connector: Connector,
    pub(super) policy: Policy,
    /// Connections to keep to each host from each core that uses it.
    pub(super) connections_min: usize,
    pub(super) connections_max: usize,
    pub(super) native: native::Config,
    /// The outermost first.
    pub(super) interceptors: Vec<MakeClientInterceptor>,
    /// Counts of all cores.
    pub(super) metrics: Metrics,
}
