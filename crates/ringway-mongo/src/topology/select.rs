//! Which servers an operation may use, by the specification "Server Selection".

use std::fmt;
use std::time::Duration;

use super::{ServerDescription, ServerType, Topology, TopologyType};
use crate::uri::{HostAddress, ReadMode, ReadPreference, TagSet};

/// What an operation needs.
#[derive(Debug, Clone, Copy)]
pub enum Selection<'a> {
    /// A server that takes writes.
    Write,
    /// A server that suits a read preference.
    Read(&'a ReadPreference),
}

/// Why no server can ever suit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SelectionError {
    /// The longest lag of the read preference is too small to be measured.
    StalenessTooSmall {
        /// The least that can be asked for with this client's heartbeat.
        least: Duration,
    },
    /// A server speaks no version of the wire protocol that this client does.
    Incompatible(String),
}

impl fmt::Display for SelectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StalenessTooSmall { least } => {
                write!(f, "maxStalenessSeconds must be at least {} here", least.as_secs())
            }
            Self::Incompatible(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for SelectionError {}

impl Topology {
    /// Returns the servers that suit, whatever their distance.
    ///
    /// # Errors
    /// No server can ever suit; an empty list says that none does now.
    pub fn suitable(
        &self,
        selection: Selection<'_>,
    ) -> Result<Vec<&ServerDescription>, SelectionError> {
        self.suitable_but(selection, &[])
    }

    /// Returns the servers that suit and are none of `avoided`; all that suit if there is no other.
    ///
    /// # Errors
    /// As [`suitable`](Self::suitable).
    pub fn suitable_but(
        &self,
        selection: Selection<'_>,
        avoided: &[HostAddress],
    ) -> Result<Vec<&ServerDescription>, SelectionError> {
        if let Some(reason) = self.incompatibility() {
            return Err(SelectionError::Incompatible(reason));
        }
        let max_staleness = match selection {
            Selection::Read(preference) => preference.max_staleness,
            Selection::Write => None,
        };
        if let Some(max) = max_staleness {
            self.check_staleness(max)?;
        }
        let others = self.of_all(selection, avoided);
        Ok(match others.is_empty() && !avoided.is_empty() {
            true => self.of_all(selection, &[]),
            false => others,
        })
    }

    fn of_all(&self, selection: Selection<'_>, avoided: &[HostAddress]) -> Vec<&ServerDescription> {
        let is_other = |server: &&ServerDescription| !avoided.contains(&server.address);
        let of_kind = |kind| {
            self.servers().filter(is_other).filter(|server| server.kind == kind).collect::<Vec<_>>()
        };
        match (self.kind, selection) {
            (TopologyType::Unknown, _) => Vec::new(),
            (TopologyType::Single | TopologyType::Sharded | TopologyType::LoadBalanced, _) => {
                let known = self.servers().filter(|server| server.kind != ServerType::Unknown);
                known.filter(is_other).collect()
            }
            (_, Selection::Write) => of_kind(ServerType::Primary),
            (_, Selection::Read(preference)) => self.members(preference, &of_kind),
        }
    }

    /// Returns those of the suitable servers that are hardly farther away than the nearest.
    ///
    /// # Errors
    /// As [`suitable`](Self::suitable).
    pub fn nearest(
        &self,
        selection: Selection<'_>,
        threshold: Duration,
    ) -> Result<Vec<&ServerDescription>, SelectionError> {
        self.nearest_but(selection, &[], threshold)
    }

    /// The same of [`suitable_but`](Self::suitable_but).
    ///
    /// # Errors
    /// As [`suitable`](Self::suitable).
    pub fn nearest_but(
        &self,
        selection: Selection<'_>,
        avoided: &[HostAddress],
        threshold: Duration,
    ) -> Result<Vec<&ServerDescription>, SelectionError> {
        let mut servers = self.suitable_but(selection, avoided)?;
        let Some(least) = servers.iter().filter_map(|server| server.round_trip).min() else {
            return Ok(servers);
        };
        let most = least.saturating_add(threshold);
        servers.retain(|server| server.round_trip.is_none_or(|time| time <= most));
        Ok(servers)
    }

    fn members<'a>(
        &'a self,
        preference: &ReadPreference,
        of_kind: &dyn Fn(ServerType) -> Vec<&'a ServerDescription>,
    ) -> Vec<&'a ServerDescription> {
        let primary = || of_kind(ServerType::Primary);
        let secondaries = || self.filtered(of_kind(ServerType::Secondary), preference);
        let or_else = |first: Vec<_>, then: &dyn Fn() -> Vec<_>| match first.is_empty() {
            true => then(),
            false => first,
        };
        match preference.mode {
            ReadMode::Primary => primary(),
            ReadMode::PrimaryPreferred => or_else(primary(), &secondaries),
            ReadMode::Secondary => secondaries(),
            ReadMode::SecondaryPreferred => or_else(secondaries(), &primary),
            ReadMode::Nearest => {
                let all = primary().into_iter().chain(of_kind(ServerType::Secondary));
                self.filtered(all.collect(), preference)
            }
        }
    }

    /// Leaves those that are not too stale and have the tags of the first set that any of them has.
    fn filtered<'a>(
        &'a self,
        servers: Vec<&'a ServerDescription>,
        preference: &ReadPreference,
    ) -> Vec<&'a ServerDescription> {
        let is_fresh = |server: &&ServerDescription| match (preference.max_staleness, server.kind) {
            (Some(max), ServerType::Secondary) => {
                self.staleness(server).is_some_and(|lag| lag <= max)
            }
            _ => true,
        };
        let fresh: Vec<_> = servers.into_iter().filter(is_fresh).collect();
        if preference.tag_sets.is_empty() {
            return fresh;
        }
        let having = |tags: &TagSet| -> Vec<_> {
            fresh.iter().copied().filter(|server| has_all(server, tags)).collect()
        };
        preference.tag_sets.iter().map(having).find(|found| !found.is_empty()).unwrap_or_default()
    }
}

fn has_all(server: &ServerDescription, tags: &TagSet) -> bool {
    tags.iter().all(|(name, value)| server.tags.get(name) == Some(value))
}
