//! The terminal or file that receives the report for people.

use std::io::{self, IsTerminal};

use anstyle::{AnsiColor, Style};

/// The width and abilities of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Screen {
    /// Characters per line; `None` for no limit.
    pub(super) columns: Option<usize>,
    /// Whether the output is a terminal.
    pub(super) is_terminal: bool,
    pub(super) is_coloured: bool,
}

impl Screen {
    /// Returns standard output as a screen. `is_wide` lifts the limit of the width.
    pub(crate) fn of_stdout(is_wide: bool) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let is_refused = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let columns = if is_terminal { terminal_columns() } else { COLUMNS_MAX };
        Self {
            columns: (!is_wide).then_some(columns),
            is_terminal,
            is_coloured: is_terminal && !is_refused("NO_COLOR") && !is_dumb,
        }
    }

    /// Wraps `text` into lines that fit and indents those after the first.
    pub(super) fn wrapped(&self, text: &str) -> Vec<String> {
        let Some(columns) = self.columns else {
            return vec![text.to_owned()];
        };
        let options = textwrap::Options::new(columns)
            .subsequent_indent("  ")
            .break_words(false)
            .word_splitter(textwrap::WordSplitter::NoHyphenation);
        textwrap::wrap(text, options).into_iter().map(|line| line.into_owned()).collect()
    }

    pub(super) fn bold(&self, text: &str) -> String {
        self.styled(Style::new().bold(), text)
    }

    /// Wraps a note into lines that fit. A command stays in one line, so that it can be pasted.
    pub(super) fn note(&self, note: &str) -> String {
        let lines = match note.starts_with("command: ") {
            true => vec![note.to_owned()],
            false => self.wrapped(note),
        };
        let mut text = lines.join("\n") + "\n";
        for (word, colour) in [("error:", AnsiColor::Red), ("warning:", AnsiColor::Yellow)] {
            if let Some(rest) = text.strip_prefix(word) {
                text = self.styled(Style::new().bold().fg_color(Some(colour.into())), word) + rest;
            }
        }
        text
    }

    fn styled(&self, style: Style, text: &str) -> String {
        match self.is_coloured {
            true => format!("{style}{text}{style:#}"),
            false => text.to_owned(),
        }
    }
}

/// Returns the terminal's width, clamped to a readable range.
fn terminal_columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stdout()).map_or(0, |size| size.ws_col.into());
    let told = || std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let columns = if size > 0 { size } else { told().unwrap_or(COLUMNS_MAX) };
    columns.clamp(COLUMNS_MIN, COLUMNS_MAX)
}

/// The width of a page; longer lines are hard to read.
const COLUMNS_MAX: usize = 100;
/// Room for the columns that identify a row, and one more.
const COLUMNS_MIN: usize = 60;

#[cfg(test)]
impl Screen {
    /// A screen for a file.
    pub(super) const PLAIN: Self =
        Self { columns: Some(COLUMNS_MAX), is_terminal: false, is_coloured: false };
    pub(super) const WIDE: Self = Self { columns: None, ..Self::PLAIN };
    /// A screen for a terminal with colours.
    pub(super) const TERMINAL: Self = Self { is_terminal: true, is_coloured: true, ..Self::PLAIN };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_wrapped_but_for_the_command() {
        let narrow = Screen { columns: Some(20), ..Screen::PLAIN };
        assert_eq!(narrow.note("machine: a b c d e f g h"), "machine: a b c d e f\n  g h\n");
        let command = "command: ringway bench --addr tcp://127.0.0.1:7001\n";
        assert_eq!(narrow.note(command.trim_end()), command);
        let long = "client: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-b";
        assert_eq!(narrow.note(long), "client:\n  aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-b\n");
        assert_eq!(Screen::WIDE.note(long), format!("{long}\n"));
    }

    #[test]
    fn what_is_wrong_has_a_colour_where_there_are_colours() {
        assert_eq!(Screen::TERMINAL.note("error: x"), "\x1b[1m\x1b[31merror:\x1b[0m x\n");
        assert_eq!(Screen::PLAIN.note("error: x"), "error: x\n");
    }
}
