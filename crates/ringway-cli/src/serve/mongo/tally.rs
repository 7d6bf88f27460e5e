//! What a responder has answered.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Counts of all connections.
#[derive(Debug, Default)]
pub(crate) struct MongoTally {
    /// Commands but for those of a handshake.
    commands: AtomicU64,
    /// Those among them that failed as planned.
    refused: AtomicU64,
    /// When the first came, with the processor time until then.
    began: OnceLock<(Instant, Duration)>,
}

impl MongoTally {
    /// Counts a command. Returns its number, from 1.
    pub(super) fn count(&self) -> u64 {
        self.began.get_or_init(|| (Instant::now(), processor_time()));
        self.commands.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// The line that a responder prints when it ends.
impl fmt::Display for MongoTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let commands = self.commands.load(Ordering::Relaxed);
        let Some((began, used)) = self.began.get() else {
            return f.write_str("no command was answered");
        };
        let busy = processor_time().saturating_sub(*used).as_secs_f64();
        let elapsed = began.elapsed().as_secs_f64();
        write!(
            f,
            "{commands} commands were answered, {} of them with an error; busy {:.0} % of {elapsed:.1} s; at the \
             most {:.0} commands a second of processor time",
            self.refused(),
            busy / elapsed * 100.0,
            commands as f64 / busy.max(1e-9),
        )
    }
}

/// User and system time of this process.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
