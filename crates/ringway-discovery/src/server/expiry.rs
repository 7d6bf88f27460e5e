//! Leases that nobody renews end in time.

use std::time::Duration;

use ringway_runtime as runtime;

use super::Registry;
use crate::limits;

/// Says that leases have nobody to look after them, however its task ended.
struct Duty(Registry);

impl Drop for Duty {
    fn drop(&mut self) {
        self.0.state().expires_leases = false;
    }
}

impl Registry {
    /// Makes sure that a task on some core ends the leases that nobody renews. It ends when there are none left.
    pub(super) fn expire_leases(&self) {
        let mut state = self.state();
        let has_failed = state.log.as_ref().is_some_and(|log| log.failure().is_some());
        let is_needed = !state.expires_leases && state.store.next_expiry().is_some() && !has_failed;
        state.expires_leases |= is_needed;
        drop(state);
        if is_needed {
            let duty = Duty(self.clone());
            runtime::spawn_named("registry leases", async move { duty.0.end_expired().await });
        }
    }

    async fn end_expired(&self) {
        while let Some(at) = self.next_expiry() {
            self.log_renewals();
            // A lease that is granted meanwhile may be the first to expire.
            let wait = at.saturating_sub(self.now()).min(limits::EXPIRY_LOOK);
            if wait > Duration::ZERO {
                runtime::sleep(wait).await;
                continue;
            }
            let ended = self.change(|store, now| {
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

    fn next_expiry(&self) -> Option<Duration> {
        self.state().store.next_expiry()
    }
}
