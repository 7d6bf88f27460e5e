//! Makes the messages and services of etcd's API.

fn main() -> Result<(), ringway_build::Error> {
    ringway_build::Builder::new()
        .rpc_path("::ringway_rpc")
        .include_file("etcd.rs")
        .compile(&["proto/rpc.proto"], &["proto"])
}
