//! Bakes the compiler's version and the commit into the binary, for the environment line of every report.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let version = first_line(Command::new(compiler).arg("--version"));
    println!("cargo::rustc-env=RINGWAY_RUSTC={}", version.as_deref().unwrap_or("unknown"));

    let commit = first_line(Command::new("git").args(["rev-parse", "--short=12", "HEAD"]));
    println!("cargo::rustc-env=RINGWAY_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
    if let Some(log) = head_log() {
        println!("cargo::rerun-if-changed={}", log.display());
    }
}

/// The file git appends to on every commit and checkout; absent in a source archive.
fn head_log() -> Option<PathBuf> {
    let path = first_line(Command::new("git").args(["rev-parse", "--git-path", "logs/HEAD"]))?;
    let path = PathBuf::from(path);
    path.exists().then_some(path)
}

fn first_line(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().next().map(str::to_owned)
}
