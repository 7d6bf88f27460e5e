//! Open loops at rising rates, until the server no longer keeps up.

use super::plan::Setting;
use crate::report::Row;

/// The share of the due calls below which a ladder ends: at higher rates calls only queue, and each further rung
/// takes time and shows the same.
const BENT_BELOW: f64 = 0.9;

/// The ladders that have ended.
#[derive(Default)]
pub(super) struct Ladders {
    bent: Vec<Setting>,
}

impl Ladders {
    /// Whether a setting is a rung above one that no contender has kept up with.
    pub(super) fn is_above_the_bend(&self, setting: &Setting) -> bool {
        setting.ladder().is_some_and(|ladder| self.bent.contains(&ladder))
    }

    /// Records how well the contenders of a setting have kept up.
    pub(super) fn note(&mut self, setting: &Setting, rows: &[Row]) {
        let is_short = |row: &Row| row.open_loop.is_none_or(|loops| loops.achieved < BENT_BELOW);
        if let Some(ladder) = setting.ladder()
            && rows.iter().all(is_short)
        {
            self.bent.push(ladder);
        }
    }
}
