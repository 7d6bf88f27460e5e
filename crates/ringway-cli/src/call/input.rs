//! Reads requests from the command line or standard input.

use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::sync::{Arc, OnceLock};
use std::thread;

use bytes::Bytes;
use ringway_rpc::Sink;

use super::transcode::Transcoder;
use crate::limits::CALL_MESSAGE_BYTES_MAX;

pub(super) enum Input {
    Words(String),
    Standard,
}

impl Input {
    /// `-` stands for standard input.
    pub(super) fn of(message: &str) -> Self {
        match message {
            "-" => Self::Standard,
            words => Self::Words(words.to_owned()),
        }
    }

    fn reader(self) -> Box<dyn Read + Send> {
        match self {
            Self::Words(words) => Box::new(Cursor::new(words)),
            Self::Standard => Box::new(io::stdin()),
        }
    }

    /// Reads all of it.
    ///
    /// # Errors
    /// It cannot be read, or is longer than any message.
    pub(super) fn whole(self) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        self.reader()
            .take(CALL_MESSAGE_BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| unreadable(&error))?;
        match bytes.len() as u64 > CALL_MESSAGE_BYTES_MAX {
            true => Err(format!("the request is longer than {CALL_MESSAGE_BYTES_MAX} bytes")),
            false => Ok(bytes),
        }
    }

    /// Reads it line by line.
    fn lines(self) -> Lines {
        Lines { input: BufReader::new(self.reader()), number: 0 }
    }
}

/// Returns the whole message that a command line names, `-` for standard input, without the end of its last line
/// unless it `is_binary`.
///
/// # Errors
/// It cannot be read, or is longer than any message.
pub(crate) fn whole_message(message: &str, is_binary: bool) -> Result<Vec<u8>, String> {
    let bytes = Input::of(message).whole()?;
    Ok(if is_binary { bytes } else { without_end(bytes) })
}

struct Lines {
    input: BufReader<Box<dyn Read + Send>>,
    /// The number of the line read last.
    number: u64,
}

impl Lines {
    /// Returns the next line without its end.
    fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        let mut line = Vec::new();
        let mut bounded = (&mut self.input).take(CALL_MESSAGE_BYTES_MAX + 1);
        let len = bounded.read_until(b'\n', &mut line).map_err(|error| unreadable(&error))?;
        if len == 0 {
            return Ok(None);
        }
        self.number += 1;
        if len as u64 > CALL_MESSAGE_BYTES_MAX {
            let number = self.number;
            return Err(format!("line {number} is longer than {CALL_MESSAGE_BYTES_MAX} bytes"));
        }
        Ok(Some(without_end(line)))
    }
}

/// Removes the line end that the shell or an editor has added.
pub(super) fn without_end(mut line: Vec<u8>) -> Vec<u8> {
    if line.last() == Some(&b'\n') {
        line.pop();
        line.pop_if(|last| *last == b'\r');
    }
    line
}

fn unreadable(error: &io::Error) -> String {
    format!("the request cannot be read: {error}")
}

/// How the input is split into a stream of requests.
pub(super) enum Shape {
    /// Each line is a message in the form for people.
    Lines(Arc<Transcoder>),
    /// All of it is one raw message.
    Whole,
}

/// Sends messages while reading them, on its own thread, so that replies are printed meanwhile and a call
/// that has ended ends the program, however long the input is. An error of the input is stored in
/// the cell before it cancels the call.
///
/// # Errors
/// The system grants no thread.
pub(super) fn send(
    input: Input,
    shape: Shape,
    mut sink: Sink<Bytes>,
) -> io::Result<Arc<OnceLock<String>>> {
    let wrong = Arc::new(OnceLock::new());
    let told = Arc::clone(&wrong);
    let sending = async move {
        match send_all(input, shape, &mut sink).await {
            Ok(()) => sink.finish(),
            Err(why) => {
                told.get_or_init(|| why);
                sink.cancel("the caller's input is wrong");
            }
        }
    };
    thread::Builder::new().name("input".to_owned()).spawn(|| {
        // Without a core it cannot send: dropping its sink ends the call.
        _ = ringway_runtime::block_on(sending);
    })?;
    Ok(wrong)
}

/// A finished call accepts no more messages; its other half tells how it ended.
async fn send_all(input: Input, shape: Shape, sink: &mut Sink<Bytes>) -> Result<(), String> {
    let transcoder = match shape {
        Shape::Lines(transcoder) => transcoder,
        Shape::Whole => {
            _ = sink.send(input.whole()?.into()).await;
            return Ok(());
        }
    };
    let mut lines = input.lines();
    while let Some(line) = lines.next()? {
        let request = transcoder.request(&line);
        let request = request.map_err(|why| format!("line {}: {why}", lines.number))?;
        if sink.send(request).await.is_err() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_is_bounded() {
        let long = "x".repeat(usize::try_from(CALL_MESSAGE_BYTES_MAX).expect("64 bits") + 1);
        let error = Input::of(&long).whole().expect_err("too long");
        assert!(error.contains("longer than 67108864 bytes"), "{error}");
        let mut lines = Input::of(&format!("short\n{long}\n")).lines();
        assert_eq!(lines.next(), Ok(Some(b"short".to_vec())));
        let error = lines.next().expect_err("too long");
        assert!(error.starts_with("line 2 is longer"), "{error}");
    }

    #[test]
    fn lines_have_no_ends_and_may_be_empty() {
        let mut lines = Input::of("a\r\n\n\u{fc}").lines();
        for expected in [Some("a"), Some(""), Some("\u{fc}"), None] {
            assert_eq!(lines.next(), Ok(expected.map(|line| line.as_bytes().to_vec())));
        }
        assert_eq!(Input::of("").lines().next(), Ok(None));
    }
}
