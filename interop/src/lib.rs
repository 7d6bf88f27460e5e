//! gRPC's test service `grpc.testing.TestService`, with which gRPC implementations test each other.
//!
//! `cargo run -p ringway-interop -- tcp://127.0.0.1:10000` serves it. In the tests, clients of other
//! implementations call it.

mod limits;
mod service;
#[allow(missing_docs)] // messages are documented by the file, where that says anything
pub mod testing {
    include!(concat!(env!("OUT_DIR"), "/grpc.testing.rs"));
}

pub use service::Tested;
