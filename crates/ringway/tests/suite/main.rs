//! The integration tests of this crate, as one program.

#[allow(dead_code, reason = "only what starts other programs is used here")]
#[path = "../../../ringway-wire/tests/suite/support/alone.rs"]
mod alone;
mod example;
mod examples;
mod json_rpc_clients;
mod mongo_examples;
mod rpc_examples;
mod rpc_kill;
mod socket_examples;
mod tokio_methods;
