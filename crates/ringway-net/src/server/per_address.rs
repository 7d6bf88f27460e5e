//! The number of connections per client address.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::limits;

/// Counts connections by the prefix of their addresses. It is sharded, so that cores which accept
/// at the same time seldom wait for each other.
pub(crate) struct PerAddress {
    parts: [Mutex<HashMap<IpAddr, usize>>; limits::PER_ADDRESS_PARTS],
    hasher: RandomState,
}

impl PerAddress {
    /// Counts a connection; returns false if there are `max` already.
    pub(crate) fn add(&self, prefix: IpAddr, max: usize) -> bool {
        let mut part = self.part(&prefix);
        let count = part.get(&prefix).copied().unwrap_or(0);
        if count < max {
            part.insert(prefix, count + 1);
        }
        count < max
    }

    /// Counts a connection less; an address without connections takes no memory.
    pub(crate) fn remove(&self, prefix: &IpAddr) {
        let mut part = self.part(prefix);
        match part.get_mut(prefix) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(part.remove(prefix)),
        }
    }

    fn part(&self, prefix: &IpAddr) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        let at = self.hasher.hash_one(prefix) as usize % self.parts.len();
        self.parts[at].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for PerAddress {
    fn default() -> Self {
        Self { parts: std::array::from_fn(|_| Mutex::default()), hasher: RandomState::new() }
    }
}

/// Returns the part of an address that is counted: all of an IPv4 address, the leading bits of an
/// IPv6 address, since a single customer has very many of those.
pub(crate) fn prefix(address: IpAddr, ipv6_prefix_len: u8) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let rest = u128::BITS - u32::from(ipv6_prefix_len).min(u128::BITS);
            let mask = u128::MAX.checked_shl(rest).unwrap_or(0);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address() {
        for (address, len, expected) in [
            ("2001:db8:1:2:3:4:5:6", 64, "2001:db8:1:2::"),
            ("2001:db8:1:2:3:4:5:6", 128, "2001:db8:1:2:3:4:5:6"),
            ("2001:db8:1:2:3:4:5:6", 0, "::"),
            ("::ffff:192.0.2.1", 64, "192.0.2.1"),
            ("192.0.2.1", 64, "192.0.2.1"),
        ] {
            assert_eq!(prefix(ip(address), len), ip(expected), "{address}/{len}");
        }
    }

    #[test]
    fn addresses_without_connections_take_no_memory() {
        let counts = PerAddress::default();
        let here = ip("192.0.2.1");
        assert!(counts.add(here, 2) && counts.add(here, 2) && !counts.add(here, 2));
        counts.remove(&here);
        assert!(counts.add(here, 2));
        counts.remove(&here);
        counts.remove(&here);
        assert!(counts.part(&here).is_empty());
        assert!(!counts.add(here, 0));
        assert!(counts.part(&here).is_empty());
    }
}
