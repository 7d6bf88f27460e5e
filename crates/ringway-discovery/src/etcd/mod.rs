//! etcd's v3 API, the wire of every registry that is not in the same process.

/// The messages and services of `proto/rpc.proto`.
#[allow(missing_docs, unreachable_pub, clippy::all)] // etcd's own documentation describes them
pub(crate) mod api {
    include!(concat!(env!("OUT_DIR"), "/etcd.rs"));
}
