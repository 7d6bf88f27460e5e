//! The integration tests of this crate, as one program.

mod example;
mod examples;
mod json_rpc_clients;
mod mongo_examples;
mod rpc_examples;
mod rpc_kill;
mod tokio_methods;
