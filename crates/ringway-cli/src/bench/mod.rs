//! `ringway bench`: runs suites and collects their rows.

use std::error::Error;

use crate::args::{BenchConfig, Cores};
use crate::report::Report;

/// Runs every suite of `config` on a process that may use the cores `allowed`.
///
/// # Errors
/// Always, for now: this part of the tool is not built yet.
pub(crate) fn run(config: &BenchConfig, _allowed: &Cores) -> Result<Report, Box<dyn Error>> {
    Err(format!(
        "the bench of {} suites is not built yet",
        config.suites.len()
    )
    .into())
}
