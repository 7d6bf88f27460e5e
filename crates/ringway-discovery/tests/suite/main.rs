//! The integration tests of this crate, in one program.

mod announcing;
mod contract;
mod corpus;
mod etcd_cluster_failures;
mod etcd_failures;
mod etcd_paused;
mod etcd_tls;
mod killing;
mod registry_etcdctl;
mod registry_gateway;
mod registry_random;
mod replaced;
mod sources;
mod support;
