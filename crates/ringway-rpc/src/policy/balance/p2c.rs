//! The best of a few random hosts.

use super::load::{Load, Pick};
use crate::limits;

/// Compares all hosts if they are few, otherwise [`limits::HOSTS_SAMPLED`] random ones: enough to
/// avoid a bad host, too few for all clients to choose the same best one.
pub(super) fn pick(hosts: &[Load], pick: Pick<'_>, random: &mut fastrand::Rng) -> Option<usize> {
    // Starts anywhere, because the first of equal hosts would get every call.
    let start = random.usize(..hosts.len().max(1));
    if hosts.len() <= limits::HOSTS_SAMPLED {
        let all = (0..hosts.len()).map(|i| (start + i) % hosts.len());
        return cheapest(hosts, pick, all);
    }
    let sample: [usize; limits::HOSTS_SAMPLED] =
        std::array::from_fn(|_| random.usize(..hosts.len()));
    let found = cheapest(hosts, pick, sample.into_iter());
    // Most hosts are unavailable.
    found.or_else(|| {
        let (sample, count) = sample_usable(hosts, pick, random);
        let start = random.usize(..count.max(1));
        cheapest(hosts, pick, (0..count).map(|i| sample[(start + i) % count]))
    })
}

/// Draws random usable hosts in one pass (reservoir sampling), so that each is as likely as the others. Returns them and
/// their number.
fn sample_usable(
    hosts: &[Load],
    pick: Pick<'_>,
    random: &mut fastrand::Rng,
) -> ([usize; limits::HOSTS_SAMPLED], usize) {
    let mut sample = [0; limits::HOSTS_SAMPLED];
    let mut seen = 0;
    for index in (0..hosts.len()).filter(|&i| pick.may_use(hosts, i)) {
        let place = if seen < sample.len() { seen } else { random.usize(..=seen) };
        if let Some(place) = sample.get_mut(place) {
            *place = index;
        }
        seen += 1;
    }
    (sample, seen.min(limits::HOSTS_SAMPLED))
}

fn cheapest(hosts: &[Load], pick: Pick<'_>, indexes: impl Iterator<Item = usize>) -> Option<usize> {
    let usable = indexes.filter(|&i| pick.may_use(hosts, i));
    let priced = usable.map(|i| (i, hosts[i].cost(pick.now)));
    priced.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(index, _)| index)
}
