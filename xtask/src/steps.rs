//! The steps of the gate: one table.

use crate::needs::{self, Required};
use crate::tidy;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// How the gate runs.
pub(crate) struct Settings {
    /// Whether cargo must take the versions of `Cargo.lock` as they are.
    pub(crate) is_locked: bool,
    /// Whether clippy looks at the code as it is compiled for the tests, which spares a second pass over
    /// all crates. What it finds then ends that build, so locally it is a step of its own.
    pub(crate) lints_as_it_builds: bool,
    environment: &'static [(&'static str, &'static str)],
}

impl Settings {
    pub(crate) fn local() -> Self {
        Settings { is_locked: false, lints_as_it_builds: false, environment: &[] }
    }

    /// No colours in the log; a snapshot that differs fails and is not written; little disk.
    pub(crate) fn ci() -> Self {
        let environment = &[
            ("CARGO_TERM_COLOR", "never"),
            ("INSTA_UPDATE", "no"),
            // A build from nothing: what only a second build would use takes 15 GB and time.
            ("CARGO_INCREMENTAL", "0"),
            ("CARGO_PROFILE_DEV_DEBUG", "0"),
            // As `cargo clippy -- -D warnings` sets them, which then compiles no further than to lint.
            (WORKSPACE_COMPILER, "clippy-driver"),
            ("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__"),
        ];
        Settings { is_locked: true, lints_as_it_builds: true, environment }
    }
}

/// Names the compiler of the workspace's own crates; cargo passes it rustc's arguments.
const WORKSPACE_COMPILER: &str = "RUSTC_WORKSPACE_WRAPPER";

/// One step of the gate.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) work: Work,
    /// Where that is missing, the step is skipped.
    pub(crate) requires: Option<&'static Required>,
}

/// What a step does; it passes when all of it does.
pub(crate) enum Work {
    Tidy,
    Cargo(&'static [Cargo]),
}

/// One call of cargo.
pub(crate) struct Cargo {
    arguments: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    /// Whether at least one test must have run: a filter that matches nothing is a mistake.
    needs_tests: bool,
}

const fn cargo(arguments: &'static [&'static str]) -> Cargo {
    Cargo { arguments, environment: &[], needs_tests: false }
}

/// The gate, quickest answers first.
pub(crate) const STEPS: &[Step] = &[
    Step {
        name: "fmt",
        summary: "The source is formatted",
        work: Work::Cargo(&[
            cargo(&["fmt", "--all", "--check"]),
            cargo(&["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"]),
        ]),
        requires: None,
    },
    Step { name: "tidy", summary: "The project's own checks", work: Work::Tidy, requires: None },
    Step {
        name: "clippy",
        summary: "No warnings of the compiler or clippy, also in tests and examples",
        work: Work::Cargo(&[cargo(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ])]),
        requires: None,
    },
    Step {
        name: "test",
        summary: "Unit, integration and documentation tests of all crates and of the peers",
        work: Work::Cargo(&[Cargo {
            needs_tests: true,
            // Most of the tests' time is spent waiting for sockets and timers.
            environment: &[("RUST_TEST_THREADS", "4")],
            arguments: &["test", "--workspace", "--no-fail-fast"],
        }]),
        requires: None,
    },
    Step {
        name: "loom",
        summary: "The core-to-core mailbox under the model checker",
        work: Work::Cargo(&[Cargo {
            arguments: &["test", "-p", "ringway-runtime", "--lib", "loom"],
            // A target directory of its own, because other RUSTFLAGS rebuild everything. Not
            // optimised: building takes a minute less, and the tests a second more.
            environment: &[
                (WORKSPACE_COMPILER, ""),
                ("RUSTFLAGS", "--cfg loom"),
                ("CARGO_TARGET_DIR", "target/loom"),
                ("CARGO_PROFILE_DEV_DEBUG", "0"),
            ],
            needs_tests: true,
        }]),
        requires: None,
    },
    Step {
        name: "interop",
        summary: "grpc-go and Connect's conformance suite (fetched and built first) against both our sides",
        work: Work::Cargo(&[Cargo {
            needs_tests: true,
            // With the whole workspace's features, so that little is built twice.
            ..cargo(&[
                "test",
                "--workspace",
                "--features",
                "ringway-interop/connect-conformance",
                "--test",
                "grpc_go",
                "--test",
                "connect_conformance",
            ])
        }]),
        requires: Some(&needs::GO),
    },
    Step {
        name: "etcd",
        summary: "The `etcd-client` crate gets the same answers from etcd and from our registry",
        work: Work::Cargo(&[Cargo {
            needs_tests: true,
            // With the whole workspace's features, so that little is built twice.
            ..cargo(&[
                "test",
                "--workspace",
                "--features",
                "ringway-interop/etcd-client",
                "--test",
                "etcd_client",
            ])
        }]),
        requires: Some(&needs::PROTOC),
    },
    Step {
        name: "doc",
        summary: "The documentation builds, and its links work",
        work: Work::Cargo(&[
            // The tool and the facade are both called `ringway`; the libraries come last and stay.
            Cargo { environment: DOC, ..cargo(&["doc", "--no-deps", "--bins"]) },
            Cargo { environment: DOC, ..cargo(&["doc", "--no-deps", "--lib"]) },
        ]),
        requires: None,
    },
];

const DOC: &[(&str, &str)] = &[("RUSTDOCFLAGS", "-D warnings")];

impl Work {
    /// Does the work and tells how many tests passed in it.
    ///
    /// # Errors
    ///
    /// What failed, in one line; the details have been printed.
    pub(crate) fn run(&self, root: &Path, settings: &Settings) -> Result<u64, String> {
        match self {
            Work::Tidy => match tidy::run(root, tidy::View::Findings) {
                Ok(true) => Ok(0),
                Ok(false) => Err("the project is not tidy".to_owned()),
                Err(error) => Err(format!("cannot read the project: {error}")),
            },
            Work::Cargo(calls) => calls.iter().map(|call| call.run(root, settings)).sum(),
        }
    }
}

impl Cargo {
    fn run(&self, root: &Path, settings: &Settings) -> Result<u64, String> {
        let mut command = self.command(root, settings);
        let shown = format!("cargo {}", self.arguments.join(" "));
        let mut child = command.spawn().map_err(|error| format!("{shown}: {error}"))?;
        let output = child.stdout.take().expect("standard output is piped");
        let passed = copy_and_count(BufReader::new(output), std::io::stdout())
            .map_err(|error| format!("{shown}: {error}"));
        let status = child.wait().map_err(|error| format!("{shown}: {error}"))?;
        match passed? {
            _ if !status.success() => Err(format!("{shown}: {status}")),
            0 if self.needs_tests => Err(format!("{shown}: no test ran")),
            passed => Ok(passed),
        }
    }

    fn command(&self, root: &Path, settings: &Settings) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        let (head, tail) = self.arguments.split_at(1);
        command.args(head);
        // `cargo fmt` reads no lock file and knows no such flag.
        if settings.is_locked && head != ["fmt"] {
            command.arg("--locked");
        }
        command.args(tail).current_dir(root).stdin(Stdio::null()).stdout(Stdio::piped());
        command.envs(settings.environment.iter().copied()).envs(self.environment.iter().copied());
        command
    }
}

/// Copies cargo's output line by line and adds up the tests that passed.
fn copy_and_count(mut from: impl BufRead, mut to: impl Write) -> std::io::Result<u64> {
    let mut passed = 0;
    let mut row = Vec::new();
    while from.read_until(b'\n', &mut row)? > 0 {
        to.write_all(&row)?;
        to.flush()?;
        passed += passed_in(&String::from_utf8_lossy(&row)).unwrap_or(0);
        row.clear();
    }
    Ok(passed)
}

/// The count in `test result: ok. 12 passed; …`.
fn passed_in(row: &str) -> Option<u64> {
    let counts = row.strip_prefix("test result: ")?;
    counts.split(" passed;").next()?.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_tests_are_added_up() {
        let output = "running 3 tests\n\
            test result: ok. 3 passed; 0 failed; 0 ignored\n\
            test result: \x1b[32mok\x1b[m. 12 passed; 0 failed\nsaid: test result: ok. 9 passed; x";
        let mut copy = Vec::new();
        let passed = copy_and_count(output.as_bytes(), &mut copy).expect("memory can be written");
        assert_eq!(passed, 15);
        assert_eq!(copy, output.as_bytes());
    }

    #[test]
    fn ci_is_locked_where_cargo_allows_it() {
        let arguments = |call: &Cargo, settings: &Settings| -> Vec<String> {
            let command = call.command(Path::new("."), settings);
            command.get_args().map(|word| word.to_string_lossy().into_owned()).collect()
        };
        let doc = cargo(&["doc", "--no-deps"]);
        assert_eq!(arguments(&doc, &Settings::ci()), ["doc", "--locked", "--no-deps"]);
        assert_eq!(arguments(&doc, &Settings::local()), ["doc", "--no-deps"]);
        assert_eq!(arguments(&cargo(&["fmt", "--all"]), &Settings::ci()), ["fmt", "--all"]);
    }

    #[test]
    fn ci_lints_what_it_compiles_but_for_loom() {
        let is_linted = |step: &Step, settings: &Settings| {
            let Work::Cargo(calls) = &step.work else { return false };
            calls.iter().all(|call| {
                let command = call.command(Path::new("."), settings);
                let mut envs = command.get_envs();
                envs.any(|(name, value)| name == WORKSPACE_COMPILER && value != Some("".as_ref()))
            })
        };
        let linted = |settings: &Settings| -> Vec<&str> {
            STEPS.iter().filter(|step| is_linted(step, settings)).map(|step| step.name).collect()
        };
        assert_eq!(linted(&Settings::ci()), ["fmt", "clippy", "test", "interop", "etcd", "doc"]);
        assert!(linted(&Settings::local()).is_empty(), "clippy is a step there");
    }
}
