//! grpc-go's clients call our server, and our client calls its server. `cargo xtask test --only interop` runs them.

mod cases;
mod drain;
mod go;
mod our_client;
mod support;
