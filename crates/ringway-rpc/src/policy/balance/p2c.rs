//! The best of a few hosts taken at random.

use super::load::{Load, Pick};
use crate::limits;

/// Compares all hosts where they are few, otherwise [`limits::HOSTS_SAMPLED`] of them: enough to
/// avoid a bad one, too few for all clients to run to the same best one.
pub(super) fn pick(hosts: &[Load], pick: Pick<'_>, random: &mut fastrand::Rng) -> Option<usize> {
    // Among equals the first would get everything, so begin anywhere.
    let start = random.usize(..hosts.len().max(1));
    if hosts.len() <= limits::HOSTS_SAMPLED {
        let all = (0..hosts.len()).map(|i| (start + i) % hosts.len());
        return cheapest(hosts, pick, all);
    }
    let sample: [usize; limits::HOSTS_SAMPLED] =
        std::array::from_fn(|_| random.usize(..hosts.len()));
    let found = cheapest(hosts, pick, sample.into_iter());
    // Many are unavailable: take any that is.
    found.or_else(|| {
        let all = (0..hosts.len()).map(|i| (start + i) % hosts.len());
        all.into_iter().find(|&i| pick.may_use(hosts, i))
    })
}

fn cheapest(hosts: &[Load], pick: Pick<'_>, indexes: impl Iterator<Item = usize>) -> Option<usize> {
    let usable = indexes.filter(|&i| pick.may_use(hosts, i));
    let priced = usable.map(|i| (i, hosts[i].cost(pick.now)));
    priced.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(index, _)| index)
}
