//! Open loops at one rate after the other, until the server no longer keeps up.

use super::plan::Setting;
use crate::report::Row;

/// The share of what was due below which a ladder has bent: behind it calls only queue, and each further rung
/// takes its time and shows the same.
const BENT_BELOW: f64 = 0.9;

/// The ladders that have bent.
#[derive(Default)]
pub(super) struct Ladders {
    bent: Vec<Setting>,
}

impl Ladders {
    /// Whether a setting is a rung above one that none of its contenders has kept up with.
    pub(super) fn is_above_the_bend(&self, setting: &Setting) -> bool {
        setting.ladder().is_some_and(|ladder| self.bent.contains(&ladder))
    }

    /// Records how the contenders of a setting have kept up.
    pub(super) fn note(&mut self, setting: &Setting, rows: &[Row]) {
        let is_short = |row: &Row| row.open_loop.is_none_or(|loops| loops.achieved < BENT_BELOW);
        if let Some(ladder) = setting.ladder()
            && rows.iter().all(is_short)
        {
            self.bent.push(ladder);
        }
    }
}
