//! One host after the other.

use super::{Load, Pick};

/// The next usable host from `next` on, which moves behind it.
pub(super) fn plain(hosts: &[Load], pick: Pick<'_>, next: &mut usize) -> Option<usize> {
    let count = hosts.len();
    let index = (0..count).map(|i| (*next + i) % count).find(|&i| pick.may_use(hosts, i))?;
    *next = index + 1;
    Some(index)
}

/// Smooth weighted round robin: every usable host earns its weight, the richest is picked and pays
/// what all have earned. A heavy host is thus mixed among the others, not called in a row.
pub(super) fn smooth(hosts: &mut [Load], pick: Pick<'_>) -> Option<usize> {
    let mut total = 0;
    let mut richest: Option<usize> = None;
    for i in 0..hosts.len() {
        if !pick.may_use(hosts, i) {
            continue;
        }
        let weight = i64::from(hosts[i].weight);
        total += weight;
        hosts[i].turn += weight;
        if richest.is_none_or(|best| hosts[i].turn > hosts[best].turn) {
            richest = Some(i);
        }
    }
    hosts[richest?].turn -= total;
    richest
}
