//! Which of two primaries is the newer one.

use bson::oid::ObjectId;

use super::ServerDescription;

/// The first version of the wire protocol (MongoDB 6.0) whose elections alone decide; before, the version of the
/// configuration came first.
const ELECTIONS_DECIDE: i32 = 17;

/// The newest primary that was seen.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Election {
    pub(super) id: Option<ObjectId>,
    pub(super) set_version: Option<i32>,
}

impl Election {
    /// Takes a primary, unless it is older than the newest one. Returns whether it was taken. `None` is older than
    /// anything.
    pub(super) fn accept(&mut self, primary: &ServerDescription) -> bool {
        let (id, set_version) = (primary.election_id, primary.set_version);
        if primary.max_wire_version >= ELECTIONS_DECIDE {
            let is_newer = (id, set_version) >= (self.id, self.set_version);
            if is_newer {
                *self = Self { id, set_version };
            }
            return is_newer;
        }
        if let (Some(_), Some(_)) = (id, set_version) {
            let knows_both = self.id.is_some() && self.set_version.is_some();
            if knows_both && (self.set_version, self.id) > (set_version, id) {
                return false;
            }
            self.id = id;
        }
        self.set_version = self.set_version.max(set_version);
        true
    }
}
