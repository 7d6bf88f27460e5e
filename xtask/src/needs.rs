//! Programs that the gate needs beside cargo: one table, checked before the first step, and what
//! single steps need.

use std::process::{Command, Stdio};

/// A program and where it comes from.
struct Need {
    /// Called with `--version`; it is there when that succeeds.
    program: &'static str,
    origin: Origin,
}

#[derive(Clone, Copy)]
enum Origin {
    /// A package of Debian, installed by apt-get when the gate runs as root.
    Debian(&'static str),
    /// A component of the Rust toolchain.
    Rustup(&'static str),
}

/// Minimal toolchains come without the last two.
const NEEDS: &[Need] = &[
    Need { program: "cc", origin: Origin::Debian("gcc") },
    Need { program: "cargo-fmt", origin: Origin::Rustup("rustfmt") },
    Need { program: "cargo-clippy", origin: Origin::Rustup("clippy") },
];

/// A program that the gate cannot install: where it is missing, a step that needs it is skipped.
pub(crate) struct Required {
    /// Succeeds where the program is there.
    asks: &'static [&'static str],
    pub(crate) otherwise: &'static str,
}

/// Debian's is older than what grpc-go asks for.
pub(crate) const GO: Required =
    Required { asks: &["go", "version"], otherwise: "`go` is missing: https://go.dev/doc/install" };

impl Required {
    pub(crate) fn is_there(&self) -> bool {
        succeeds(self.asks)
    }
}

/// Installs what is missing, a printed line for each.
///
/// # Errors
///
/// A message with the command to run, when it may not be run here or fails.
pub(crate) fn provide() -> Result<(), String> {
    let mut missing = NEEDS.iter().filter(|need| !succeeds(&[need.program, "--version"]));
    missing.try_for_each(|need| need.install(is_root()))
}

impl Need {
    fn install(&self, is_root: bool) -> Result<(), String> {
        let commands = self.origin.commands();
        let rows: Vec<String> = commands.iter().map(|command| command.join(" ")).collect();
        let shown = rows.join(" && ");
        if matches!(self.origin, Origin::Debian(_)) && !is_root {
            return Err(format!("`{}` is missing; as root: {shown}", self.program));
        }
        println!("`{}` is missing: {shown}", self.program);
        if commands.iter().all(|command| succeeds(command)) {
            return Ok(());
        }
        Err(format!("`{}` is missing and this failed: {shown}", self.program))
    }
}

impl Origin {
    fn commands(self) -> Vec<Vec<&'static str>> {
        match self {
            Origin::Debian(package) => vec![
                vec!["apt-get", "update"],
                vec!["apt-get", "install", "--yes", "--no-install-recommends", package],
            ],
            Origin::Rustup(component) => vec![vec!["rustup", "component", "add", component]],
        }
    }
}

/// Whether `command` runs and succeeds; what it writes to standard output is dropped.
fn succeeds(command: &[&str]) -> bool {
    let (program, arguments) = command.split_first().expect("a command has a program");
    let mut call = Command::new(program);
    call.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    call.status().is_ok_and(|status| status.success())
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").stdin(Stdio::null()).output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_only_installed_by_root() {
        let need = Need { program: "etcd", origin: Origin::Debian("etcd-server") };
        let message = need.install(false).expect_err("not root");
        assert!(message.contains("`etcd` is missing"), "{message}");
        assert!(
            message.contains("apt-get install --yes --no-install-recommends etcd-server"),
            "{message}"
        );
    }

    #[test]
    fn a_missing_program_is_noticed() {
        assert!(!succeeds(&["ringway-no-such-program", "--version"]));
        assert!(!succeeds(&["false"]));
        assert!(succeeds(&["true"]));
        assert!(!Required { asks: &["ringway-no-such-program"], otherwise: "" }.is_there());
        assert!(Required { asks: &["true"], otherwise: "" }.is_there());
    }
}
