//! The last list of a source on disk, for a start while the source is down.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringway_runtime::fs;
use serde::{Deserialize, Serialize};

use crate::client::hosts::{About, Host, HostStatus};
use crate::limits;

/// The content of the file.
#[derive(Serialize, Deserialize)]
struct Content {
    /// The name of the source that has told the list.
    source: String,
    hosts: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    address: String,
    weight: u32,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    zone: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, String>,
}

const DRAINING: &str = "draining";
const UNAVAILABLE: &str = "unavailable";

/// Replaces the file by one with these hosts: after a crash, there is the one or the other.
pub(super) async fn write(path: &Path, source: &str, hosts: &[Host]) -> io::Result<()> {
    let entry = |host: &Host| Entry {
        address: host.address.to_string(),
        weight: host.weight,
        zone: host.about.zone.clone(),
        version: host.about.version.clone(),
        status: match host.status {
            HostStatus::Serving => None,
            HostStatus::Draining => Some(DRAINING.to_owned()),
            HostStatus::Unavailable => Some(UNAVAILABLE.to_owned()),
        },
        metadata: host.about.metadata.clone(),
    };
    let hosts = hosts.iter().map(entry).collect();
    let mut text = serde_json::to_vec(&Content { source: source.to_owned(), hosts })?;
    if text.len() > limits::LAST_KNOWN_BYTES_MAX {
        let why = format!("the list of {} bytes is too long to be kept", text.len());
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    text.push(b'\n');
    fs::write_atomic(path, text).await
}

/// Reads the hosts of this source; entries that are malformed are left out.
///
/// # Errors
/// Fails when there is no such file, or when it has another content.
pub(super) async fn read(path: PathBuf, source: &str) -> io::Result<Vec<Host>> {
    let text = fs::read(path, limits::LAST_KNOWN_BYTES_MAX + 1).await?;
    let content: Content = serde_json::from_slice(&text)?;
    if content.source != source {
        let why = format!("it is the list of {}", content.source);
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    let host = |entry: Entry| {
        let host = Host::new(entry.address).ok()?;
        let (zone, version, metadata) = (entry.zone, entry.version, entry.metadata);
        let status = match entry.status.as_deref() {
            Some(DRAINING) => HostStatus::Draining,
            Some(UNAVAILABLE) => HostStatus::Unavailable,
            _ => HostStatus::Serving,
        };
        let about = Arc::new(About { zone, version, metadata });
        Some(Host { about, ..host.weight(entry.weight).status(status) })
    };
    Ok(content.hosts.into_iter().filter_map(host).collect())
}
