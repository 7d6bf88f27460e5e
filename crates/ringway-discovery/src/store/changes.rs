//! What watches see: the changes of a range, from a revision on.

use super::{Change, Compacted, FoundChange, FoundKey, KeyRange, Logged, Revision, Store};
use crate::limits;

/// Changes that a watch has not seen.
#[derive(Debug)]
pub struct Changes {
    /// The changes in order; those of one revision come together.
    pub changes: Vec<Change>,
    /// The revision to ask for next.
    pub next: Revision,
}

impl Store {
    /// The changes of a range from a revision on, at most so many that the store is not held for long.
    ///
    /// If there are none, `next` is the revision that comes next, or that was asked for if it is higher.
    ///
    /// # Errors
    /// Fails if the first revision is compacted.
    pub fn changes(&self, range: &KeyRange, from: Revision) -> Result<Changes, Compacted> {
        self.changes_until(range, from, self.revision)
    }

    /// The [changes](Self::changes) up to a revision.
    ///
    /// # Errors
    /// Fails if the first revision is compacted.
    pub fn changes_until(
        &self,
        range: &KeyRange,
        from: Revision,
        until: Revision,
    ) -> Result<Changes, Compacted> {
        let mut changes = Vec::new();
        let visit = |change: FoundChange<'_>| changes.push(change.to_owned());
        let next = self.visit_changes(range, from, until, visit)?;
        Ok(Changes { changes, next })
    }

    /// Shows these changes where they are. Returns the revision to ask for next.
    ///
    /// # Errors
    /// Fails if the first revision is compacted.
    pub(crate) fn visit_changes(
        &self,
        range: &KeyRange,
        from: Revision,
        until: Revision,
        mut visit: impl FnMut(FoundChange<'_>),
    ) -> Result<Revision, Compacted> {
        if from < self.compacted {
            return Err(Compacted { first: self.compacted });
        }
        let (mut found, mut bytes) = (0, 0);
        let begin = self.log.partition_point(|logged| logged.revision < from);
        let mut last = from;
        for (scanned, logged) in self.log.range(begin..).enumerate() {
            if logged.revision > until {
                break;
            }
            let is_new = logged.revision != last;
            if is_new
                && (found >= limits::WATCH_CHANGES_MAX
                    || bytes >= limits::WATCH_BYTES_MAX
                    || scanned >= limits::WATCH_SCANNED_MAX)
            {
                return Ok(logged.revision);
            }
            last = logged.revision;
            if range.contains(&logged.key)
                && let Some(change) = self.change_of(logged)
            {
                bytes += logged.bytes + change.before.map_or(0, FoundKey::content_len);
                found += 1;
                visit(change);
            }
        }
        Ok(from.max(until.next()))
    }

    fn change_of(&self, logged: &Logged) -> Option<FoundChange<'_>> {
        let (key, history) = self.keys.get_key_value(&logged.key)?;
        let mut change = FoundChange::of(key, history, logged.revision)?;
        if logged.revision <= self.compacted {
            change.before = None; // it is there as long as something else needs it, and nobody can read it
        }
        Some(change)
    }

    /// The keys that have changed from a revision on.
    pub fn changed_keys(&self, from: Revision) -> impl Iterator<Item = &[u8]> {
        self.log
            .iter()
            .rev()
            .take_while(move |logged| logged.revision >= from)
            .map(|logged| &*logged.key)
    }
}
