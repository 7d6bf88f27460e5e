//! State that the parts of one pool share on their core.

use std::rc::Rc;
use std::sync::Arc;

use super::call_metrics::CallMetrics;
use super::config::ClientConfig;
use super::load_balancer::LoadBalancer;
use crate::connection::driver::Clock;

pub(super) struct PoolContext {
    pub(super) config: Arc<ClientConfig>,
    pub(super) clock: Clock,
    pub(super) metrics: CallMetrics,
    pub(super) balancer: LoadBalancer,
}

impl PoolContext {
    /// `phase` is where the pool begins with its servers, in parts of 2⁶⁴.
    pub(super) fn new(config: Arc<ClientConfig>, clock: Clock, phase: u64) -> Rc<Self> {
        let metrics = CallMetrics::new(config.metrics.clone());
        let balancer = LoadBalancer::new(config.policy, phase);
        Rc::new(Self { config, clock, metrics, balancer })
    }
}
