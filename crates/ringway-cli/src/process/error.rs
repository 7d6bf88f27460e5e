//! Errors of processes that the tool has started.

use std::fmt;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

/// A process that did not do its part. What it printed on standard error stands above this on ours.
#[derive(Debug)]
pub(crate) enum ProcessError {
    /// The system did not start it.
    Start { program: String, source: io::Error },
    /// It ended before it had done what was asked.
    Ended { program: String, awaited: &'static str, status: ExitStatus },
    /// It did not do what was asked in time.
    Late { program: String, awaited: &'static str, limit: Duration },
    /// It answered something else than was asked.
    Answer { program: String, awaited: &'static str, line: String },
    /// The system refused to signal it, wait for it or read its times.
    System { program: String, source: io::Error },
    /// The peer programs are neither beside this one nor in a checkout to build them from.
    NoPeers { looked_in: String },
    /// The peer programs could not be built.
    PeersBuild { status: ExitStatus },
}

impl fmt::Display for ProcessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start { program, source } => {
                write!(f, "cannot start {program}: {source}; check that it exists and may be run")
            }
            Self::Ended { program, awaited, status } => write!(
                f,
                "{program} ended ({status}) before {awaited}; its own message, if any, is above"
            ),
            Self::Late { program, awaited, limit } => {
                write!(
                    f,
                    "{program}: no sign of {awaited} within {limit:?}; is the machine overloaded?"
                )
            }
            Self::Answer { program, awaited, line } => {
                write!(
                    f,
                    "{program} printed {line:?} instead of {awaited}; are both of one version?"
                )
            }
            Self::System { program, source } => write!(f, "{program}: {source}"),
            Self::NoPeers { looked_in } => write!(
                f,
                "no ringway-peers in {looked_in} and no checkout to build it from; run \
                 `cargo build --release -p ringway-peers` and put it there, or leave --peers out"
            ),
            Self::PeersBuild { status } => {
                write!(f, "building ringway-peers failed ({status}); cargo's message is above")
            }
        }
    }
}

impl std::error::Error for ProcessError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Start { source, .. } | Self::System { source, .. } => Some(source),
            _ => None,
        }
    }
}
