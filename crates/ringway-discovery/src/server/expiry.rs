//! Leases that nobody renews end in time.

use std::time::Duration;

use ringway_net::ServerHandle;
use ringway_runtime as runtime;

use super::trouble::Effect;
use super::{Registry, State};
use crate::limits;

/// The duty to look after the leases; `None` when it is done. Dropping it says that nobody does, however its task ended.
struct Duty(Option<Registry>);

impl Drop for Duty {
    fn drop(&mut self) {
        if let Some(registry) = self.0.take() {
            registry.state().expires_leases = false;
        }
    }
}

/// Pauses of the registry, one after the other. A core that is late each time is slow: it reads renewals between its looks.
#[derive(Default)]
struct Pauses(u32);

impl Pauses {
    /// Whether a look that is so late shows a pause that is to be forgiven.
    fn forgive(&mut self, late: Duration) -> bool {
        let is_pause = late >= limits::PAUSE_FORGIVEN;
        self.0 = if is_pause { self.0.saturating_add(1) } else { 0 };
        is_pause && self.0 <= limits::PAUSES_FORGIVEN
    }
}

impl Registry {
    /// Has a server's first core look after the leases that there are, before anybody asks for one. If it cannot, the
    /// first request does.
    pub(super) fn begin_on(&self, server: &ServerHandle) {
        let registry = self.clone();
        if let Some(core) = server.cores().first() {
            drop(core.spawn(async move || registry.expire_leases()));
        }
    }

    /// Ends some of the leases that have expired. Nobody waits until that is logged. Returns how long to wait before others
    /// are looked for.
    fn end_expired(&self) -> Duration {
        if !self.state().ends_leases() {
            return limits::EXPIRY_LOOK;
        }
        let ended = self.change_now(Effect::Frees, |store, now| {
            let (mut leases, mut keys) = (0, 0);
            while leases < limits::EXPIRED_AT_ONCE
                && keys < limits::EXPIRED_KEYS_AT_ONCE
                && let Some(lease) = store.expired(now)
            {
                (leases, keys) = (leases + 1, keys + store.lease_key_count(lease));
                _ = store.revoke(lease);
            }
            Ok(())
        });
        match ended {
            Ok(_) => {
                self.log_changes();
                Duration::ZERO
            }
            // The log has failed.
            Err(_) => limits::EXPIRY_LOOK,
        }
    }

    /// Gives the leases some time if they are looked at much later than was due. The process, or its machine, was stopped
    /// then, and the renewals that came meanwhile have still to be read.
    fn forgive_pause(&self, due: Duration, pauses: &mut Pauses) {
        let now = self.now();
        if pauses.forgive(now.saturating_sub(due)) {
            self.state().store.prolong_leases(limits::PAUSED_LEASE_MIN, now);
        }
    }

    /// Makes sure that a task on some core ends the leases that nobody renews. It ends when there are none left.
    pub(super) fn expire_leases(&self) {
        let begins = self.state().takes_duty();
        if begins {
            self.begin_duty();
        }
    }

    /// Looks after the leases on this core, whose duty was taken.
    pub(super) fn begin_duty(&self) {
        runtime::spawn_named("registry leases", Duty(Some(self.clone())).run());
    }
}

impl State {
    /// Whether somebody has to look after the leases from now on. Whoever asks has [to begin](Registry::begin_duty).
    pub(super) fn takes_duty(&mut self) -> bool {
        if self.expires_leases {
            return false;
        }
        let has_failed = self.log.as_ref().is_some_and(|log| log.failure().is_some());
        self.expires_leases = self.store.next_expiry().is_some() && !has_failed;
        self.expires_leases
    }
}

impl Duty {
    async fn run(mut self) {
        let (mut due, mut pauses) = (None, Pauses::default());
        while let Some((registry, at)) = self.next_expiry() {
            if let Some(due) = due {
                registry.forgive_pause(due, &mut pauses);
            }
            // A lease that is granted meanwhile may be the first to expire.
            let wait = at.saturating_sub(registry.now()).min(limits::EXPIRY_LOOK);
            let pause = match wait {
                Duration::ZERO => registry.end_expired(),
                wait => wait,
            };
            due = Some(registry.now() + pause);
            match pause {
                Duration::ZERO => runtime::yield_now().await, // many leases may expire at once
                pause => _ = runtime::sleep(pause).await,
            }
        }
    }

    /// When the next lease expires. If there is none, the duty is done: under the same lock, so that whoever grants a
    /// lease on another core meanwhile begins a new one.
    fn next_expiry(&mut self) -> Option<(&Registry, Duration)> {
        let registry = self.0.take()?;
        let mut state = registry.state();
        let Some(at) = state.store.next_expiry() else {
            state.expires_leases = false;
            return None;
        };
        drop(state);
        Some((self.0.insert(registry), at))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::failure;
    use super::*;
    use crate::etcd::api::etcdserverpb::{Lease as _, LeaseGrantRequest};
    use crate::log::Ids;
    use crate::store::{LeaseId, Transaction};

    #[test]
    fn a_registry_that_was_stopped_does_not_end_leases_that_nobody_could_renew() {
        let ended = runtime::block_on(async {
            let (ttl, left) = (Duration::from_secs(60), Duration::from_millis(100));
            let registry = registry_since(2 * ttl);
            let renewed = registry.now() + left - ttl;
            let granted = registry.state().store.grant(LeaseId(1), ttl, renewed);
            granted.expect("the id is free");
            registry.expire_leases();
            runtime::yield_now().await;
            // The core does nothing meanwhile, as if its process was stopped.
            hold_up(limits::PAUSE_FORGIVEN + 4 * left);
            for _ in 0..100 {
                runtime::yield_now().await;
            }
            registry.state().store.renew(LeaseId(1), registry.now())
        });
        assert_eq!(ended.expect("a core"), Ok(Duration::from_secs(60)));
    }

    /// A registry on whose clock some time has passed.
    fn registry_since(passed: Duration) -> Registry {
        Registry::make_with(None, None, Ids::random(), passed, runtime::now())
    }

    /// Does nothing for some time, in this turn of the core.
    fn hold_up(time: Duration) {
        let (_sender, nothing) = std::sync::mpsc::channel::<()>();
        nothing.recv_timeout(time).expect_err("nobody sends anything");
    }

    #[test]
    fn a_lease_lasts_from_its_grant_or_renewal_on_and_not_from_the_begin_of_a_long_turn() {
        runtime::block_on(async {
            let registry = registry_since(Duration::ZERO);
            let expires = || registry.state().store.lease(LeaseId(1)).expect("it is there").expires;
            let ttl = Duration::from_secs(60);
            hold_up(Duration::from_millis(5));
            let granted_at = registry.now_exact();
            let grant = LeaseGrantRequest { ttl: 60, id: 1 };
            registry.lease_grant(grant).await.expect("the id is free");
            assert!(expires() >= granted_at + ttl, "the turn is counted twice");
            hold_up(Duration::from_millis(5));
            let renewed_at = registry.now_exact();
            assert_eq!(registry.renew_lease(1).ttl, 60);
            assert!(expires() >= renewed_at + ttl, "the turn is counted twice");
        })
        .expect("a core");
    }

    #[test]
    fn leases_with_many_keys_do_not_end_all_at_once() {
        runtime::block_on(async {
            let registry = registry_since(Duration::from_secs(60));
            let keys = limits::EXPIRED_KEYS_AT_ONCE / 2;
            for lease in (1..=5).map(LeaseId) {
                let store = &mut registry.state().store;
                store.grant(lease, Duration::from_secs(1), Duration::ZERO).expect("it is free");
                let put = |change: &mut Transaction<'_>| {
                    (0..keys).try_for_each(|key| {
                        let key = format!("{lease}/{key}").into();
                        change.put(key, Bytes::new(), lease).map(drop)
                    })
                };
                store.change(put).0.expect("there is the lease");
            }
            let left = || registry.state().store.lease_count();
            for expected in [3, 1, 0] {
                registry.end_expired();
                assert_eq!(left(), expected);
            }
            assert_eq!(registry.state().store.len(), 0);
        })
        .expect("a core");
    }

    #[test]
    fn whatever_grants_a_lease_has_somebody_look_after_it() {
        runtime::block_on(async {
            let registry = Registry::new();
            // As the call of a client that is gone before the log has its lease.
            let granted = registry.change_now(Effect::Adds, |store, now| {
                store.grant(LeaseId(1), limits::LEASE_TTL_MIN, now).map_err(failure::lease)
            });
            assert!(granted.is_ok_and(|(granted, ..)| granted.is_ok()));
            assert!(registry.state().expires_leases);
        })
        .expect("a core");
    }

    #[test]
    fn a_registry_that_is_always_late_ends_leases_in_the_end() {
        runtime::block_on(async {
            let (ttl, left) = (Duration::from_secs(60), Duration::from_millis(100));
            let registry = registry_since(2 * ttl);
            let due = registry.now() - limits::PAUSE_FORGIVEN;
            let mut pauses = Pauses::default();
            let mut is_forgiven = |lease, due| {
                let renewed = registry.now() + left - ttl;
                let granted = registry.state().store.grant(LeaseId(lease), ttl, renewed);
                granted.expect("the id is free");
                let expires =
                    || registry.state().store.lease(LeaseId(lease)).expect("it is there").expires;
                let before = expires();
                registry.forgive_pause(due, &mut pauses);
                expires() > before
            };
            for lease in 1..=i64::from(limits::PAUSES_FORGIVEN) {
                assert!(is_forgiven(lease, due), "the process may have been stopped {lease} times");
            }
            assert!(!is_forgiven(100, due), "the registry is slow");
            assert!(!is_forgiven(101, registry.now()), "a look in time forgives nothing");
            assert!(is_forgiven(102, due), "it has been in time since");
        })
        .expect("a core");
    }

    #[test]
    fn a_lease_that_is_granted_when_the_last_duty_ends_has_somebody_to_look_after_it() {
        runtime::block_on(async {
            let registry = Registry::new();
            registry.state().expires_leases = true;
            let mut duty = Duty(Some(registry.clone()));
            assert!(duty.next_expiry().is_none(), "there are no leases");
            let ttl = Duration::from_secs(60);
            let granted = registry.state().store.grant(LeaseId(1), ttl, registry.now());
            granted.expect("the id is free");
            registry.expire_leases();
            drop(duty);
            assert!(registry.state().expires_leases, "the second duty is not taken back");
        })
        .expect("a core");
    }
}
