//! The integration tests of this crate, as one program.

mod bench;
mod bench_call;
mod bench_mongo;
mod bench_registry;
mod call;
mod call_grpc;
mod command_line;
mod registry;
mod registry_data;
mod report;
mod serve;
mod support;
