//! The task that keeps an endpoint registered.
//!
//! ```text
//!            ┌────────── lease ended ──────────┐
//!            ▼                                 │
//!  ──► grant a lease ──► put the key ──► renew every TTL/3 ──► somebody else's key: replaced
//!            └────────────────┴────────────────┴──► to be deregistered: revoke the lease
//! ```
//!
//! A renewal that fails is tried until the registry says that the lease has ended: while a cluster is down, or has no
//! leader, leases do not end. The state says meanwhile that it is not known whether the endpoint is registered.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ringway_runtime as runtime;

use super::failure::{Failure, Fault};
use super::keys::ServiceKeys;
use super::lease;
use super::member::back_off;
use super::members::Members;
use super::put::OwnKey;
use super::registration::Wanted;
use super::select::{First, first};
use super::shared::SharedState;
use crate::contract::RegistrationState;
use crate::endpoint::Error;
use crate::limits;

/// Keeps one endpoint registered.
pub(super) struct Registering {
    pub(super) members: Arc<Members>,
    pub(super) shared: Arc<SharedState<Wanted>>,
    pub(super) keys: ServiceKeys,
    pub(super) ttl: Duration,
    /// The lease of the key; 0 before the first.
    lease: i64,
    former_lease: Option<i64>,
    /// How long a lease lasts, as the registry says.
    granted: Duration,
    renew_at: Instant,
    /// Whether the key was ever put, so that it is known to be this registration's.
    was_put: bool,
    /// Failures since the last success.
    failures: u32,
    /// Leases, one after the other, that had ended before the key was put.
    ended: u32,
}

/// Why renewing is over.
enum Over {
    LeaseEnded,
    Replaced,
}

impl Registering {
    pub(super) fn new(
        members: Arc<Members>,
        shared: Arc<SharedState<Wanted>>,
        keys: ServiceKeys,
        ttl: Duration,
    ) -> Self {
        Self {
            members,
            shared,
            keys,
            ttl,
            lease: 0,
            former_lease: None,
            granted: ttl,
            renew_at: Instant::now(),
            was_put: false,
            failures: 0,
            ended: 0,
        }
    }

    /// Keeps the endpoint registered until its owner leaves; then deregisters it.
    pub(super) async fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let leaving = || shared.wait_as_task(|wanted| wanted.is_leaving.then_some(()));
        if let First::Other(()) = first(leaving(), self.keep_registered()).await {
            self.tell(RegistrationState::Replaced, None);
            tracing::warn!(key = %self.key(), "another registration has replaced this one");
            leaving().await;
        }
        let left = self.deregister().await;
        self.shared.tell_owner(|wanted| wanted.left = Some(left));
    }

    /// Ends when another registration has replaced this one.
    async fn keep_registered(&mut self) {
        loop {
            self.grant().await;
            match self.put_first().await {
                Ok(()) => {}
                Err(Over::LeaseEnded) => {
                    let why = Error::new("a lease had ended before the endpoint was put");
                    self.tell(RegistrationState::Registering(Some(why)), None);
                    // Otherwise a registry that grants leases and does not know them would be asked without a pause.
                    runtime::sleep(back_off(self.ended, limits::REFUSED_RETRY_MAX)).await;
                    self.ended = self.ended.saturating_add(1);
                    continue;
                }
                Err(Over::Replaced) => return,
            }
            match self.hold().await {
                Over::LeaseEnded => {
                    let why = Error::new("the lease has ended: the endpoint is registered again");
                    tracing::warn!(key = %self.key(), lease = self.lease, "the lease has ended");
                    self.tell(RegistrationState::Registering(Some(why)), None);
                }
                Over::Replaced => return,
            }
        }
    }

    async fn grant(&mut self) {
        self.former_lease = Some(self.lease).filter(|former| *former != 0);
        self.lease = lease::new_id();
        let sent = runtime::now_exact();
        loop {
            match lease::grant(&self.members, self.lease, self.ttl).await {
                Ok(granted) => {
                    self.granted = granted;
                    return self.renewed(sent);
                }
                Err(failure) => self.failed(failure).await,
            }
        }
    }

    /// Puts the key for the first time with this lease.
    async fn put_first(&mut self) -> Result<(), Over> {
        loop {
            match self.put().await {
                Ok(true) => break,
                Ok(false) => return Err(Over::Replaced),
                Err(failure) if failure.fault == Fault::NoLease => return Err(Over::LeaseEnded),
                Err(failure) => self.failed(failure).await,
            }
        }
        (self.was_put, self.ended) = (true, 0);
        self.confirmed();
        Ok(())
    }

    /// Renews the lease, and puts what has changed.
    async fn hold(&mut self) -> Over {
        let mut put_at: Option<Instant> = None;
        loop {
            let until = put_at.map_or(self.renew_at, |at| at.min(self.renew_at));
            let shared = Arc::clone(&self.shared);
            let may_put = put_at.is_none();
            let changed =
                shared.wait_as_task(|wanted| (may_put && wanted.has_changed).then_some(()));
            let happened = first(changed, runtime::sleep_until(until)).await;
            let now = runtime::now_exact();
            if now >= self.renew_at {
                if let Err(over) = self.renew().await {
                    return over;
                }
            } else if matches!(happened, First::One(())) || put_at.is_some_and(|at| at <= now) {
                put_at = None;
                match self.put().await {
                    Ok(true) => self.failures = 0,
                    Ok(false) => return Over::Replaced,
                    Err(failure) if failure.fault == Fault::NoLease => return Over::LeaseEnded,
                    Err(failure) => {
                        tracing::warn!(key = %self.key(), error = %failure.error, "an update has failed");
                        self.shared.tell_owner(|wanted| wanted.has_changed = true);
                        self.failures += 1;
                        put_at = Some(now + back_off(self.failures, limits::REFUSED_RETRY_MAX));
                    }
                }
            }
        }
    }

    /// Renews the lease, until the registry says that it has done so, or that the lease has ended.
    async fn renew(&mut self) -> Result<(), Over> {
        loop {
            let sent = runtime::now_exact();
            match lease::renew(&self.members, self.lease).await {
                Ok(Some(granted)) => {
                    self.granted = granted;
                    self.renewed(sent);
                    self.confirmed();
                    return Ok(());
                }
                Ok(None) => return Err(Over::LeaseEnded),
                Err(failure) if failure.fault == Fault::NoLease => return Err(Over::LeaseEnded),
                Err(failure) => self.failed(failure).await,
            }
        }
    }

    /// Puts the endpoint as its owner wants it. Returns whether the key is this registration's.
    async fn put(&mut self) -> Result<bool, Failure> {
        let mut value = String::new();
        self.shared.tell_owner(|wanted| {
            wanted.has_changed = false;
            value = wanted.endpoint.to_json();
        });
        let entry = OwnKey {
            key: self.shared.read(|wanted| self.keys.of(&wanted.endpoint)),
            value,
            lease: self.lease,
            former_lease: self.former_lease,
        };
        if self.was_put {
            return entry.keep(&self.members).await;
        }
        entry.claim(&self.members).await.map(|()| true)
    }

    /// Revokes the lease, which deletes the key if it is still this registration's.
    async fn deregister(&mut self) -> Result<(), Error> {
        if self.lease == 0 {
            return Ok(());
        }
        let revoke = async {
            loop {
                match lease::revoke(&self.members, self.lease).await {
                    Ok(()) => return Ok(()),
                    // The next member is asked, after the time for which it has to be left alone.
                    Err(failure) if failure.fault == Fault::Member => {}
                    Err(failure) => return Err(failure.error),
                }
            }
        };
        let outcome = runtime::timeout(limits::DEREGISTER_TIMEOUT, revoke).await;
        outcome.unwrap_or_else(|_| {
            let why = "the registry cannot be reached: the endpoint is gone after its TTL";
            Err(Error::new(why))
        })
    }

    /// Notes that the lease lasts from `sent` on.
    fn renewed(&mut self, sent: Instant) {
        self.failures = 0;
        self.renew_at = sent + self.granted / 3;
        let until = sent + self.granted;
        self.shared.tell_owner(|wanted| wanted.valid_until = Some(until));
    }

    /// Notes that the endpoint is registered.
    fn confirmed(&self) {
        self.shared.tell_owner(|wanted| wanted.state = RegistrationState::Registered);
    }

    /// Notes a failure. If no other member helps, waits for a while.
    async fn failed(&mut self, failure: Failure) {
        let key = self.key();
        tracing::debug!(%key, error = %failure.error, "registering has failed and is tried again");
        let now = runtime::now_exact();
        self.shared.tell_owner(|wanted| {
            let is_over = wanted.valid_until.is_none_or(|until| until <= now);
            if is_over || wanted.state != RegistrationState::Registered {
                wanted.state = RegistrationState::Registering(Some(failure.error.clone()));
            }
        });
        self.failures += 1;
        if failure.fault != Fault::Member {
            runtime::sleep(back_off(self.failures, limits::REFUSED_RETRY_MAX)).await;
        }
    }

    fn tell(&self, state: RegistrationState, valid_until: Option<Instant>) {
        self.shared.tell_owner(|wanted| {
            (wanted.state, wanted.valid_until) = (state, valid_until);
        });
    }

    fn key(&self) -> String {
        self.shared.read(|wanted| self.keys.of(&wanted.endpoint)).escape_ascii().to_string()
    }
}
