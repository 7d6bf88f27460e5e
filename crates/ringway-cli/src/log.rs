//! The log of the tool: warnings and errors on standard error, or what `RUST_LOG` asks for.

use std::io;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::stderr;

/// Shows events from now on. `RUST_LOG` is a list of levels, each for all events or for those of a module:
/// `debug`, or `warn,ringway_rpc=debug`.
pub(crate) fn install() {
    let asked = std::env::var("RUST_LOG").ok().filter(|text| !text.is_empty());
    let levels = asked.map(|text| text.parse::<Targets>()).transpose().unwrap_or_else(|error| {
        stderr::complain(format_args!(
            "RUST_LOG is not understood, so warnings are shown: {error}"
        ));
        None
    });
    let levels = levels.unwrap_or_else(|| Targets::new().with_default(LevelFilter::WARN));
    // Standard error may be closed, as behind `2>&1 | head`; then nobody reads it, which is no reason to complain there.
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).log_internal_errors(false);
    tracing_subscriber::registry().with(levels).with(lines.with_writer(io::stderr)).init();
}
