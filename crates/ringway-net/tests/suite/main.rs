//! The integration tests of this crate, in one program.

mod both_ways;
mod client;
mod client_simulated;
mod compat;
mod faults;
mod foreign_panics;
mod framed;
mod group;
mod half_open;
mod handler;
mod requester;
mod server_drain;
mod server_echo;
mod server_limits;
mod server_shutdown;
mod server_signals;
mod slow_reader;
mod spans;
mod support;
mod tls;
mod tls_flood;
mod tls_server;
mod tls_trust;
