//! grpc-go's clients call our server. `cargo xtask test --only interop` runs them.

mod cases;
mod drain;
mod go;
mod support;
