//! Which of several hosts a call goes to: what the policies need to know, learned from how calls
//! went.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use super::hosts::Target;
use crate::balance::{Balancer, Load, PeakEwma, Pick, Policy};
use crate::resilience::{Evidence, Health, may_eject};
use crate::status::{Code, Origin, Status};

pub(super) struct Spread {
    balancer: Balancer,
    loads: Vec<Load>,
    health: Vec<Health>,
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
    /// For these hosts, which all join at `now`.
    pub(super) fn new(policy: Policy, targets: &[Target], now: Duration, seed: u64) -> Self {
        let load = |Target { host, .. }: &Target| {
            let key = hash_of(&host.address.to_string());
            Load::new(key, host.weight, PeakEwma::default(), now)
        };
        let loads: Vec<_> = targets.iter().map(load).collect();
        let mut balancer = Balancer::new(policy, seed);
        balancer.hosts_changed(&loads);
        Self { balancer, health: vec![Health::new(now); loads.len()], loads }
    }

    /// The host for the next call, of those that are `reachable`: if possible none of those `tried`.
    /// Where all of them are ejected, ejection counts for nothing.
    pub(super) fn pick(
        &mut self,
        now: Duration,
        key: Option<u64>,
        tried: &[usize],
        reachable: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        for ignores_ejection in [false, true] {
            for (host, load) in self.loads.iter_mut().enumerate() {
                let usable = ignores_ejection || self.health[host].is_available(now);
                load.available = usable && reachable(host);
            }
            let pick = Pick { now, key, tried };
            if let Some(host) = self.balancer.pick(&mut self.loads, pick) {
                return Some(host);
            }
        }
        // All that are left were tried.
        match tried {
            [] => None,
            _ => self.pick(now, key, &[], reachable),
        }
    }

    /// A call was sent to the host.
    pub(super) fn began(&mut self, host: usize, now: Duration) {
        self.loads[host].in_flight += 1;
        self.health[host].called(now);
    }

    /// A call of that moment was given up by its caller, which says nothing of the host.
    pub(super) fn given_up(&mut self, host: usize, begun: Duration) {
        self.loads[host].in_flight -= 1;
        self.health[host].told_nothing(begun);
    }

    /// A call has ended.
    pub(super) fn ended(&mut self, host: usize, answered: Answered<'_>) {
        let Answered { failure, begun, now, has_latency } = answered;
        let load = &mut self.loads[host];
        load.in_flight -= 1;
        let evidence = failure.map_or(Evidence::Good, evidence_of);
        if has_latency && evidence == Evidence::Good {
            load.latency.observe(now.saturating_sub(begun), now);
        }
        self.learn(host, evidence, Some(begun), now);
    }

    /// Connecting to the host has failed.
    pub(super) fn unreachable(&mut self, host: usize, now: Duration) {
        self.learn(host, Evidence::Silent, None, now);
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

/// The same in every process of the same program, so that equal keys meet the same host.
pub(super) fn hash_of(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
