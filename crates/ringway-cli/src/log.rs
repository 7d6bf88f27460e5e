//! The log of the tool: warnings and errors on standard error, or what `RUST_LOG` asks for.

use std::io;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::foreign::printable;
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
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(|| Events);
    tracing_subscriber::registry().with(levels).with(lines).init();
}

/// Prints events, each of which is written at once.
struct Events;

impl io::Write for Events {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        stderr::say(line_of(event));
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An event as one line: what others have said in it makes no line that looks like another event.
fn line_of(event: &[u8]) -> String {
    printable(String::from_utf8_lossy(event).trim_end()).into_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Keeps events as they would be shown.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<String>>>);

    impl io::Write for Kept {
        fn write(&mut self, event: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").push(line_of(event));
            Ok(event.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_others_say_in_an_event_is_no_event_of_its_own() {
        let kept = Kept::default();
        let writer = kept.clone();
        let lines = tracing_subscriber::fmt::layer().with_ansi(false);
        let lines = lines.with_writer(move || writer.clone());
        let shown_here = tracing_subscriber::registry().with(lines).set_default();
        let error = "no\n2026-01-01T00:00:00Z ERROR ringway: all is lost\u{202e}\x1b[2J\r";
        tracing::warn!(%error, "it has failed\nindeed");
        drop(shown_here);
        let shown = kept.0.lock().expect("no panic");
        let [line] = &shown[..] else { panic!("one event: {shown:?}") };
        assert!(line.contains("failed\\u000aindeed") && line.contains("no\\u000a2026"), "{line}");
        assert!(!line.contains(char::is_control) && !line.contains('\u{202e}'), "{line:?}");
    }
}
