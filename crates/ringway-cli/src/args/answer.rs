//! Help, versions and errors: answers that need no work.

use std::io::{self, Write};

use clap::builder::StyledStr;

/// A text that is printed instead of running a command.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A fault of the arguments; or the version or the help that was asked for.
    Clap(clap::Error),
    /// The help that was asked for, of one suite.
    Help(StyledStr),
}

impl Answer {
    /// Prints it where it belongs, and returns the exit status.
    ///
    /// # Errors
    /// That of the output.
    pub(crate) fn print(&self) -> io::Result<u8> {
        match self {
            Self::Clap(error) => {
                error.print()?;
                Ok(u8::try_from(error.exit_code()).unwrap_or(u8::MAX))
            }
            Self::Help(text) => {
                anstream::stdout().write_all(text.ansi().to_string().as_bytes())?;
                Ok(0)
            }
        }
    }
}

impl From<clap::Error> for Answer {
    fn from(error: clap::Error) -> Self {
        Self::Clap(error)
    }
}

#[cfg(test)]
impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Clap(error) => error.fmt(f),
            Self::Help(text) => text.fmt(f),
        }
    }
}
