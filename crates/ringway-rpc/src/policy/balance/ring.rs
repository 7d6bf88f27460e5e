//! Consistent hashing with bounded loads.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::load::{Load, Pick};
use crate::limits;

/// The points of all hosts in the order of their hashes, in proportion to their weights. A key
/// belongs to the next point after it. When a host leaves, only its own keys move.
#[derive(Clone, Debug, Default)]
pub(super) struct Ring {
    /// The hash of a point and the index of its host.
    points: Vec<(u64, usize)>,
}

impl Ring {
    pub(super) fn new(hosts: &[Load]) -> Self {
        let weights: usize = hosts.iter().map(|host| host.weight as usize).sum();
        // Halving, unlike dividing, seldom changes the number of points when hosts come or go, and
        // keys move only when it changes.
        let mut of_each = limits::RING_POINTS;
        while of_each > 1 && weights * of_each > limits::RING_POINTS_MAX {
            of_each /= 2;
        }
        let mut points = Vec::with_capacity(weights * of_each);
        for (index, host) in hosts.iter().enumerate() {
            let count = u64::from(host.weight) * of_each as u64;
            points.extend((0..count).map(|point| (mix(host.key ^ mix(point)), index)));
        }
        points.sort_unstable();
        Self { points }
    }

    /// Returns the owner of the key, or the next usable host that is not overloaded; if all are
    /// overloaded, the first usable one.
    pub(super) fn pick(&self, hosts: &[Load], pick: Pick<'_>, key: u64) -> Option<usize> {
        let bound = bound(hosts);
        let key = mix(key);
        let start = self.points.partition_point(|&(hash, _)| hash < key);
        let (before, behind) = self.points.split_at(start);
        let mut usable = behind
            .iter()
            .chain(before)
            .map(|&(_, index)| index)
            .filter(|&index| pick.may_use(hosts, index))
            .peekable();
        let first = usable.peek().copied();
        usable.find(|&index| hosts[index].in_flight < bound(&hosts[index])).or(first)
    }
}

/// Hashes equally in every process of the same program, so that equal keys go to the same host.
pub(crate) fn hash_of(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Returns the bound of a host's calls in flight: a quarter more than its share, and at least a
/// few, since a few calls are no load.
fn bound(hosts: &[Load]) -> impl Fn(&Load) -> u32 {
    let available = || hosts.iter().filter(|host| host.available);
    let calls: u64 = available().map(|host| u64::from(host.in_flight)).sum();
    let weights: u64 = available().map(|host| u64::from(host.weight)).sum();
    move |host| {
        let share = (calls + 1) * u64::from(host.weight) * 5;
        let share = share.div_ceil(weights.max(1) * 4);
        u32::try_from(share).unwrap_or(u32::MAX).max(limits::OWNED_CALLS_MIN)
    }
}

/// Spreads nearby values over the whole range (the finalizer of SplitMix64).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::policy::balance::PeakEwma;

    #[test]
    fn many_heavy_hosts_have_fewer_points_each() {
        let points = |hosts: u64| {
            let load =
                |key| Load::new(key, limits::HOST_WEIGHT_MAX, PeakEwma::default(), Duration::ZERO);
            Ring::new(&(0..hosts).map(load).collect::<Vec<_>>()).points.len()
        };
        let of_one = limits::RING_POINTS * limits::HOST_WEIGHT_MAX as usize;
        assert_eq!([points(1), points(20), points(40)], [of_one, 20 * of_one, 40 * of_one / 2]);
    }
}
