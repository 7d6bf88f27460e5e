//! Other processes: servers under test and peers' clients, started, queried, timed and stopped.

mod child;
mod cpu;
mod error;
mod etcd;
mod h2load;
mod interval;
mod memory;
mod peers;
mod server;
mod tether;

pub(crate) use error::ProcessError;
pub(crate) use etcd::{DataFolder, EtcdProcess};
pub(crate) use h2load::{H2load, H2loadRun};
pub(crate) use interval::Edge;
pub(crate) use peers::{GO_RPC, PeerClientRun, PeerJob, Peers};
pub(crate) use server::{ServerProcess, own_server, private_address};
pub(crate) use tether::become_command;
