//! Failures with the codes and texts of etcd, by which its clients tell them apart.

use std::io;

use ringway_rpc::Status;

use crate::limits;
use crate::store::{LeaseError, ReadError};

pub(super) fn compacted_or_future(error: ReadError) -> Status {
    Status::out_of_range(match error {
        ReadError::Compacted => "etcdserver: mvcc: required revision has been compacted",
        ReadError::Future => "etcdserver: mvcc: required revision is a future revision",
    })
}

pub(super) fn lease(error: LeaseError) -> Status {
    match error {
        LeaseError::NotFound => Status::not_found("etcdserver: requested lease not found"),
        LeaseError::Exists => Status::failed_precondition("etcdserver: lease already exists"),
    }
}

pub(super) fn lease_ttl_too_large() -> Status {
    Status::out_of_range("etcdserver: too large lease TTL")
}

pub(super) fn too_many_leases() -> Status {
    Status::resource_exhausted("etcdserver: too many leases")
}

pub(super) fn key_not_provided() -> Status {
    Status::invalid_argument("etcdserver: key is not provided")
}

pub(super) fn key_not_found() -> Status {
    Status::invalid_argument("etcdserver: key not found")
}

pub(super) fn value_provided() -> Status {
    Status::invalid_argument("etcdserver: value is provided")
}

pub(super) fn lease_provided() -> Status {
    Status::invalid_argument("etcdserver: lease is provided")
}

pub(super) fn duplicate_key() -> Status {
    Status::invalid_argument("etcdserver: duplicate key given in txn request")
}

pub(super) fn too_many_operations() -> Status {
    Status::invalid_argument("etcdserver: too many operations in txn request")
}

pub(super) fn too_many_keys() -> Status {
    Status::invalid_argument("etcdserver: too many keys in txn request")
}

pub(super) fn too_much_read() -> Status {
    let most = limits::READ_BYTES_MAX >> 20;
    Status::resource_exhausted(format!(
        "etcdserver: the keys and values that are asked for are longer than {most} MiB: ask for fewer at once, by a \
         limit or a shorter range"
    ))
}

pub(super) fn invalid_sort() -> Status {
    Status::invalid_argument("etcdserver: invalid sort option")
}

pub(super) fn request_too_large() -> Status {
    Status::invalid_argument("etcdserver: request is too large")
}

pub(super) fn no_space() -> Status {
    Status::resource_exhausted("etcdserver: mvcc: database space exceeded")
}

pub(super) fn alarms_not_taken() -> Status {
    Status::unimplemented("etcdserver: a registry raises its alarms itself")
}

pub(super) fn authentication_disabled() -> Status {
    Status::failed_precondition("etcdserver: authentication is not enabled")
}

/// The server stops: its streams end, so that clients ask another member.
pub(super) fn stopped() -> Status {
    Status::unavailable("etcdserver: server stopped")
}

/// The log has failed: nothing is changed until the registry is started again.
pub(super) fn log(error: &io::Error) -> Status {
    Status::unavailable(format!(
        "the registry cannot write its log and takes no changes any more: {error}; mend that and start it again"
    ))
}

/// The disk of the log is full: nothing is added until there is room.
pub(super) fn no_room(error: &io::Error) -> Status {
    Status::resource_exhausted(format!(
        "the registry's disk is full, and it takes no puts and grants no leases until there is room: {error}"
    ))
}

/// Not even what was under way fits on the disk of the log.
pub(super) fn full(error: &io::Error) -> Status {
    Status::resource_exhausted(format!(
        "the registry's disk is full, and it takes no changes until there is room: {error}; what was under way may \
         still come"
    ))
}

/// A change was made, and nobody knows whether it will be on the disk.
pub(super) fn unknown_outcome() -> Status {
    Status::unavailable(
        "the registry's disk is full: this change comes when there is room, unless the registry is stopped before",
    )
}
