//! Turns flags into the cores of a runtime, and their counters into one object.

use std::io;
use std::time::Duration;

use ringway_runtime::affinity::CoreSet;
use ringway_runtime::{Builder, CoreCounters, CoreHandle, Runtime};
use serde_json::{Map, Value, json};

use crate::args::{Backend, Cores};

/// Returns the runtime settings of one side of a measurement.
///
/// # Errors
/// The runtime does not know a core number.
pub(crate) fn builder(
    cores: &Cores,
    backend: Backend,
    spin: Option<Duration>,
) -> io::Result<Builder> {
    let builder = Runtime::builder().cores(set(cores)?).backend(backend.into());
    Ok(match spin {
        Some(spin) => builder.spin(spin),
        None => builder,
    })
}

/// Converts a set of cores to the runtime's form.
///
/// # Errors
/// The runtime does not know a core number.
pub(crate) fn set(cores: &Cores) -> io::Result<CoreSet> {
    CoreSet::parse(&cores.to_string()).map_err(io::Error::other)
}

impl From<Backend> for ringway_runtime::Backend {
    fn from(backend: Backend) -> Self {
        match backend {
            Backend::Auto => Self::Auto,
            Backend::Uring => Self::Uring,
            Backend::Epoll => Self::Epoll,
        }
    }
}

/// Adds up the counters of all `cores`, and tells the driver of the first.
pub(crate) fn counters<'a>(
    cores: impl Iterator<Item = (&'a CoreCounters, &'a str)>,
) -> Map<String, Value> {
    let mut sums = [0_u64; COUNTED.len()];
    let mut described = None;
    for (counters, backend) in cores {
        described.get_or_insert(backend);
        for (sum, (_, read)) in sums.iter_mut().zip(COUNTED) {
            *sum += read(counters);
        }
    }
    let mut object = Map::new();
    for (sum, (name, _)) in sums.into_iter().zip(COUNTED) {
        object.insert(name.to_owned(), json!(sum));
    }
    if let Some(described) = described {
        let (driver, flags) = driver(described);
        object.insert("driver".to_owned(), json!(driver));
        object.insert("ring_flags".to_owned(), json!(flags));
    }
    object
}

/// Does the same for a runtime of this process.
pub(crate) fn counters_of(cores: &[CoreHandle]) -> Map<String, Value> {
    let counted: Vec<_> = cores.iter().map(|core| (core.counters(), core.backend())).collect();
    counters(counted.iter().map(|(counters, backend)| (counters, *backend)))
}

type Reader = fn(&CoreCounters) -> u64;

const COUNTED: [(&str, Reader); 14] = [
    ("turns", |core| core.turns),
    ("syscalls", |core| core.syscalls),
    ("bytes_received", |core| core.bytes_received),
    ("bytes_sent", |core| core.bytes_sent),
    ("receives", |core| core.receives),
    ("sends", |core| core.sends),
    ("accepted", |core| core.accepted),
    ("polls", |core| core.polls),
    ("spin_hits", |core| core.spin_hits),
    ("spin_misses", |core| core.spin_misses),
    ("sleeps", |core| core.sleeps),
    ("stalls", |core| core.stalls),
    ("starved", |core| core.starved),
    ("short_sends", |core| core.short_sends),
];

/// Returns the word of the `--backend` flag and the set-up flags from `io_uring (A|B)`.
fn driver(described: &str) -> (&str, Vec<&str>) {
    match described.strip_prefix("io_uring (") {
        Some(flags) => ("uring", flags.trim_end_matches(')').split('|').collect()),
        None => (described.split(' ').next().unwrap_or(described), Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_and_their_flags() {
        assert_eq!(driver("io_uring (A|B)"), ("uring", vec!["A", "B"]));
        assert_eq!(driver("epoll (edge-triggered)"), ("epoll", vec![]));
    }

    #[test]
    fn counters_of_all_cores_are_added() {
        let runtime = Runtime::builder().threads(2).start().expect("two cores");
        let counted = counters_of(runtime.cores());
        assert_eq!(counted["accepted"], 0);
        assert!(counted["driver"].is_string());
    }
}
