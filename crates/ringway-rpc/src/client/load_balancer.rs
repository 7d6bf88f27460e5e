//! Chooses the endpoint of a call, from what earlier calls have shown.

use std::cell::{Cell, OnceCell, RefCell};
use std::time::Duration;

use crate::call::status::{Code, Origin, Status};
use crate::limits;
use crate::policy::balance::{Balancer, Load, Opening, PeakEwma, Pick, Policy};
use crate::policy::{Evidence, HostHealth, may_eject};

/// Identifies an endpoint of one pool, even after it has left the list. Ids are not reused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct EndpointId(pub(super) u32);

/// An endpoint as the balancer gets it.
#[derive(Clone, Copy)]
pub(super) struct BalancedEndpoint {
    pub(super) id: EndpointId,
    /// The hash of the endpoint's address.
    pub(super) key: u64,
    pub(super) weight: u32,
    /// Whether other endpoints are called only where the near ones cannot take a call.
    pub(super) is_near: bool,
    /// The time at which the endpoint was added to the pool.
    pub(super) joined: Duration,
}

/// A call that is counted for an endpoint until it ends. Empty while a pool has only had one endpoint,
/// where there is nothing to balance.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct CountedCall(Option<EndpointId>);

/// The outcome of a call, for balancing.
#[derive(Clone, Copy)]
pub(super) struct AnsweredCall<'a> {
    pub(super) failure: Option<&'a Status>,
    /// The time at which the call was sent.
    pub(super) begun: Duration,
    pub(super) now: Duration,
    /// False for streams, which last as long as their users like.
    pub(super) has_latency: bool,
}

pub(super) struct LoadBalancer {
    policy: Policy,
    /// Where the next opening begins, in parts of 2⁶⁴ of the endpoints' weights.
    phase: Cell<u64>,
    /// The statistics, from the moment that there is more than one endpoint.
    learned: OnceCell<RefCell<Learned>>,
    /// The shares of the endpoints while the first connections are made.
    opening: RefCell<Option<Opening>>,
    /// Whether there are such; a call that is sent looks at nothing else.
    is_opening: Cell<bool>,
}

struct Learned {
    balancer: Balancer,
    /// The statistics of each endpoint, in the pool's order.
    loads: Vec<Load>,
    health: Vec<HostHealth>,
    ids: Vec<EndpointId>,
    /// Which endpoints are near; empty if all are.
    near: Vec<bool>,
}

impl LoadBalancer {
    /// `phase` is where the first calls begin with the endpoints, in parts of 2⁶⁴ of their weights.
    pub(super) fn new(policy: Policy, phase: u64) -> Self {
        let (learned, opening) = (OnceCell::new(), RefCell::default());
        Self { policy, phase: Cell::new(phase), learned, opening, is_opening: Cell::new(false) }
    }

    /// Whether there is or was more than one endpoint.
    #[inline]
    pub(super) fn is_active(&self) -> bool {
        self.learned.get().is_some()
    }

    /// Replaces the endpoints. Those that stay keep their statistics.
    pub(super) fn set_endpoints(&self, endpoints: &[BalancedEndpoint], now: Duration) {
        if !self.is_active() && endpoints.len() < 2 {
            return;
        }
        let learned = || RefCell::new(Learned::new(self.policy, self.phase.get()));
        let is_first = !self.is_active();
        let mut learned = self.learned.get_or_init(learned).borrow_mut();
        learned.set_endpoints(endpoints, now);
        if is_first {
            learned.begin_at(self.phase.get());
        }
        if is_first || self.is_opening() {
            let opening = Opening::new(self.phase.get(), endpoints.len());
            self.opening.replace(Some(opening));
            self.is_opening.set(true);
        }
    }

    /// Whether calls are shared among endpoints that are still being connected to.
    #[inline]
    pub(super) fn is_opening(&self) -> bool {
        self.is_opening.get()
    }

    /// Begins to share calls among endpoints of which none is connected, or ends that.
    pub(super) fn set_opening(&self, opens: bool) {
        let Some(learned) = self.learned.get() else { return };
        if opens == self.is_opening.replace(opens) {
            return;
        }
        let phase = self.phase.get().wrapping_add(limits::GOLDEN_STEP);
        self.phase.set(phase);
        let hosts = learned.borrow().loads.len();
        self.opening.replace(opens.then(|| Opening::new(phase, hosts)));
    }

    /// How many of the `waiting` calls each endpoint is to get, while they are shared. `is_live` tells whether
    /// an endpoint is connected to or being connected to.
    pub(super) fn shares(
        &self,
        waiting: usize,
        is_live: impl Fn(usize) -> bool,
    ) -> Option<Vec<usize>> {
        let opening = self.opening.borrow();
        let (opening, learned) = (opening.as_ref()?, self.learned.get()?.borrow());
        let mut live: Vec<_> = (0..learned.loads.len()).map(is_live).collect();
        let near = || live.iter().zip(&learned.near).map(|(live, near)| *live && *near);
        if near().any(|is_near_live| is_near_live) {
            live = near().collect();
        }
        Some(opening.shares(&learned.loads, &live, waiting))
    }

    /// Whether the policy assigns each key to one endpoint.
    pub(super) fn has_owners(&self) -> bool {
        self.policy.has_owners()
    }

    /// The index of the endpoint for the next call, among the `usable` ones and preferably not the
    /// `tried` one. If all of them are ejected, ejection is ignored.
    pub(super) fn pick(
        &self,
        now: Duration,
        key: Option<u64>,
        tried: Option<EndpointId>,
        usable: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut learned = self.learned.get()?.borrow_mut();
        match learned.pick(now, key, tried, &usable) {
            // All remaining endpoints were tried.
            None if tried.is_some() => learned.pick(now, key, None, &usable),
            picked => picked,
        }
    }

    /// Counts a call that was sent to the endpoint.
    #[inline]
    pub(super) fn sent(&self, endpoint: EndpointId, now: Duration, is_stream: bool) -> CountedCall {
        let Some(learned) = self.learned.get() else {
            return CountedCall(None);
        };
        CountedCall(learned.borrow_mut().sent(endpoint, now, is_stream))
    }

    /// Counts a call that was sent to the endpoint while calls are shared.
    #[cold]
    pub(super) fn count_share(&self, endpoint: EndpointId) {
        let at = self.learned.get().and_then(|learned| learned.borrow().at(endpoint));
        if let Some((at, opening)) = at.zip(self.opening.borrow_mut().as_mut()) {
            opening.sent(at);
        }
    }

    /// Records the outcome of a counted call.
    #[inline]
    pub(super) fn answered(&self, call: CountedCall, answered: AnsweredCall<'_>) {
        if let Some((endpoint, learned)) = call.0.zip(self.learned.get()) {
            learned.borrow_mut().answered(endpoint, answered);
        }
    }

    /// Records that the caller gave up a counted call. A unary call that had no answer by `unanswered`
    /// shows that the endpoint takes at least that long; otherwise nothing is learned.
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

    /// Records a failed attempt to connect.
    pub(super) fn unreachable(&self, endpoint: EndpointId, now: Duration) {
        if let Some(learned) = self.learned.get() {
            learned.borrow_mut().unreachable(endpoint, now);
        }
    }
}

impl Learned {
    fn new(policy: Policy, seed: u64) -> Self {
        let balancer = Balancer::new(policy, seed);
        let (loads, health, ids, near) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { balancer, loads, health, ids, near }
    }

    fn set_endpoints(&mut self, endpoints: &[BalancedEndpoint], now: Duration) {
        let mean = PeakEwma::mean(self.loads.iter().map(|load| &load.latency), now);
        let (mut loads, mut health) = (Vec::new(), Vec::new());
        for &BalancedEndpoint { id, key, weight, joined, .. } in endpoints {
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
        self.near = endpoints.iter().map(|endpoint| endpoint.is_near).collect();
        if self.near.iter().all(|is_near| *is_near) {
            self.near = Vec::new();
        }
        self.balancer.hosts_changed(&self.loads);
    }

    fn begin_at(&mut self, phase: u64) {
        self.balancer.begin_at(phase, &mut self.loads);
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
        let rounds = [(true, false), (false, false), (false, true)];
        let first = usize::from(self.near.is_empty());
        for (is_near_only, ignores_ejection) in rounds.into_iter().skip(first) {
            for (at, load) in self.loads.iter_mut().enumerate() {
                load.available = usable(at)
                    && (!is_near_only || self.near[at])
                    && (ignores_ejection || self.health[at].is_available(now));
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
        self.record(at, evidence, Some(begun), now);
    }

    fn unreachable(&mut self, endpoint: EndpointId, now: Duration) {
        if let Some(at) = self.at(endpoint) {
            self.record(at, Evidence::Silent, None, now);
        }
    }

    fn record(&mut self, at: usize, evidence: Evidence, begun: Option<Duration>, now: Duration) {
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
