//! The version of a server's view of its deployment.

use bson::RawDocument;
use bson::oid::ObjectId;

/// The version of a server's view of its deployment; it grows while the process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopologyVersion {
    /// The process.
    pub process: ObjectId,
    /// The number of changes.
    pub counter: i64,
}

impl TopologyVersion {
    /// Reads the field `topologyVersion` of a reply, if it has one.
    pub fn of(reply: &RawDocument) -> Option<Self> {
        let version = reply.get_document("topologyVersion").ok()?;
        let process = version.get_object_id("processId").ok()?;
        Some(Self { process, counter: version.get_i64("counter").ok()? })
    }

    /// Whether this one is later than `other`. Versions of different processes cannot be compared.
    pub fn is_newer_than(&self, other: Option<&Self>) -> bool {
        other.is_some_and(|other| self.process == other.process && self.counter > other.counter)
    }

    /// Whether an error that came with `other` says nothing new.
    pub(super) fn covers(&self, other: Option<&Self>) -> bool {
        other.is_some_and(|other| self.process == other.process && self.counter >= other.counter)
    }
}
