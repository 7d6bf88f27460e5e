//! The registry suite of `bench`.

use super::flags::{BenchFlags, BenchRegistryFlags};
use super::list::list;
use super::suite::{RegistryLoad, Suite};
use crate::args::choices::RegistryMode;
use crate::args::values::{Cores, ValueError};

/// # Errors
/// Flags without a meaning for a registry inside the process; lists that are too long.
pub(super) fn resolve(
    common: &BenchFlags,
    flags: BenchRegistryFlags,
    allowed: &Cores,
) -> Result<Suite, ValueError> {
    let BenchRegistryFlags { mode: modes, depth, local, workers } = flags;
    if local || workers.is_some() {
        return local_suite(common, workers.unwrap_or(WORKERS), allowed);
    }
    let modes = if modes.is_empty() { EVERY_MODE.to_vec() } else { modes };
    let mut rows = Vec::new();
    for mode in modes {
        let (connections, depth): (&[u32], _) = match mode {
            RegistryMode::Watch => (&[1, 100, 1000], 1),
            RegistryMode::KeepAlive => (&[100], 1),
            RegistryMode::Range | RegistryMode::Put => (&[100], depth.unwrap_or(1)),
        };
        let connections = list("-c", &common.connections, connections)?;
        rows.extend(connections.into_iter().map(|count| (count, RegistryLoad { mode, depth })));
    }
    Ok(Suite::Registry { rows, sizes: list("-s", &common.size, &[128])? })
}

fn local_suite(common: &BenchFlags, workers: u32, allowed: &Cores) -> Result<Suite, ValueError> {
    let given = [
        ("-c", !common.connections.is_empty()),
        ("-s", !common.size.is_empty()),
        ("--addr", common.addr.is_some()),
        ("--server-cores", common.server_cores.is_some()),
        ("--peers", common.peers),
    ];
    if let Some((flag, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
        return Err(ValueError::new(format!(
            "{flag} has no meaning with --local, which connects to nothing"
        )));
    }
    let count = allowed.as_slice().len();
    let count = common.threads.map_or(count, |threads| count.min(threads as usize));
    Ok(Suite::Local { workers, cores: allowed.take(count) })
}

const EVERY_MODE: [RegistryMode; 4] =
    [RegistryMode::Range, RegistryMode::Put, RegistryMode::KeepAlive, RegistryMode::Watch];

/// As in the report that the suite comes from.
const WORKERS: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Config, tests::parse_words};

    fn suite(words: &str) -> Suite {
        match parse_words(words).expect(words) {
            Config::Bench(mut config) => config.suites.remove(0),
            other => panic!("{words}: {other:?}"),
        }
    }

    #[test]
    fn each_mode_has_its_connections() {
        let Suite::Registry { rows, sizes } = suite("bench registry -l 4") else {
            panic!("the registry suite");
        };
        let row = |count, mode, depth| (count, RegistryLoad { mode, depth });
        let expected = [
            row(100, RegistryMode::Range, 4),
            row(100, RegistryMode::Put, 4),
            row(100, RegistryMode::KeepAlive, 1),
            row(1, RegistryMode::Watch, 1),
            row(100, RegistryMode::Watch, 1),
            row(1000, RegistryMode::Watch, 1),
        ];
        assert_eq!((&rows[..], &sizes[..]), (&expected[..], &[128][..]));
        let Suite::Registry { rows, .. } = suite("bench registry -m watch,put -c 7") else {
            panic!("the registry suite");
        };
        assert_eq!(rows, [row(7, RegistryMode::Watch, 1), row(7, RegistryMode::Put, 1)]);
    }

    #[test]
    fn the_local_registry_has_workers_and_no_connections() {
        let cores = "0-3".parse::<Cores>().expect("cores");
        let expected = Suite::Local { workers: 100, cores: cores.clone() };
        assert_eq!(suite("bench registry --local"), expected);
        let expected = Suite::Local { workers: 8, cores: cores.take(2) };
        assert_eq!(suite("bench registry -w 8 -d 3 -i 2"), expected);
        for words in ["--local -c 1", "-w 2 --peers", "-w 2 -m put", "--local -m put"] {
            parse_words(&format!("bench registry {words}")).expect_err(words);
        }
    }
}
