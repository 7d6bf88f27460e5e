//! How many calls each connection is offered.

use crate::limits;

/// The calls that each of the `busy` connections is offered while more are made than may run: they share what
/// the `limits` of methods under pressure allow together. `None` if there are none.
pub(crate) fn share_of_each(limits: impl Iterator<Item = u32>, busy: usize) -> Option<u32> {
    // The sum of as many methods as a server may have needs more than 32 bits.
    let limit: u64 = limits.map(u64::from).sum();
    if limit == 0 {
        return None;
    }
    let welcome = (limit * u64::from(limits::LEASE_PERCENT)).div_ceil(100);
    let share = welcome.div_ceil(busy.max(1) as u64);
    Some(u32::try_from(share).unwrap_or(u32::MAX).max(limits::ADAPTIVE_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_connections_share_what_methods_may_run_and_a_quarter_more() {
        let share = |limits: &[u32], busy| share_of_each(limits.iter().copied(), busy);
        assert_eq!(share(&[], 3), None);
        assert_eq!(share(&[80, 20], 0), Some(125));
        assert_eq!(share(&[80, 20], 2), Some(63));
        assert_eq!(share(&[80], 1_000), Some(limits::ADAPTIVE_MIN));
    }

    #[test]
    fn any_number_of_methods_may_be_under_pressure() {
        for (methods, each) in [(600, limits::ADAPTIVE_MAX), (100_000, limits::ADAPTIVE_MAX)] {
            let all = std::iter::repeat_n(each, methods);
            let expected = methods as u64 * u64::from(each) * 125 / 100;
            let expected = u32::try_from(expected).unwrap_or(u32::MAX);
            assert_eq!(share_of_each(all.clone(), 1), Some(expected));
            assert!(share_of_each(all, usize::MAX) == Some(limits::ADAPTIVE_MIN));
        }
    }
}
