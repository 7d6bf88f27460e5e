//! Leases: granting, renewing, revoking.

use std::time::Duration;

use ringway_rpc::Status;

use super::api::etcdserverpb::{
    LeaseClient, LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest,
};
use super::failure::{Failure, Fault};
use super::members::{Channel, Members};
use crate::limits;

/// A number for a new lease. It is chosen here, so that a grant whose answer is lost may be asked for again.
pub(super) fn new_id() -> i64 {
    fastrand::i64(1..=i64::MAX)
}

/// Grants a lease with this number. Returns how long it lasts.
pub(super) async fn grant(members: &Members, id: i64, ttl: Duration) -> Result<Duration, Failure> {
    let request = LeaseGrantRequest { ttl: seconds(ttl), id };
    members.ask(async |channel| grant_at(channel, request).await).await
}

/// Asks a member for a lease. One that cannot be what was asked for is the fault of the member, and another one is asked.
async fn grant_at(channel: &Channel, request: LeaseGrantRequest) -> Result<Duration, Status> {
    let ttl = match LeaseClient::new(channel.unary()).lease_grant(request).await {
        Ok(response) if response.id == request.id => response.ttl,
        Ok(_) => {
            let why = "the registry grants another lease than it was asked for";
            return Err(Status::unavailable(why));
        }
        // A former request has granted it, and its answer was lost.
        Err(status) if status.message().contains("lease already exists") => request.ttl,
        Err(status) => return Err(status),
    };
    duration(ttl).ok_or_else(|| Status::unavailable("the registry grants leases that have ended"))
}

/// Renews a lease. Returns how long it lasts; `None` if it has ended.
pub(super) async fn renew(members: &Members, id: i64) -> Result<Option<Duration>, Failure> {
    Ok(duration(members.ask(async |channel| renew_at(channel, id).await).await?))
}

async fn renew_at(channel: &Channel, id: i64) -> Result<i64, Status> {
    let (mut requests, mut responses) = LeaseClient::new(channel.unary()).lease_keep_alive();
    // If it fails, its reason is that of the responses.
    let _sent = requests.send(LeaseKeepAliveRequest { id }).await;
    match responses.next().await? {
        Some(response) if response.id == id => Ok(response.ttl),
        Some(_) => {
            Err(Status::unavailable("the registry renews another lease than it was asked to"))
        }
        None => Err(Status::unavailable("the registry has ended the renewal of a lease")),
    }
}

/// Revokes a lease, and with it deletes the keys that have it.
pub(super) async fn revoke(members: &Members, id: i64) -> Result<(), Failure> {
    let revoke = async |channel: &Channel| {
        LeaseClient::new(channel.unary()).lease_revoke(LeaseRevokeRequest { id }).await
    };
    match members.ask(revoke).await {
        Ok(_) => Ok(()),
        Err(failure) if failure.fault == Fault::NoLease => Ok(()),
        Err(failure) => Err(failure),
    }
}

/// A TTL in whole seconds, as etcd has it.
fn seconds(ttl: Duration) -> i64 {
    let whole = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
    i64::try_from(whole).unwrap_or(i64::MAX)
}

/// What a registry says of a lease's time; `None` if it has ended.
fn duration(ttl: i64) -> Option<Duration> {
    let ttl = u64::try_from(ttl).ok().filter(|ttl| *ttl > 0)?;
    Some(Duration::from_secs(ttl).min(limits::REGISTRATION_TTL_MAX))
}
