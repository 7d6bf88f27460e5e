//! Makes messages and the trait of the service from `proto/market.proto`.

fn main() -> Result<(), ringway_build::Error> {
    ringway_build::compile(&["proto/market.proto"], &["proto"])
}
