//! Help, versions and errors: commands that run nothing.

use std::io::{self, Write};

use clap::builder::StyledStr;

/// A text to print instead of running a command.
#[derive(Debug)]
pub(crate) enum Answer {
    /// An error of the arguments, the version, or the help.
    Clap(clap::Error),
    /// The help of one suite.
    Help(StyledStr),
}

impl Answer {
    /// Prints the text to the right output, and returns the exit status.
    ///
    /// # Errors
    /// Writing the output fails.
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
