//! Makes messages and the trait of the service from `proto/grpc_testing.proto`.

fn main() -> Result<(), ringway_build::Error> {
    ringway_build::compile(&["proto/grpc_testing.proto"], &["proto"])
}
