//! One member of a cluster, and whether it is worth asking.

use std::time::{Duration, Instant};

use ringway_rpc::{CallOptions, Client, ServerAddress, Status};

use super::config::EtcdConfig;
use crate::limits;

/// One member.
pub(super) struct Member {
    address: ServerAddress,
    /// What it is called in errors: its address without the scheme.
    name: String,
    /// Made for the first request, and anew after a failure: a connection to a member that is cut off stays open.
    client: Option<Client>,
    /// Failures since the last answer.
    failures: u32,
    retry_at: Option<Instant>,
    /// Counts its clients, so that requests of one client that fail together count as one failure.
    clients: u64,
}

impl Member {
    pub(super) fn new(address: ServerAddress) -> Self {
        let text = address.to_string();
        let name = text.split_once("://").map_or(text.as_str(), |(_, name)| name).to_owned();
        Self { address, name, client: None, failures: 0, retry_at: None, clients: 0 }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// When it may be asked.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    /// Whether it has failed since its last answer.
    pub(super) fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// A client of this member alone, and its number.
    pub(super) fn client(&mut self, config: &EtcdConfig) -> Result<(Client, u64), Status> {
        if let Some(client) = &self.client {
            return Ok((client.clone(), self.clients));
        }
        let mut builder = Client::builder()
            .address(self.address.clone())
            .connect_timeout(config.connect_timeout)
            .message_bytes_max(limits::RESPONSE_BYTES_MAX)
            .options(CallOptions::new());
        if let Some(tls) = &config.tls {
            builder = builder.tls(tls.clone());
        }
        let client = builder.build()?;
        self.client = Some(client.clone());
        self.clients += 1;
        Ok((client, self.clients))
    }

    /// Notes that the client with this number got an answer.
    pub(super) fn worked(&mut self, number: u64) {
        if number == self.clients {
            (self.failures, self.retry_at) = (0, None);
        }
    }

    /// Notes that the client with this number has failed. Returns it, to be dropped outside of the lock.
    pub(super) fn failed(&mut self, number: u64, now: Instant) -> Option<Client> {
        if number != self.clients || self.client.is_none() {
            return None;
        }
        self.retry_at = Some(now + back_off(self.failures, limits::MEMBER_RETRY_MAX));
        self.failures = self.failures.saturating_add(1);
        self.client.take()
    }
}

/// The wait after a failure with `failures` before it: it doubles up to `most`, and up to half of it is taken off at
/// random, so that many clients do not come back in step.
pub(super) fn back_off(failures: u32, most: Duration) -> Duration {
    let doubled = limits::MEMBER_RETRY_FIRST.saturating_mul(2_u32.saturating_pow(failures));
    doubled.min(most).mul_f64(1.0 - fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_and_are_bounded() {
        for (failures, most) in [(0, 100), (1, 200), (3, 800), (9, 2_000), (u32::MAX, 2_000)] {
            let wait = back_off(failures, Duration::from_secs(2)).as_millis();
            assert!((most / 2..=most).contains(&wait), "{failures}: {wait} ms");
        }
    }
}
