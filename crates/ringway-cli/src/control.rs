//! Process control on the serving side: a parent writes `snapshot` lines to standard input and reads one
//! line of JSON for each; the server ends when the input does, so that it never outlives its parent.

use std::io::{self, BufRead, Read, Write};
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};

use crate::limits;

/// Answers requests from `input` on `output` with the result of `snapshot`, on its own thread. It calls
/// `on_end` when the input ends or the output is closed.
///
/// # Errors
/// The system grants no thread.
pub(crate) fn spawn(
    input: impl BufRead + Send + 'static,
    output: impl Write + Send + 'static,
    snapshot: impl Fn() -> Value + Send + 'static,
    on_end: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name("control".to_owned()).spawn(move || {
        // An unreadable input counts as ended.
        _ = answer(input, output, snapshot);
        on_end();
    })
}

fn answer(
    mut input: impl BufRead,
    mut output: impl Write,
    snapshot: impl Fn() -> Value,
) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut bounded = (&mut input).take(limits::CONTROL_LINE_BYTES_MAX as u64);
        if bounded.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let reply = match line.trim_ascii() {
            b"snapshot" => snapshot(),
            request => json!({
                "error": format!("no request {:?}; the one request is snapshot", String::from_utf8_lossy(request)),
            }),
        };
        // Each line is one write, so no other line of the process can split it.
        output.write_all(format!("{reply}\n").as_bytes())?;
        output.flush()?;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc;

    use super::*;

    fn replies(requests: &str) -> String {
        let mut output = Vec::new();
        let turns = AtomicU64::new(0);
        let snapshot = || json!({"turns": turns.fetch_add(1, Ordering::Relaxed)});
        answer(Cursor::new(requests.to_owned()), &mut output, snapshot)
            .expect("memory does not fail");
        String::from_utf8(output).expect("JSON is UTF-8")
    }

    #[test]
    fn one_line_for_each_request() {
        assert_eq!(replies("snapshot\nsnapshot\n"), "{\"turns\":0}\n{\"turns\":1}\n");
        assert_eq!(replies(""), "");
        assert!(replies("stats\nsnapshot\n").ends_with("is snapshot\"}\n{\"turns\":0}\n"));
    }

    #[test]
    fn an_endless_line_is_taken_in_bounded_pieces() {
        let replies = replies(&"x".repeat(10 * limits::CONTROL_LINE_BYTES_MAX));
        assert_eq!(replies.lines().count(), 10);
    }

    #[test]
    fn the_end_of_the_input_is_told() {
        let (sender, ended) = mpsc::channel();
        let on_end = move || sender.send(()).expect("the test waits");
        let thread = spawn(Cursor::new("snapshot\n"), io::sink(), || Value::Null, on_end);
        ended.recv().expect("the thread reports the end");
        thread.expect("a thread").join().expect("it does not panic");
    }
}
