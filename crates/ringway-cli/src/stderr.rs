//! Words for people, on standard error.

use std::fmt::Display;
use std::io::Write;

use crate::foreign::printable_lines;

/// Says `text` on a line of its own. Standard error may be closed, as behind `2>&1 | head`: then nobody listens,
/// and that is no reason to end.
pub(crate) fn say(text: impl Display) {
    _ = writeln!(std::io::stderr(), "{text}");
}

/// Says what went wrong, by the name of the tool. Others may have had their say in it.
pub(crate) fn complain(error: impl Display) {
    say(format_args!("ringway: {}", printable_lines(&error.to_string())));
}
