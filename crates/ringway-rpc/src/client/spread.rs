//! Which of several hosts a call goes to: what the policies need to know, learned from how calls
//! went.

use std::time::Duration;

use super::pool_host::PoolHost;
use crate::call::status::{Code, Origin, Status};
use crate::policy::balance::{Balancer, Load, PeakEwma, Pick, Policy, hash_of};
use crate::policy::{Evidence, Health, may_eject};

/// Names a host of a spread for calls under way, which may outlast its place in the list; it is not
/// used again. The first one names none: it is that of hosts that belong to no spread.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct HostId(u32);

impl HostId {
    #[cfg(test)]
    pub(super) fn numbered(number: u32) -> Self {
        Self(number)
    }
}

pub(super) struct Spread {
    balancer: Balancer,
    /// Of each host, in the order of the pool's.
    loads: Vec<Load>,
    health: Vec<Health>,
    ids: Vec<HostId>,
    last_id: HostId,
}

/// How a call has ended.
#[derive(Clone, Copy)]
pub(super) struct Answered<'a> {
    pub(super) failure: Option<&'a Status>,
    /// When it was sent.
    pub(super) begun: Duration,
    pub(super) now: Duration,
    /// Streams have none: they last as long as they are wanted.
    pub(super) has_latency: bool,
}

impl Spread {
    pub(super) fn new(policy: Policy, seed: u64) -> Self {
        Self {
            balancer: Balancer::new(policy, seed),
            loads: Vec::new(),
            health: Vec::new(),
            ids: Vec::new(),
            last_id: HostId::default(),
        }
    }

    /// Takes these hosts, with their weights, in place of those that it had. Of hosts that stay
    /// nothing is forgotten.
    pub(super) fn set_hosts<'a>(
        &mut self,
        hosts: impl Iterator<Item = (&'a PoolHost, u32)>,
        now: Duration,
    ) {
        let mean = PeakEwma::mean(self.loads.iter().map(|load| &load.latency), now);
        let (mut loads, mut health, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        for (host, weight) in hosts {
            if let Some(at) = self.at(host.id()) {
                let mut load = self.loads[at].clone();
                load.weight = weight;
                loads.push(load);
                health.push(self.health[at].clone());
            } else {
                self.last_id.0 += 1;
                host.set_id(self.last_id);
                let key = hash_of(&host.address().to_string());
                loads.push(Load::new(key, weight, mean, host.joined()));
                health.push(Health::new(now));
            }
            ids.push(host.id());
        }
        (self.loads, self.health, self.ids) = (loads, health, ids);
        self.balancer.hosts_changed(&self.loads);
    }

    fn at(&self, host: HostId) -> Option<usize> {
        self.ids.iter().position(|id| *id == host)
    }

    /// Whether calls with a key belong to one host each.
    pub(super) fn has_owners(&self) -> bool {
        self.balancer.has_owners()
    }

    /// The place of the host for the next call, of those that are `usable`: if possible not the one
    /// `tried`. Where all of them are ejected, ejection counts for nothing.
    pub(super) fn pick(
        &mut self,
        now: Duration,
        key: Option<u64>,
        tried: Option<HostId>,
        usable: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let tried = tried.and_then(|host| self.at(host));
        for ignores_ejection in [false, true] {
            for (host, load) in self.loads.iter_mut().enumerate() {
                load.available =
                    usable(host) && (ignores_ejection || self.health[host].is_available(now));
            }
            let pick = Pick { now, key, tried: tried.as_slice() };
            if let Some(host) = self.balancer.pick(&mut self.loads, pick) {
                return Some(host);
            }
        }
        // All that are left were tried.
        match tried {
            None => None,
            Some(_) => self.pick(now, key, None, usable),
        }
    }

    /// A call was sent to the host.
    pub(super) fn began(&mut self, host: HostId, now: Duration, is_stream: bool) {
        if let Some(host) = self.at(host) {
            self.loads[host].in_flight += 1;
            self.health[host].called(now, is_stream);
        }
    }

    /// A call of that moment was given up by its caller. If that was a call which had no answer until
    /// `unanswered`, the host takes as long at least; otherwise it says nothing of the host.
    pub(super) fn given_up(&mut self, host: HostId, begun: Duration, unanswered: Option<Duration>) {
        let Some(host) = self.at(host) else {
            return;
        };
        self.loads[host].in_flight -= 1;
        let Some(now) = unanswered else {
            return self.health[host].told_nothing(begun);
        };
        let waited = now.saturating_sub(begun);
        self.loads[host].latency.observe_at_least(waited, now);
        let health = &mut self.health[host];
        if health.is_on_trial() {
            let others = self.loads.iter().enumerate().filter(|(other, _)| *other != host);
            let usual = PeakEwma::mean(others.map(|(_, load)| &load.latency), now);
            match waited.as_secs_f64() * 1e6 >= usual.micros(now) {
                true => health.left_unanswered(begun, now),
                false => health.told_nothing(begun),
            }
        }
    }

    /// A call has ended.
    pub(super) fn ended(&mut self, host: HostId, answered: Answered<'_>) {
        let Some(host) = self.at(host) else {
            return;
        };
        let Answered { failure, begun, now, has_latency } = answered;
        let load = &mut self.loads[host];
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
        self.learn(host, evidence, Some(begun), now);
    }

    /// Connecting to the host has failed.
    pub(super) fn unreachable(&mut self, host: HostId, now: Duration) {
        if let Some(host) = self.at(host) {
            self.learn(host, Evidence::Silent, None, now);
        }
    }

    fn learn(&mut self, host: usize, evidence: Evidence, begun: Option<Duration>, now: Duration) {
        if self.health[host].learn(evidence, begun, now) {
            let ejected = self.health.iter().filter(|health| health.is_ejected()).count();
            if may_eject(ejected, self.health.len()) {
                self.health[host].eject(now);
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
