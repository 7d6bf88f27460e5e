//! The service Lease.

use std::time::Duration;

use bytes::Bytes;
use ringway_rpc::{Sink, Status, Streaming};

use super::trouble::Effect;
use super::{Registry, State, failure, until_stopped};
use crate::etcd::api::etcdserverpb::{
    Lease, LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
    LeaseLeasesRequest, LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse, LeaseStatus,
    LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
};
use crate::limits;
use crate::store::{LeaseId, LeaseTimes, Store};

impl Lease for Registry {
    async fn lease_grant(&self, request: LeaseGrantRequest) -> Result<LeaseGrantResponse, Status> {
        let ttl = ttl(request.ttl)?;
        let granted = self.change(Effect::Adds, |store, _| {
            if store.lease_count() >= limits::LEASES_MAX {
                return Err(failure::too_many_leases());
            }
            let lease = match request.id {
                0 => free_id(|id| store.has_lease(id)),
                id => LeaseId(id),
            };
            store.grant(lease, ttl, self.now_exact()).map_err(failure::lease)?;
            Ok(lease)
        });
        let (lease, header) = granted.await?;
        Ok(LeaseGrantResponse { header, id: lease.0, ttl: seconds(ttl), error: String::new() })
    }

    async fn lease_revoke(
        &self,
        request: LeaseRevokeRequest,
    ) -> Result<LeaseRevokeResponse, Status> {
        let lease = LeaseId(request.id);
        let revoke = |store: &mut Store, _| store.revoke(lease).map_err(failure::lease);
        let revoked = self.change(Effect::Frees, revoke);
        let ((), header) = revoked.await?;
        Ok(LeaseRevokeResponse { header })
    }

    async fn lease_keep_alive(
        &self,
        requests: Streaming<LeaseKeepAliveRequest>,
        responses: Sink<LeaseKeepAliveResponse>,
    ) -> Result<(), Status> {
        until_stopped(self.renew(requests, responses)).await
    }

    async fn lease_time_to_live(
        &self,
        request: LeaseTimeToLiveRequest,
    ) -> Result<LeaseTimeToLiveResponse, Status> {
        let LeaseTimeToLiveRequest { id, keys } = request;
        let state = self.state();
        let header = self.header(&state);
        let Some(LeaseTimes { ttl, expires }) = state.store.logged_lease(LeaseId(id)) else {
            let none = LeaseTimeToLiveResponse::default();
            return Ok(LeaseTimeToLiveResponse { header, id, ttl: -1, ..none });
        };
        let keys = if keys { keys_of(&state, LeaseId(id))? } else { Vec::new() };
        let left = seconds(expires.saturating_sub(self.now()));
        Ok(LeaseTimeToLiveResponse { header, id, ttl: left, granted_ttl: seconds(ttl), keys })
    }

    async fn lease_leases(&self, _: LeaseLeasesRequest) -> Result<LeaseLeasesResponse, Status> {
        let state = self.state();
        let leases = state.store.logged_leases().map(|id| LeaseStatus { id: id.0 }).collect();
        Ok(LeaseLeasesResponse { header: self.header(&state), leases })
    }
}

impl Registry {
    /// Renews the leases that a client names, until it ends the stream.
    async fn renew(
        &self,
        mut requests: Streaming<LeaseKeepAliveRequest>,
        mut responses: Sink<LeaseKeepAliveResponse>,
    ) -> Result<(), Status> {
        while let Some(LeaseKeepAliveRequest { id }) = requests.next().await? {
            self.expire_leases();
            responses.send(self.renew_lease(id)).await?;
        }
        Ok(())
    }

    /// Renews a lease. That need not be logged, because every lease has its whole time after a start.
    pub(crate) fn renew_lease(&self, id: i64) -> LeaseKeepAliveResponse {
        // Not the time at which this turn of the core began, since the holder counts from later on.
        let now = self.now_exact();
        let mut state = self.state();
        let is_logged = state.store.logged_lease(LeaseId(id)).is_some();
        let renewed = if is_logged { state.store.renew(LeaseId(id), now).ok() } else { None };
        // A lease that is not there has no time left; that is no failure of the stream.
        let ttl = renewed.map_or(0, seconds);
        LeaseKeepAliveResponse { header: self.header(&state), id, ttl }
    }
}

/// The keys that a lease has as far as can be seen.
fn keys_of(state: &State, id: LeaseId) -> Result<Vec<Bytes>, Status> {
    let keys = state.store.lease_keys_at(id, state.visible());
    let bytes: usize = keys.iter().map(|key| key.len()).sum();
    if bytes > limits::READ_BYTES_MAX {
        return Err(failure::too_much_read());
    }
    Ok(keys.into_iter().cloned().collect())
}

fn ttl(asked: i64) -> Result<Duration, Status> {
    let seconds = u64::try_from(asked).unwrap_or(0);
    let ttl = Duration::from_secs(seconds).max(limits::LEASE_TTL_MIN);
    if ttl > limits::LEASE_TTL_MAX { Err(failure::lease_ttl_too_large()) } else { Ok(ttl) }
}

/// Whole seconds, as etcd tells them: what has begun does not count.
fn seconds(time: Duration) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

/// A random id that no lease has, so that clients of two registries do not mistake one for the other.
fn free_id(is_taken: impl Fn(LeaseId) -> bool) -> LeaseId {
    loop {
        let id = LeaseId(fastrand::i64(1..));
        if !is_taken(id) {
            return id;
        }
    }
}
