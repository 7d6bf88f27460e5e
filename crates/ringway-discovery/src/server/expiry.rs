//! Leases that nobody renews end in time.

use std::time::Duration;

use ringway_net::ServerHandle;
use ringway_runtime as runtime;

use super::Registry;
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

impl Registry {
    /// Has a server's first core look after the leases that there are, before anybody asks for one. If it cannot, the
    /// first request does.
    pub(super) fn begin_on(&self, server: &ServerHandle) {
        let registry = self.clone();
        if let Some(core) = server.cores().first() {
            drop(core.spawn(async move || registry.expire_leases()));
        }
    }

    /// Makes sure that a task on some core ends the leases that nobody renews. It ends when there are none left.
    pub(super) fn expire_leases(&self) {
        let mut state = self.state();
        let has_failed = state.log.as_ref().is_some_and(|log| log.failure().is_some());
        let is_needed = !state.expires_leases && state.store.next_expiry().is_some() && !has_failed;
        state.expires_leases |= is_needed;
        drop(state);
        if is_needed {
            runtime::spawn_named("registry leases", Duty(Some(self.clone())).run());
        }
    }
}

impl Duty {
    async fn run(mut self) {
        while let Some((registry, at)) = self.next_expiry() {
            registry.log_renewals();
            // A lease that is granted meanwhile may be the first to expire.
            let wait = at.saturating_sub(registry.now()).min(limits::EXPIRY_LOOK);
            if wait > Duration::ZERO {
                runtime::sleep(wait).await;
                continue;
            }
            let ended = registry.change(|store, now| {
                for _ in 0..limits::EXPIRED_AT_ONCE {
                    let Some(lease) = store.expired(now) else {
                        break;
                    };
                    _ = store.revoke(lease);
                }
                Ok(())
            });
            if ended.await.is_err() {
                // The log has failed or does not keep up.
                runtime::sleep(limits::EXPIRY_LOOK).await;
            }
            runtime::yield_now().await; // many leases may expire at once
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
    use super::*;
    use crate::store::LeaseId;

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
