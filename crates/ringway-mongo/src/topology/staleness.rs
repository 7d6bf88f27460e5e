//! How far a secondary lags behind, by the specification "Max Staleness".

use std::time::Duration;

use bson::DateTime;

use super::{SelectionError, ServerDescription, ServerType, Topology, TopologyType};

/// The least lag that can be asked for: below it no secondary could be told apart from an idle one.
const STALENESS_MIN: Duration = Duration::from_secs(90);

/// How often an idle primary writes, so that its secondaries do not look stale.
const IDLE_WRITE_PERIOD: Duration = Duration::from_secs(10);

impl Topology {
    /// Checks a lag that is asked of a replica set.
    pub(super) fn check_staleness(&self, max: Duration) -> Result<(), SelectionError> {
        let is_set = matches!(
            self.kind,
            TopologyType::ReplicaSetNoPrimary | TopologyType::ReplicaSetWithPrimary
        );
        let least = STALENESS_MIN.max(self.heartbeat + IDLE_WRITE_PERIOD);
        match is_set && max < least {
            true => Err(SelectionError::StalenessTooSmall { least }),
            false => Ok(()),
        }
    }

    /// How far a secondary lags behind; `None` if it has not told when it was written to.
    pub(super) fn staleness(&self, secondary: &ServerDescription) -> Option<Duration> {
        let written = millis(secondary.last_write?);
        let primary = self.servers().find(|server| server.kind == ServerType::Primary);
        let lag = match primary {
            // What the primary has written since, and how much later than the primary the secondary was asked.
            Some(primary) => {
                let between = at(secondary) - at(primary);
                between + millis(primary.last_write?) - written
            }
            None => {
                let secondaries =
                    self.servers().filter(|server| server.kind == ServerType::Secondary);
                secondaries.filter_map(|server| server.last_write).map(millis).max()? - written
            }
        };
        let heartbeat = i64::try_from(self.heartbeat.as_millis()).unwrap_or(i64::MAX);
        Some(Duration::from_millis(u64::try_from(lag.saturating_add(heartbeat)).unwrap_or(0)))
    }
}

fn millis(time: DateTime) -> i64 {
    // A server may tell any time; a hundredth of the range leaves room for sums.
    time.timestamp_millis().clamp(i64::MIN / 100, i64::MAX / 100)
}

fn at(server: &ServerDescription) -> i64 {
    i64::try_from(server.updated_at.as_millis()).unwrap_or(i64::MAX / 100)
}
