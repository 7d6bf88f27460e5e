//! Sockets, TLS, sessions, servers and clients on the Ringway runtime.

mod client;
mod compat;
mod framed;
mod tls;
