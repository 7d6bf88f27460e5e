//! Go programs, built once from the module in `go/`, which names and checks the versions it uses.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Packages; each becomes a program with the name of its last part.
const PACKAGES: [&str; 3] =
    ["google.golang.org/grpc/interop/client", "google.golang.org/grpc/interop/server", "./drain"];

/// Seconds after which a forgotten program ends; the slowest takes a few.
const SECONDS_MAX: &str = "120";

/// Calls one of the programs.
pub(crate) fn program(name: &str) -> Command {
    let mut command = Command::new("timeout");
    command.arg(SECONDS_MAX).arg(directory().join(name));
    command
}

fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go");
        let mut build = Command::new("go");
        build.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/go"));
        build.args(["build", "-o"]).arg(format!("{}/", directory.display())).args(PACKAGES);
        let status = build.status().expect("Go is needed: https://go.dev/doc/install");
        assert!(status.success(), "{build:?}: {status}");
        directory
    })
}
