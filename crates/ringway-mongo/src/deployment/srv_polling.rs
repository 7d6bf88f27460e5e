//! The task that looks the servers of a `mongodb+srv://` name up again, as long as they are, or may be, routers.
//!
//! Specification: Polling SRV Records for mongos Discovery.

use std::rc::Weak;
use std::time::Duration;

use ringway_runtime::{JoinHandle, sleep, spawn_named};

use super::Deployment;
use crate::options::SrvSource;

/// The task. It ends when this is dropped, and when the servers turn out to tell of each other by themselves.
pub(super) struct SrvPolling(JoinHandle<()>);

impl SrvPolling {
    pub(super) fn start(
        source: SrvSource,
        heartbeat: Duration,
        deployment: Weak<Deployment>,
    ) -> Self {
        Self(spawn_named("mongo servers in DNS", poll(source, heartbeat, deployment)))
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

async fn poll(source: SrvSource, heartbeat: Duration, deployment: Weak<Deployment>) {
    let mut pause = source.valid_for.max(source.period_min);
    loop {
        sleep(pause).await;
        if !deployment.upgrade().is_some_and(|it| it.topology.borrow().follows_dns()) {
            return;
        }
        let found = source.look_up().await;
        let Some(deployment) = deployment.upgrade() else { return };
        pause = match found {
            Ok((hosts, valid_for)) if !hosts.is_empty() => {
                deployment.topology.borrow_mut().rescan(&hosts, source.servers_max());
                deployment.follow();
                valid_for.max(source.period_min)
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
