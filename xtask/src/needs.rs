//! Programs that the gate needs beside cargo: one table, checked before the first step, and the needs of
//! single steps.

use std::path::Path;
use std::process::{Command, Stdio};

/// A program and where it comes from.
struct Need {
    /// Names of the program. One of them must succeed when it is called with `asks`.
    programs: &'static [&'static str],
    asks: &'static str,
    origin: Origin,
    /// What the gate leaves out without the program; `None` if the gate cannot run without it.
    without: Option<&'static str>,
}

#[derive(Clone, Copy)]
enum Origin {
    /// Packages of Debian, installed by apt-get when the gate runs as root.
    Debian(&'static [&'static str]),
    /// A component of the Rust toolchain.
    Rustup(&'static str),
}

const VERSION: &str = "--version";

/// Minimal toolchains lack rustfmt and clippy.
const NEEDS: &[Need] = &[
    Need { programs: &["cc"], asks: VERSION, origin: Origin::Debian(&["gcc"]), without: None },
    Need {
        programs: &["cargo-fmt"],
        asks: VERSION,
        origin: Origin::Rustup("rustfmt"),
        without: None,
    },
    Need {
        programs: &["cargo-clippy"],
        asks: VERSION,
        origin: Origin::Rustup("clippy"),
        without: None,
    },
    Need {
        programs: &["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"],
        asks: VERSION,
        origin: Origin::Debian(&["chromium-headless-shell"]),
        without: Some("the tests in a browser are skipped"),
    },
    Need {
        programs: &["curl"],
        asks: VERSION,
        origin: Origin::Debian(&["curl"]),
        without: Some("the test that calls by curl is skipped"),
    },
    Need {
        programs: &["etcd"],
        asks: VERSION,
        origin: Origin::Debian(&["etcd-server"]),
        without: Some("the comparisons with etcd are skipped"),
    },
    Need {
        programs: &["etcdctl"],
        asks: "version",
        origin: Origin::Debian(&["etcd-client"]),
        without: Some("the comparisons with etcd are skipped"),
    },
    Need {
        programs: &["protoc"],
        asks: VERSION,
        origin: Origin::Debian(&["protobuf-compiler", "libprotobuf-dev"]),
        without: Some(
            "the comparison by the crate `etcd-client`, which builds with it, is skipped",
        ),
    },
];

/// A library of another language, whose clients call our servers in tests.
struct Library {
    /// What is there when it is installed, below [`CLIENTS`].
    path: &'static str,
    /// The command that installs it there.
    install: &'static [&'static str],
}

/// Where they are installed: tests look here, too.
const CLIENTS: &str = "target/clients";

const LIBRARIES: &[Library] = &[
    Library {
        path: "node_modules/jayson",
        install: &[
            "npm",
            "install",
            "--no-audit",
            "--no-fund",
            "--prefix",
            CLIENTS,
            "jayson@4.2.0",
        ],
    },
    Library {
        path: "python/jsonrpcclient",
        install: &[
            "python3",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--root-user-action=ignore",
            "--target",
            "target/clients/python",
            "jsonrpcclient==4.0.3",
        ],
    },
    Library {
        path: "python/etcd3gw",
        install: &[
            "python3",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--root-user-action=ignore",
            "--target",
            "target/clients/python",
            "etcd3gw==2.7.0",
        ],
    },
];

/// A program that the gate cannot install: if it is missing, the gate skips the steps that need it.
pub(crate) struct Required {
    /// A command that succeeds if the program is installed.
    asks: &'static [&'static str],
    pub(crate) otherwise: &'static str,
}

/// Debian's Go is older than the version that grpc-go requires.
pub(crate) const GO: Required =
    Required { asks: &["go", "version"], otherwise: "`go` is missing: https://go.dev/doc/install" };

pub(crate) const PROTOC: Required = Required {
    // It comes without its own files in one package, and with them in two.
    asks: &["protoc", "-o/dev/null", "google/protobuf/descriptor.proto"],
    otherwise: "`protoc` is missing: apt-get install protobuf-compiler libprotobuf-dev",
};

/// Not installed by the gate, since no step of it needs it.
pub(crate) const VALGRIND: Required = Required {
    asks: &["valgrind", VERSION],
    otherwise: "`valgrind` is missing: apt-get install valgrind",
};

impl Required {
    pub(crate) fn is_there(&self) -> bool {
        succeeds(self.asks)
    }
}

/// Installs the missing programs, and libraries below `root`, and prints a line for each.
///
/// # Errors
///
/// The command to run, if the gate cannot run without a program and the command failed or needs root.
pub(crate) fn provide(root: &Path) -> Result<(), String> {
    NEEDS.iter().filter(|need| !need.is_there()).try_for_each(|need| need.provide(is_root()))?;
    LIBRARIES.iter().for_each(|library| library.provide(root));
    Ok(())
}

impl Library {
    fn provide(&self, root: &Path) {
        if root.join(CLIENTS).join(self.path).exists() {
            return;
        }
        let shown = self.install.join(" ");
        println!("`{}` is missing: {shown}", self.path);
        if !succeeds_in(root, self.install) {
            println!("that failed; its tests are skipped");
        }
    }
}

impl Need {
    fn is_there(&self) -> bool {
        self.programs.iter().any(|program| succeeds(&[program, self.asks]))
    }

    fn provide(&self, is_root: bool) -> Result<(), String> {
        match (self.install(is_root), self.without) {
            (Err(why), Some(without)) => {
                println!("{why}; {without}");
                Ok(())
            }
            (outcome, _) => outcome,
        }
    }

    fn install(&self, is_root: bool) -> Result<(), String> {
        let program = self.programs[0];
        let commands = self.origin.commands();
        let rows: Vec<String> = commands.iter().map(|command| command.join(" ")).collect();
        let shown = rows.join(" && ");
        if matches!(self.origin, Origin::Debian(_)) && !is_root {
            return Err(format!("`{program}` is missing; as root: {shown}"));
        }
        println!("`{program}` is missing: {shown}");
        if commands.iter().all(|command| succeeds(command)) {
            return Ok(());
        }
        Err(format!("`{program}` is missing and this failed: {shown}"))
    }
}

impl Origin {
    fn commands(self) -> Vec<Vec<&'static str>> {
        match self {
            Origin::Debian(packages) => {
                let install = ["apt-get", "install", "--yes", "--no-install-recommends"];
                vec![vec!["apt-get", "update"], [&install, packages].concat()]
            }
            Origin::Rustup(component) => vec![vec!["rustup", "component", "add", component]],
        }
    }
}

/// Whether `command` runs and succeeds; what it writes to standard output is dropped.
fn succeeds(command: &[&str]) -> bool {
    succeeds_in(Path::new("."), command)
}

fn succeeds_in(directory: &Path, command: &[&str]) -> bool {
    let (program, arguments) = command.split_first().expect("a command has a program");
    let mut call = Command::new(program);
    call.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).current_dir(directory);
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
        let origin = Origin::Debian(&["etcd-server"]);
        let need = Need { programs: &["etcd"], asks: VERSION, origin, without: None };
        let message = need.install(false).expect_err("not root");
        assert!(message.contains("`etcd` is missing"), "{message}");
        assert!(
            message.contains("apt-get install --yes --no-install-recommends etcd-server"),
            "{message}"
        );
    }

    #[test]
    fn only_a_program_that_the_gate_can_do_without_may_be_missing() {
        let origin = Origin::Debian(&["ringway-no-such-package"]);
        let programs = &["ringway-no-such-program"];
        let needed = Need { programs, asks: VERSION, origin, without: None };
        assert!(!needed.is_there());
        assert!(needed.provide(false).is_err());
        assert!(Need { without: Some("less is tested"), ..needed }.provide(false).is_ok());
    }

    #[test]
    fn one_of_several_programs_is_enough() {
        let programs = &["ringway-no-such-program", "true"];
        assert!(
            Need { programs, asks: VERSION, origin: Origin::Debian(&["none"]), without: None }
                .is_there()
        );
    }

    #[test]
    fn libraries_are_installed_where_tests_look_for_them() {
        for Library { path, install } in LIBRARIES {
            let is_below = |word: &&str| word.starts_with(CLIENTS);
            assert!(install.iter().any(is_below), "{path}: {install:?}");
        }
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
