//! The service Lease.

use std::time::Duration;

use bytes::Bytes;
use ringway_rpc::{Sink, Status, Streaming};

use super::{Registry, failure, until_stopped};
use crate::etcd::api::etcdserverpb::{
    Lease, LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
    LeaseLeasesRequest, LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse, LeaseStatus,
    LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
};
use crate::limits;
use crate::store::LeaseId;

impl Lease for Registry {
    async fn lease_grant(&self, request: LeaseGrantRequest) -> Result<LeaseGrantResponse, Status> {
        let ttl = ttl(request.ttl)?;
        let granted = self.change(|store, now| {
            if store.lease_count() >= limits::LEASES_MAX {
                return Err(failure::too_many_leases());
            }
            let lease = match request.id {
                0 => free_id(|id| store.has_lease(id)),
                id => LeaseId(id),
            };
            store.grant(lease, ttl, now).map_err(failure::lease)?;
            Ok(lease)
        });
        let (lease, header) = granted.await?;
        self.expire_leases();
        Ok(LeaseGrantResponse { header, id: lease.0, ttl: seconds(ttl), error: String::new() })
    }

    async fn lease_revoke(
        &self,
        request: LeaseRevokeRequest,
    ) -> Result<LeaseRevokeResponse, Status> {
        let lease = LeaseId(request.id);
        let revoked = self.change(|store, _| store.revoke(lease).map_err(failure::lease));
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
        let (id, state) = (request.id, self.state());
        let header = self.header(&state);
        let Ok(lease) = state.store.lease(LeaseId(id)) else {
            return Ok(LeaseTimeToLiveResponse {
                header,
                id,
                ttl: -1,
                ..LeaseTimeToLiveResponse::default()
            });
        };
        let left = lease.expires.saturating_sub(self.now());
        let keys = if request.keys { lease.keys } else { Vec::new() };
        if keys.iter().map(Bytes::len).sum::<usize>() > limits::READ_BYTES_MAX {
            return Err(failure::too_much_read());
        }
        Ok(LeaseTimeToLiveResponse {
            header,
            id,
            ttl: seconds(left),
            granted_ttl: seconds(lease.ttl),
            keys,
        })
    }

    async fn lease_leases(&self, _: LeaseLeasesRequest) -> Result<LeaseLeasesResponse, Status> {
        let state = self.state();
        let leases = state.store.leases().map(|id| LeaseStatus { id: id.0 }).collect();
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
            let response = {
                let mut state = self.state();
                let renewed = state.store.renew(LeaseId(id), self.now());
                // A lease that is not there has no time left; that is no failure of the stream.
                let ttl = renewed.map_or(0, seconds);
                LeaseKeepAliveResponse { header: self.header(&state), id, ttl }
            };
            responses.send(response).await?;
        }
        Ok(())
    }
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
