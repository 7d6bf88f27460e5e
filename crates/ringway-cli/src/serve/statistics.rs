//! A line of statistics on standard output, again and again.

use std::io::Write;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use ringway_net::ServerHandle;

/// What a server has done up to some moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Done {
    accepted: u64,
    receives: u64,
    bytes_received: u64,
    sends: u64,
    bytes_sent: u64,
}

/// Prints what `server` has done in each `period` in which it has done something, until what is returned is dropped.
///
/// # Errors
/// The system grants no thread.
pub(super) fn print_every(period: Duration, server: ServerHandle) -> std::io::Result<Sender<()>> {
    let (until, stopped) = mpsc::channel::<()>();
    let print = move || {
        let (mut before, mut at) = (Done::default(), Instant::now());
        while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(period) {
            let (now, open) = (Done::by(&server), server.stats().open);
            if now != before {
                let line = now.since(before).line(open, at.elapsed());
                // Nobody reads a closed output, which is no reason to end.
                _ = writeln!(std::io::stdout(), "{line}");
            }
            (before, at) = (now, Instant::now());
        }
    };
    thread::Builder::new().name("statistics".to_owned()).spawn(print)?;
    Ok(until)
}

impl Done {
    fn by(server: &ServerHandle) -> Self {
        let mut done = Self::default();
        for core in &server.stats().cores {
            done.accepted += core.counters.accepted;
            done.receives += core.counters.receives;
            done.bytes_received += core.counters.bytes_received;
            done.sends += core.counters.sends;
            done.bytes_sent += core.counters.bytes_sent;
        }
        done
    }

    fn since(self, before: Self) -> Self {
        Self {
            accepted: self.accepted.saturating_sub(before.accepted),
            receives: self.receives.saturating_sub(before.receives),
            bytes_received: self.bytes_received.saturating_sub(before.bytes_received),
            sends: self.sends.saturating_sub(before.sends),
            bytes_sent: self.bytes_sent.saturating_sub(before.bytes_sent),
        }
    }

    fn line(self, open: usize, time: Duration) -> String {
        let rate = |count: u64| count as f64 / time.as_secs_f64();
        let mib = |bytes: u64| rate(bytes) / f64::from(1 << 20);
        format!(
            "open {open}, accepted {}; in {:.0} receives/s, {:.3} MiB/s; out {:.0} sends/s, {:.3} MiB/s",
            self.accepted,
            rate(self.receives),
            mib(self.bytes_received),
            rate(self.sends),
            mib(self.bytes_sent),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_rates_of_its_period() {
        let before = Done { accepted: 5, receives: 100, ..Done::default() };
        let now = Done {
            accepted: 7,
            receives: 300,
            bytes_received: 4 << 20,
            sends: 50,
            bytes_sent: 1 << 19,
        };
        insta::assert_snapshot!(
            now.since(before).line(3, Duration::from_secs(2)),
            @"open 3, accepted 2; in 100 receives/s, 2.000 MiB/s; out 25 sends/s, 0.250 MiB/s"
        );
    }
}
