//! Generates messages and service traits from `proto/`, also with tonic's generator for its example, and from the protocol
//! files of Connect's conformance suite.

use std::error::Error;
use std::path::PathBuf;
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    let protos = ["proto/grpc_testing.proto", "proto/tally.proto"];
    ringway_build::compile(&protos, &["proto"])?;
    let directory = PathBuf::from(std::env::var("OUT_DIR")?).join("tonic");
    std::fs::create_dir_all(&directory)?;
    let tally = protox::compile(["proto/tally.proto"], ["proto"])?;
    tonic_prost_build::configure().out_dir(directory).compile_fds(tally)?;
    if std::env::var_os("CARGO_FEATURE_CONNECT_CONFORMANCE").is_some() {
        compile_suite()?;
    }
    Ok(())
}

/// Compiles the suite's protocol files, which are a part of its Go module.
fn compile_suite() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=go/go.mod");
    let go = |arguments: &[&str]| {
        let output = Command::new("go").current_dir("go").args(arguments).output()?;
        match output.status.success() {
            true => Ok(String::from_utf8(output.stdout)?),
            false => Err::<_, Box<dyn Error>>(String::from_utf8_lossy(&output.stderr).into()),
        }
    };
    go(&["mod", "download", SUITE])?;
    let protos = PathBuf::from(go(&["list", "-m", "-f", "{{.Dir}}", SUITE])?.trim()).join("proto");
    let file = |name| protos.join("connectrpc/conformance/v1").join(name);
    let files = ["service.proto", "server_compat.proto", "client_compat.proto"].map(file);
    Ok(ringway_build::compile(&files, &[protos])?)
}

const SUITE: &str = "connectrpc.com/conformance";
