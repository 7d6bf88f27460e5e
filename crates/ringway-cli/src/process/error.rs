//! Errors of processes that the tool starts.

use std::fmt;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

/// A process that failed. Its standard error is printed above this error on ours.
#[derive(Debug)]
pub(crate) enum ProcessError {
    /// The system did not start it.
    Start { program: String, source: io::Error },
    /// It ended too early.
    Ended { program: String, awaited: &'static str, status: ExitStatus },
    /// It took too long.
    Late { program: String, awaited: &'static str, limit: Duration },
    /// Its answer was wrong.
    Answer { program: String, awaited: &'static str, line: String },
    /// The system refused to signal it, to wait for it, or to read its times.
    System { program: String, source: io::Error },
    /// The peer programs are not beside this one, and there is no checkout to build them from.
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
