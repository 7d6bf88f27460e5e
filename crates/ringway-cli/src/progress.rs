//! Progress on standard error: one bar that redraws itself on a terminal, a plain line a step elsewhere.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How far a bench is, by the time its steps are planned to take.
///
/// Failures to write are ignored: a closed standard error must not spoil a measurement.
pub(crate) struct Progress {
    out: Box<dyn Write + Send>,
    is_terminal: bool,
    step_count: usize,
    /// Planned time of one step.
    step_planned: Duration,
    steps_done: usize,
    /// The step under way.
    current: Option<(String, Instant)>,
    started: Instant,
}

impl Progress {
    /// Progress of `step_count` steps planned to take `step_planned` each, on standard error.
    pub(crate) fn on_stderr(step_count: usize, step_planned: Duration) -> Self {
        let stderr = std::io::stderr();
        let is_terminal = stderr.is_terminal();
        Self::new(Box::new(stderr), is_terminal, step_count, step_planned)
    }

    fn new(
        out: Box<dyn Write + Send>,
        is_terminal: bool,
        step_count: usize,
        step_planned: Duration,
    ) -> Self {
        let started = Instant::now();
        Self { out, is_terminal, step_count, step_planned, steps_done: 0, current: None, started }
    }

    /// Begins the step `name`, e.g. `pingpong ringway tcp, 100 connections, 16,384 B, run 2`; the one before
    /// is done.
    pub(crate) fn begin(&mut self, name: &str) {
        if self.current.take().is_some() {
            self.steps_done += 1;
        }
        let now = Instant::now();
        self.current = Some((name.to_owned(), now));
        if self.is_terminal {
            self.draw(now);
        } else {
            let line = self.line(now);
            _ = writeln!(self.out, "{line}");
        }
    }

    /// Waits for the result of the step under way, which another thread sends, and keeps the bar moving.
    ///
    /// # Errors
    /// [`RecvTimeoutError::Timeout`] after `limit`; [`RecvTimeoutError::Disconnected`] if the thread ended
    /// without a result.
    pub(crate) fn watch<T>(
        &mut self,
        result: &Receiver<T>,
        limit: Duration,
    ) -> Result<T, RecvTimeoutError> {
        let deadline = Instant::now() + limit;
        loop {
            let now = Instant::now();
            let left = deadline.saturating_duration_since(now);
            match result.recv_timeout(left.min(REDRAW_EVERY)) {
                Err(RecvTimeoutError::Timeout) if now < deadline => self.tick(),
                outcome => return outcome,
            }
        }
    }

    /// Redraws the bar, if there is one.
    pub(crate) fn tick(&mut self) {
        if self.is_terminal {
            self.draw(Instant::now());
        }
    }

    /// Removes the bar until it is drawn anew, so that something else may be written where it stood.
    pub(crate) fn clear(&mut self) {
        if self.is_terminal {
            _ = write!(self.out, "{CLEAR_LINE}");
            _ = self.out.flush();
        }
    }

    /// Removes the bar; all steps are done.
    pub(crate) fn finish(mut self) {
        let seconds = self.started.elapsed().as_secs_f64();
        let clear = if self.is_terminal { CLEAR_LINE } else { "" };
        _ = writeln!(self.out, "{clear}done in {seconds:.1} s");
    }

    fn draw(&mut self, now: Instant) {
        let line = self.line(now);
        _ = write!(self.out, "{CLEAR_LINE}{line}");
        _ = self.out.flush();
    }

    fn line(&self, now: Instant) -> String {
        let (name, step_elapsed) = match &self.current {
            Some((name, begun)) => (name.as_str(), now.saturating_duration_since(*begun)),
            None => ("", Duration::ZERO),
        };
        let share = self.share(step_elapsed);
        let left = self.left(share, now.saturating_duration_since(self.started));
        let step = (self.steps_done + 1).min(self.step_count);
        let percent = share * 100.0;
        if self.is_terminal {
            let filled = (share * BAR_WIDTH as f64) as usize;
            let bar = format!("{}{}", "█".repeat(filled), "░".repeat(BAR_WIDTH - filled));
            return format!("{bar} {percent:3.0} %  {left} left  {name}");
        }
        format!("[{step}/{}] {percent:.0} %, {left} left: {name}", self.step_count)
    }

    /// From 0 to 1; a step that takes longer than planned stays just short of its end.
    fn share(&self, step_elapsed: Duration) -> f64 {
        let in_step = step_elapsed.as_secs_f64() / self.step_planned.as_secs_f64().max(1e-3);
        let steps = self.steps_done as f64 + in_step.min(STEP_SHARE_MAX);
        (steps / self.step_count.max(1) as f64).clamp(0.0, 1.0)
    }

    /// As planned at first, as observed once a tenth is done.
    fn left(&self, share: f64, elapsed: Duration) -> String {
        let planned = self.step_planned.as_secs_f64() * self.step_count as f64;
        let total = if share < 0.1 { planned } else { elapsed.as_secs_f64() / share };
        let seconds = (total * (1.0 - share)).ceil() as u64;
        format!("{}:{:02}", seconds / 60, seconds % 60)
    }
}

/// Often enough to look alive, seldom enough to cost nothing beside a measurement.
const REDRAW_EVERY: Duration = Duration::from_millis(200);
const BAR_WIDTH: usize = 24;
const STEP_SHARE_MAX: f64 = 0.99;
/// To the line's start, then erase to its end.
const CLEAR_LINE: &str = "\r\x1b[K";

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, mpsc};

    use super::*;

    /// A writer whose text can still be read after it was given away.
    #[derive(Clone, Default)]
    struct Screen(Arc<Mutex<Vec<u8>>>);

    impl Screen {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().expect("no writer panics").clone()).expect("UTF-8")
        }
    }

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("no writer panics").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn progress(screen: &Screen, is_terminal: bool) -> Progress {
        Progress::new(Box::new(screen.clone()), is_terminal, 4, Duration::from_secs(30))
    }

    #[test]
    fn a_plain_line_a_step_without_a_terminal() {
        let screen = Screen::default();
        let mut progress = progress(&screen, false);
        progress.begin("one");
        progress.tick();
        progress.begin("two");
        let text = screen.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert_eq!(lines[0], "[1/4] 0 %, 2:00 left: one");
        assert!(lines[1].starts_with("[2/4] 25 %, ") && lines[1].ends_with(" left: two"), "{text}");
    }

    #[test]
    fn time_left_is_first_planned_then_observed() {
        let progress = progress(&Screen::default(), false);
        assert_eq!(progress.left(0.05, Duration::from_secs(60)), "1:54");
        assert_eq!(progress.left(0.5, Duration::from_secs(75)), "1:15");
        assert_eq!(progress.left(1.0, Duration::from_secs(75)), "0:00");
    }

    #[test]
    fn a_bar_on_a_terminal() {
        let screen = Screen::default();
        let mut progress = progress(&screen, true);
        progress.begin("one");
        progress.begin("two");
        let text = screen.text();
        assert!(
            text.starts_with("\r\x1b[K░░░░░░░░░░░░░░░░░░░░░░░░   0 %  2:00 left  one"),
            "{text}"
        );
        assert!(text.contains("\r\x1b[K██████░░░░░░░░░░░░░░░░░░  25 %"), "{text}");
        assert!(!text.contains('\n'), "{text}");
        progress.finish();
        assert!(screen.text().ends_with(" s\n"));
    }

    #[test]
    fn the_share_never_passes_the_step_under_way() {
        let mut progress = progress(&Screen::default(), true);
        progress.begin("one");
        assert_eq!(progress.share(Duration::ZERO), 0.0);
        assert_eq!(progress.share(Duration::from_secs(15)), 0.125);
        assert!(progress.share(Duration::from_secs(3600)) < 0.25);
    }

    #[test]
    fn watching_ends_with_the_result_the_thread_or_the_limit() {
        let mut progress = progress(&Screen::default(), true);
        progress.begin("one");
        let (sender, receiver) = mpsc::channel();
        let limit = Duration::from_millis(1);
        assert_eq!(progress.watch(&receiver, limit), Err(RecvTimeoutError::Timeout));
        sender.send(7).expect("the receiver is here");
        assert_eq!(progress.watch(&receiver, limit), Ok(7));
        drop(sender);
        assert_eq!(progress.watch(&receiver, limit), Err(RecvTimeoutError::Disconnected));
    }
}
