//! One host after the other.

use super::load::{Load, Pick};

/// Smooth weighted round robin: every usable host earns its weight, the richest is picked and pays
/// what all have earned. A heavy host is thus mixed among the others, not called in a row; hosts of
/// equal weight simply take turns.
pub(super) fn pick(hosts: &mut [Load], pick: Pick<'_>) -> Option<usize> {
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
