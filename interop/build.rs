//! Generates messages and service traits from `proto/`, also with tonic's generator for its example.

use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let protos = ["proto/grpc_testing.proto", "proto/tally.proto"];
    ringway_build::compile(&protos, &["proto"])?;
    let directory = PathBuf::from(std::env::var("OUT_DIR")?).join("tonic");
    std::fs::create_dir_all(&directory)?;
    let tally = protox::compile(["proto/tally.proto"], ["proto"])?;
    tonic_prost_build::configure().out_dir(directory).compile_fds(tally)?;
    Ok(())
}
