//! Which cores the two sides of a bench run on.

use super::flags::BenchFlags;
use crate::args::values::{Cores, ValueError};

/// The cores of each side's pinned threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) server: Cores,
    /// Different from the server's if the machine has enough cores and no flag says otherwise.
    pub(crate) client: Cores,
}

/// By default the server gets the first cores and the client the next; a process with a
/// single core shares it.
pub(super) fn resolve(common: &BenchFlags, allowed: &Cores) -> Result<Placement, ValueError> {
    let count = allowed.as_slice().len();
    let threads = match common.threads.unwrap_or(0) {
        0 => (count / 2).max(1),
        threads => usize::from(threads),
    };
    let explicit = |flag, cores: &Option<Cores>| {
        cores.clone().map(|cores| cores.within(allowed, flag)).transpose()
    };
    let server = explicit("--server-cores", &common.server_cores)?;
    let client = explicit("--client-cores", &common.client_cores)?;
    let (server, client) = match (server, client) {
        (Some(server), Some(client)) => (server, client),
        (Some(server), None) => (server.clone(), beside(&server, allowed, threads)?),
        (None, Some(client)) => (beside(&client, allowed, threads)?, client),
        (None, None) if count == 1 && threads == 1 => (allowed.clone(), allowed.clone()),
        (None, None) if 2 * threads > count => {
            return Err(ValueError::new(format!(
                "-i {threads} needs {} cores for both sides, but {count} are allowed; lower -i, or let the \
                 sides share cores with --server-cores and --client-cores",
                2 * threads
            )));
        }
        (None, None) => {
            let server = allowed.take(threads);
            (server.clone(), beside(&server, allowed, threads)?)
        }
    };
    Ok(Placement { server, client })
}

/// Returns `count` allowed cores that the other side has not `taken`.
fn beside(taken: &Cores, allowed: &Cores, count: usize) -> Result<Cores, ValueError> {
    let free = allowed.as_slice().iter().copied().filter(|core| !taken.as_slice().contains(core));
    let free: Vec<usize> = free.collect();
    let left = free.len();
    match Cores::new(free) {
        Some(free) if left >= count => Ok(free.take(count)),
        _ => Err(ValueError::new(format!(
            "{count} threads need a core each, but beside the other side's {taken} only {left} are left; lower \
             -i, or let the sides share cores with --server-cores and --client-cores"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::config;
    use super::*;
    use crate::args::{Config, parse};

    #[test]
    fn sides_are_pinned_apart() {
        let check = |words: &str, server: &[usize], client: &[usize]| {
            let placement = config(words).placement;
            assert_eq!(placement.server.as_slice(), server, "{words}");
            assert_eq!(placement.client.as_slice(), client, "{words}");
        };
        check("bench", &[0, 1], &[2, 3]);
        check("bench -i 1", &[0], &[1]);
        check("bench -i 1 --server-cores 1", &[1], &[0]);
        check("bench -i 1 --client-cores 0", &[1], &[0]);
        check("bench --server-cores 0-3 --client-cores 0-3", &[0, 1, 2, 3], &[0, 1, 2, 3]);
    }

    #[test]
    fn one_core_is_shared() {
        let args = ["ringway", "bench"].map(str::to_owned).to_vec();
        let allowed = "5".parse().expect("a core");
        let Ok(Config::Bench(config)) = parse(args, &allowed) else {
            panic!("a bare bench parses on one core");
        };
        assert_eq!(config.placement, Placement { server: allowed.clone(), client: allowed });
    }
}
