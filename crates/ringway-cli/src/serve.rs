//! `ringway serve`: an echo or discard server until SIGINT or SIGTERM.

use std::error::Error;

use crate::args::ServeConfig;

/// Runs the server to the end of its drain.
///
/// # Errors
/// Always, for now: this part of the tool is not built yet.
pub(crate) fn run(config: &ServeConfig) -> Result<(), Box<dyn Error>> {
    Err(format!("serving {:?} is not built yet", config.service).into())
}
