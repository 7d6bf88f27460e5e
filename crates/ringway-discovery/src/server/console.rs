//! Who is registered, for the console of the server that holds a registry.

use std::time::Duration;

use bytes::Bytes;
use ringway_rpc::Server;

use super::{Registry, State};
use crate::endpoint::Endpoint;
use crate::limits;
use crate::store::{LeaseId, Store};

const COLUMNS: [&str; 6] = ["key", "address", "lease", "TTL", "renewed", "left"];

impl Registry {
    /// Shows the keys: those first whose lease ends first, and behind them those without a lease.
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
        let Some(lease) = store.lease_times(id) else { continue };
        let left = lease.expires.saturating_sub(now);
        let times = [lease.ttl, lease.ttl.saturating_sub(left), left];
        let [ttl, renewed, left] = times.map(|time| format!("{:.1} s", time.as_secs_f64()));
        let row = |key: String, address| {
            let ago = format!("{renewed} ago");
            [key, address, id.to_string(), ttl.clone(), ago, left.clone()]
        };
        if store.lease_keys(id).next().is_none() {
            rows.push(row("no key".to_owned(), String::new()));
        }
        for key in store.lease_keys(id).take(limits::CONSOLE_KEYS_MAX - rows.len()) {
            let address = address_of(store.get(key).map(|found| found.value));
            rows.push(row(String::from_utf8_lossy(key).into_owned(), address));
        }
    }
    let others = leases.count();
    rows.extend(rows_without_lease(store, limits::CONSOLE_KEYS_MAX.saturating_sub(rows.len())));
    if others > 0 {
        let mut row: [String; COLUMNS.len()] = Default::default();
        row[0] = format!("and those of {others} more leases");
        rows.push(row);
    }
    rows
}

/// The first keys that stay until they are removed, and whether there may be more.
fn rows_without_lease(store: &Store, most: usize) -> Vec<[String; COLUMNS.len()]> {
    let mut has_more = store.len() > limits::CONSOLE_KEYS_SCANNED;
    let mut rows = Vec::new();
    let looked_at = store.first_keys(limits::CONSOLE_KEYS_SCANNED);
    for found in looked_at.filter(|found| found.lease == LeaseId::NONE) {
        if rows.len() == most {
            has_more = true;
            break;
        }
        let mut row: [String; COLUMNS.len()] = Default::default();
        row[0] = String::from_utf8_lossy(&found.key).into_owned();
        row[1] = address_of(Some(found.value));
        row[2] = "none".to_owned();
        rows.push(row);
    }
    if has_more {
        let mut row: [String; COLUMNS.len()] = Default::default();
        row[0] = "and perhaps more without a lease".to_owned();
        rows.push(row);
    }
    rows
}

/// The address of the endpoint that a value is, if it is one.
fn address_of(value: Option<Bytes>) -> String {
    let endpoint = value.and_then(|value| Endpoint::from_json(&value).ok());
    endpoint.map(|endpoint| endpoint.address().to_owned()).unwrap_or_default()
}
