//! Which of several endpoints a call goes to: what the policies need to know, learned from how calls
//! went.

use std::cell::{OnceCell, RefCell};
use std::time::Duration;

use crate::call::status::{Code, Origin, Status};
use crate::policy::balance::{Balancer, Load, PeakEwma, Pick, Policy};
use crate::policy::{Evidence, HostHealth, may_eject};

/// Names an endpoint of one pool, also when it is in the list no more. Ids are not used again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct EndpointId(pub(super) u32);

/// An endpoint as it comes into the balancer.
#[derive(Clone, Copy)]
pub(super) struct BalancedEndpoint {
    pub(super) id: EndpointId,
    /// A hash of its address.
    pub(super) key: u64,
    pub(super) weight: u32,
    /// When the pool got it.
    pub(super) joined: Duration,
}

/// A call that an endpoint is counted to have, until its end is told. It is none where there has never
/// been but one endpoint, of which nothing is to be learned.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct CountedCall(Option<EndpointId>);

/// How a call has ended.
#[derive(Clone, Copy)]
pub(super) struct AnsweredCall<'a> {
    pub(super) failure: Option<&'a Status>,
    /// When it was sent.
    pub(super) begun: Duration,
    pub(super) now: Duration,
    /// Streams have none: they last as long as they are wanted.
    pub(super) has_latency: bool,
}

pub(super) struct LoadBalancer {
    policy: Policy,
    /// From the moment that there is more than one endpoint.
    learned: OnceCell<RefCell<Learned>>,
}

struct Learned {
    balancer: Balancer,
    /// Of each endpoint, in the order of the pool's.
    loads: Vec<Load>,
    health: Vec<HostHealth>,
    ids: Vec<EndpointId>,
}

impl LoadBalancer {
    pub(super) fn new(policy: Policy) -> Self {
        Self { policy, learned: OnceCell::new() }
    }

    /// Whether there is a choice.
    #[inline]
    pub(super) fn is_active(&self) -> bool {
        self.learned.get().is_some()
    }

    /// Takes these endpoints in place of those that it had. Of those that stay nothing is forgotten.
    pub(super) fn set_endpoints(&self, endpoints: &[BalancedEndpoint], now: Duration) {
        if self.is_active() || endpoints.len() > 1 {
            let learned = || RefCell::new(Learned::new(self.policy, fastrand::u64(..)));
            self.learned.get_or_init(learned).borrow_mut().set_endpoints(endpoints, now);
        }
    }

    /// Whether calls with a key belong to one endpoint each.
    pub(super) fn has_owners(&self) -> bool {
        self.policy.has_owners()
    }

    /// The place of the endpoint for the next call, of those that are `usable`: if possible not the one
    /// `tried`. Where all of them are ejected, ejection counts for nothing.
    pub(super) fn pick(
        &self,
        now: Duration,
        key: Option<u64>,
        tried: Option<EndpointId>,
        usable: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut learned = self.learned.get()?.borrow_mut();
        match learned.pick(now, key, tried, &usable) {
            // All that are left were tried.
            None if tried.is_some() => learned.pick(now, key, None, &usable),
            picked => picked,
        }
    }

    /// A call was sent to the endpoint.
    #[inline]
    pub(super) fn sent(&self, endpoint: EndpointId, now: Duration, is_stream: bool) -> CountedCall {
        let Some(learned) = self.learned.get() else {
            return CountedCall(None);
        };
        CountedCall(learned.borrow_mut().sent(endpoint, now, is_stream))
    }

    /// Such a call has ended.
    #[inline]
    pub(super) fn answered(&self, call: CountedCall, answered: AnsweredCall<'_>) {
        if let Some((endpoint, learned)) = call.0.zip(self.learned.get()) {
            learned.borrow_mut().answered(endpoint, answered);
        }
    }

    /// Such a call was given up by its caller. If that was a call which had no answer until
    /// `unanswered`, the endpoint takes as long at least; otherwise it says nothing of the endpoint.
    pub(super) fn given_up(
        &self,
        call: CountedCall,
        begun: Duration,
        unanswered: Option<Duration>,
    ) {
        if let Some((endpoint, learned)) = call.0.zip(self.learned.get()) {
            learned.borrow_mut().given_up(endpoint, begun, unanswered);
        }
    }

    /// Connecting to the endpoint has failed.
    pub(super) fn unreachable(&self, endpoint: EndpointId, now: Duration) {
        if let Some(learned) = self.learned.get() {
            learned.borrow_mut().unreachable(endpoint, now);
        }
    }
}

impl Learned {
    fn new(policy: Policy, seed: u64) -> Self {
        let balancer = Balancer::new(policy, seed);
        Self { balancer, loads: Vec::new(), health: Vec::new(), ids: Vec::new() }
    }

    fn set_endpoints(&mut self, endpoints: &[BalancedEndpoint], now: Duration) {
        let mean = PeakEwma::mean(self.loads.iter().map(|load| &load.latency), now);
        let (mut loads, mut health) = (Vec::new(), Vec::new());
        for &BalancedEndpoint { id, key, weight, joined } in endpoints {
            if let Some(at) = self.at(id) {
                let mut load = self.loads[at].clone();
                load.weight = weight;
                loads.push(load);
                health.push(self.health[at].clone());
            } else {
                loads.push(Load::new(key, weight, mean, joined));
                health.push(HostHealth::new(now));
            }
        }
        let ids = endpoints.iter().map(|endpoint| endpoint.id).collect();
        (self.loads, self.health, self.ids) = (loads, health, ids);
        self.balancer.hosts_changed(&self.loads);
    }

    fn at(&self, endpoint: EndpointId) -> Option<usize> {
        self.ids.iter().position(|id| *id == endpoint)
    }

    fn pick(
        &mut self,
        now: Duration,
        key: Option<u64>,
        tried: Option<EndpointId>,
        usable: &impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let tried = tried.and_then(|endpoint| self.at(endpoint));
        for ignores_ejection in [false, true] {
            for (at, load) in self.loads.iter_mut().enumerate() {
                load.available =
                    usable(at) && (ignores_ejection || self.health[at].is_available(now));
            }
            let pick = Pick { now, key, tried: tried.as_slice() };
            if let Some(at) = self.balancer.pick(&mut self.loads, pick) {
                return Some(at);
            }
        }
        None
    }

    fn sent(&mut self, endpoint: EndpointId, now: Duration, is_stream: bool) -> Option<EndpointId> {
        let at = self.at(endpoint)?;
        self.loads[at].in_flight += 1;
        self.health[at].called(now, is_stream);
        Some(endpoint)
    }

    fn given_up(&mut self, endpoint: EndpointId, begun: Duration, unanswered: Option<Duration>) {
        let Some(at) = self.at(endpoint) else {
            return;
        };
        self.loads[at].in_flight -= 1;
        let Some(now) = unanswered else {
            return self.health[at].told_nothing(begun);
        };
        let waited = now.saturating_sub(begun);
        self.loads[at].latency.observe_at_least(waited, now);
        let health = &mut self.health[at];
        if health.is_on_trial() {
            let others = self.loads.iter().enumerate().filter(|(other, _)| *other != at);
            let usual = PeakEwma::mean(others.map(|(_, load)| &load.latency), now);
            match waited.as_secs_f64() * 1e6 >= usual.micros(now) {
                true => health.left_unanswered(begun, now),
                false => health.told_nothing(begun),
            }
        }
    }

    fn answered(&mut self, endpoint: EndpointId, answered: AnsweredCall<'_>) {
        let Some(at) = self.at(endpoint) else {
            return;
        };
        let AnsweredCall { failure, begun, now, has_latency } = answered;
        let load = &mut self.loads[at];
        load.in_flight -= 1;
        let evidence = failure.map_or(Evidence::Good, evidence_of);
        let latency = now.saturating_sub(begun);
        match evidence {
            Evidence::Good if has_latency => load.latency.observe(latency, now),
            Evidence::Bad | Evidence::Silent if has_latency => {
                load.latency.observe_at_least(latency, now);
            }
            _ => {}
        }
        self.learn(at, evidence, Some(begun), now);
    }

    fn unreachable(&mut self, endpoint: EndpointId, now: Duration) {
        if let Some(at) = self.at(endpoint) {
            self.learn(at, Evidence::Silent, None, now);
        }
    }

    fn learn(&mut self, at: usize, evidence: Evidence, begun: Option<Duration>, now: Duration) {
        if self.health[at].learn(evidence, begun, now) {
            let ejected = self.health.iter().filter(|health| health.is_ejected()).count();
            if may_eject(ejected, self.health.len()) {
                self.health[at].eject(now);
            }
        }
    }
}

fn evidence_of(failure: &Status) -> Evidence {
    match failure.code() {
        Code::Unavailable if failure.origin() == Origin::Local => Evidence::Silent,
        Code::Unavailable
        | Code::DeadlineExceeded
        | Code::ResourceExhausted
        | Code::Internal
        | Code::Unknown
        | Code::DataLoss => Evidence::Bad,
        _ => Evidence::Good,
    }
}
