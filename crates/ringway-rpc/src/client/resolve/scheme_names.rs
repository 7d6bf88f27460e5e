//! Which schemes of addresses are those of sources of hosts.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The schemes of `ringway-discovery`.
const OF_DISCOVERY: [&str; 5] = ["local", "etcd", "etcds", "dns", "file"];

static REGISTERED: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// Makes a scheme known.
pub(super) fn add(scheme: &'static str) {
    registered().insert(scheme);
}

/// Whether `ringway-discovery` resolves addresses of the scheme.
pub(super) fn is_of_discovery(scheme: &str) -> bool {
    OF_DISCOVERY.contains(&scheme)
}

/// The address itself, if its scheme is that of a source of hosts and not that of a server.
pub(crate) fn source_of(address: &str) -> Option<&str> {
    let (scheme, _) = address.split_once("://")?;
    (is_of_discovery(scheme) || registered().contains(scheme)).then_some(address)
}

/// No code of a user runs under the lock, so the content of a poisoned one is sound.
fn registered() -> MutexGuard<'static, BTreeSet<&'static str>> {
    REGISTERED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_servers_are_no_sources() {
        for (address, is_source) in
            [("tcp://a:1", false), ("a:1", false), ("unix:///a", false), ("dns://a:1", true)]
        {
            assert_eq!(source_of(address).is_some(), is_source, "{address}");
        }
    }
}
