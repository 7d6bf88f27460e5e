//! The task that looks the servers of a `mongodb+srv://` name up again, as long as they are, or may be, routers.
//!
//! Specification: Polling SRV Records for mongos Discovery.

use std::time::Duration;

use ringway_runtime::{JoinHandle, sleep, spawn_named};

use crate::srv_source::SrvSource;
use crate::uri::HostAddress;

/// The task. It ends when this is dropped, and when the servers turn out to tell of each other by themselves.
pub(super) struct SrvPolling(JoinHandle<()>);

impl SrvPolling {
    /// Begins to poll as long as `is_followed`, and gives `found` what DNS lists and the most servers that are taken.
    pub(super) fn start(
        source: SrvSource,
        heartbeat: Duration,
        is_followed: impl Fn() -> bool + 'static,
        found: impl Fn(&[HostAddress], usize) + 'static,
    ) -> Self {
        Self(spawn_named("mongo servers in DNS", poll(source, heartbeat, is_followed, found)))
    }
}

#[cfg(test)]
impl SrvPolling {
    pub(super) fn has_ended(&self) -> bool {
        self.0.is_finished()
    }
}

impl Drop for SrvPolling {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn poll(
    source: SrvSource,
    heartbeat: Duration,
    is_followed: impl Fn() -> bool,
    found: impl Fn(&[HostAddress], usize),
) {
    let mut pause = source.first_pause();
    loop {
        sleep(pause).await;
        if !is_followed() {
            return;
        }
        pause = match source.look_up().await {
            Ok((hosts, valid_for)) if !hosts.is_empty() => {
                found(&hosts, source.servers_max());
                source.pause(valid_for)
            }
            // "MUST NOT change the topology", and is to look again sooner.
            Ok(_) => {
                tracing::warn!("DNS lists no server in the same domain any more; those known stay");
                heartbeat
            }
            Err(error) => {
                tracing::warn!(%error, "the servers that are known stay");
                heartbeat
            }
        };
    }
}
