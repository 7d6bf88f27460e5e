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
        let is_done = std::mem::replace(&mut self.state().expires_leases, true);
        if !is_done {
            let duty = Duty(self.clone());
            runtime::spawn_named("registry leases", async move { duty.0.end_expired().await });
        }
    }

    async fn end_expired(&self) {
        while let Some(at) = self.next_expiry() {
            // A lease that is granted meanwhile may be the first to expire.
            let wait = at.saturating_sub(self.now()).min(limits::EXPIRY_LOOK);
            if wait > Duration::ZERO {
                runtime::sleep(wait).await;
                continue;
            }
            _ = self.change(|store, now| {
                for _ in 0..limits::EXPIRED_AT_ONCE {
                    let Some(lease) = store.expired(now) else {
                        break;
                    };
                    _ = store.revoke(lease);
                }
                Ok(())
            });
            runtime::yield_now().await; // many leases may expire at once
        }
    }

    fn next_expiry(&self) -> Option<Duration> {
        self.state().store.next_expiry()
    }
}
