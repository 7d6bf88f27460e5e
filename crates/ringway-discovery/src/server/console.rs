//! Who is registered, for the console of the server that holds a registry.

use std::time::Duration;

use ringway_rpc::Server;

use super::{Registry, State};
use crate::endpoint::Endpoint;
use crate::limits;

const COLUMNS: [&str; 6] = ["key", "address", "lease", "TTL", "renewed", "left"];

impl Registry {
    /// Shows the keys that have a lease, those first whose lease ends first.
    pub(super) fn show_on(&self, server: Server) -> Server {
        let registry = self.clone();
        server.console_table("Registered here", COLUMNS, move || {
            let now = registry.now();
            rows(&registry.state(), now)
        })
    }
}

fn rows(state: &State, now: Duration) -> Vec<[String; COLUMNS.len()]> {
    let store = &state.store;
    let mut rows = Vec::new();
    let mut leases = store.leases();
    while rows.len() < limits::CONSOLE_KEYS_MAX
        && let Some(id) = leases.next()
    {
        let Ok(lease) = store.lease(id) else { continue };
        let left = lease.expires.saturating_sub(now);
        let times = [lease.ttl, lease.ttl.saturating_sub(left), left];
        let [ttl, renewed, left] = times.map(|time| format!("{:.1} s", time.as_secs_f64()));
        let row = |key: String, address| {
            let ago = format!("{renewed} ago");
            [key, address, id.to_string(), ttl.clone(), ago, left.clone()]
        };
        if lease.keys.is_empty() {
            rows.push(row("no key".to_owned(), String::new()));
        }
        for key in lease.keys.iter().take(limits::CONSOLE_KEYS_MAX - rows.len()) {
            let endpoint = store.get(key).and_then(|found| Endpoint::from_json(&found.value).ok());
            let address = endpoint.map(|endpoint| endpoint.address().to_owned());
            let key = String::from_utf8_lossy(key).into_owned();
            rows.push(row(key, address.unwrap_or_default()));
        }
    }
    let others = leases.count();
    if others > 0 {
        let mut row: [String; COLUMNS.len()] = Default::default();
        row[0] = format!("and those of {others} more leases");
        rows.push(row);
    }
    rows
}
