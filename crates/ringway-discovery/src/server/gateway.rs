//! The paths at which etcd's API is called by JSON, for clients without gRPC.

use ringway_rpc::Server;

/// Adds etcd's JSON gateway to a server.
pub(super) fn gateway_on(server: Server) -> Server {
    PATHS.iter().fold(server, |server, (path, method)| {
        server.json_gateway(&format!("/v3/{path}"), &format!("etcdserverpb.{method}"))
    })
}

/// Paths and methods, as the annotations of etcd's rpc.proto have them.
const PATHS: [(&str, &str); 24] = [
    ("kv/range", "KV/Range"),
    ("kv/put", "KV/Put"),
    ("kv/deleterange", "KV/DeleteRange"),
    ("kv/txn", "KV/Txn"),
    ("kv/compaction", "KV/Compact"),
    ("watch", "Watch/Watch"),
    ("lease/grant", "Lease/LeaseGrant"),
    ("lease/revoke", "Lease/LeaseRevoke"),
    ("kv/lease/revoke", "Lease/LeaseRevoke"),
    ("lease/keepalive", "Lease/LeaseKeepAlive"),
    ("lease/timetolive", "Lease/LeaseTimeToLive"),
    ("kv/lease/timetolive", "Lease/LeaseTimeToLive"),
    ("lease/leases", "Lease/LeaseLeases"),
    ("kv/lease/leases", "Lease/LeaseLeases"),
    ("cluster/member/list", "Cluster/MemberList"),
    ("maintenance/alarm", "Maintenance/Alarm"),
    ("maintenance/status", "Maintenance/Status"),
    ("maintenance/defragment", "Maintenance/Defragment"),
    ("maintenance/hash", "Maintenance/Hash"),
    ("maintenance/hashkv", "Maintenance/HashKV"),
    ("auth/status", "Auth/AuthStatus"),
    ("auth/authenticate", "Auth/Authenticate"),
    ("auth/user/list", "Auth/UserList"),
    ("auth/role/list", "Auth/RoleList"),
];
