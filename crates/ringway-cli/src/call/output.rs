//! Prints replies.

use std::io::{self, IsTerminal, Write};

use bytes::Bytes;

use super::transcode::Transcoder;
use crate::foreign;

/// Standard output.
pub(super) struct Output {
    /// Replies are written one after the other as they came.
    pub(super) is_binary: bool,
    /// Replies are escaped, since a terminal would obey the server's control characters.
    is_terminal: bool,
}

impl Output {
    pub(super) fn new(is_binary: bool) -> Self {
        Self { is_binary, is_terminal: io::stdout().is_terminal() }
    }

    /// # Errors
    /// A reply is not of its type, or the output cannot be written.
    pub(super) fn print(
        &self,
        transcoder: &Transcoder,
        reply: &Bytes,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let mut out = io::stdout();
        out.write_all(&self.text(transcoder, reply)?)?;
        out.flush()?;
        Ok(())
    }

    fn text(&self, transcoder: &Transcoder, reply: &Bytes) -> Result<Vec<u8>, String> {
        let mut text = match self.is_binary {
            true => reply.to_vec(),
            false => transcoder.reply(reply)?,
        };
        if self.is_terminal {
            text = foreign::printable_lines(&String::from_utf8_lossy(&text)).into_owned().into();
        }
        if !self.is_binary {
            text.push(b'\n');
        }
        Ok(text)
    }
}
