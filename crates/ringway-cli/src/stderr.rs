//! Messages for people on standard error.

use std::fmt::Display;
use std::io::Write;

use crate::foreign::printable_lines;

/// Prints `text` on its own line. Standard error may be closed, as behind `2>&1 | head`; then nobody reads it,
/// which is no reason to end.
pub(crate) fn say(text: impl Display) {
    _ = writeln!(std::io::stderr(), "{text}");
}

/// Prints an error after the tool's name. Parts of it may be foreign text.
pub(crate) fn complain(error: impl Display) {
    say(format_args!("ringway: {}", printable_lines(&error.to_string())));
}
