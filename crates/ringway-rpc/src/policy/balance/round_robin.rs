//! Round robin.

use super::load::{Load, Pick};

/// Picks by smooth weighted round robin: every usable host earns its weight, and the host with the
/// most credit is picked and pays the sum of all weights. So a heavy host is mixed with the others
/// and not called in a row; hosts of equal weight take turns.
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
