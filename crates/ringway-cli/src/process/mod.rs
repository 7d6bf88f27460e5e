//! Other processes: servers under test and peer clients, started, asked, timed and stopped.

mod child;
mod cpu;
mod error;
mod peers;
mod server;
mod tether;

pub(crate) use error::ProcessError;
pub(crate) use peers::{PeerClientRun, PeerJob, PeerResult, Peers};
pub(crate) use server::{ServerProcess, own_server, private_address};
pub(crate) use tether::become_command;
