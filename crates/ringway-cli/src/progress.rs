//! Progress on standard error: a bar on a terminal, and otherwise a line per step.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Progress of a bench by the planned time of its steps.
///
/// Errors of writing are ignored: a closed standard error must not spoil a measurement.
pub(crate) struct Progress {
    shown: Shown,
    step_count: usize,
    /// Planned time of one step.
    step_planned: Duration,
    steps_done: usize,
    /// The current step.
    current: Option<(String, Instant)>,
    started: Instant,
}

enum Shown {
    /// The text that is redrawn.
    Bar(ProgressBar),
    Lines(Box<dyn Write + Send>),
}

impl Progress {
    /// Makes the progress of `step_count` steps planned to take `step_planned` each, on standard error.
    pub(crate) fn on_stderr(step_count: usize, step_planned: Duration) -> Self {
        let stderr = std::io::stderr();
        let shown = match stderr.is_terminal() {
            true => bar(ProgressDrawTarget::stderr()),
            false => Shown::Lines(Box::new(stderr)),
        };
        Self::new(shown, step_count, step_planned)
    }

    fn new(shown: Shown, step_count: usize, step_planned: Duration) -> Self {
        let started = Instant::now();
        Self { shown, step_count, step_planned, steps_done: 0, current: None, started }
    }

    /// Begins the step `name`, e.g. `pingpong ringway tcp, 100 connections, 16,384 B, run 2`, after the
    /// previous one.
    pub(crate) fn begin(&mut self, name: &str) {
        if self.current.take().is_some() {
            self.steps_done += 1;
        }
        let now = Instant::now();
        self.current = Some((name.to_owned(), now));
        let (share, left) = self.at(now);
        let step = (self.steps_done + 1).min(self.step_count);
        match &mut self.shown {
            Shown::Bar(_) => self.draw(now),
            Shown::Lines(out) => {
                let percent = share * 100.0;
                _ = writeln!(
                    out,
                    "[{step}/{}] {percent:.0} %, {left} left: {name}",
                    self.step_count
                );
            }
        }
    }

    /// Skips `steps` planned steps.
    pub(crate) fn skip(&mut self, steps: usize) {
        self.step_count = self.step_count.saturating_sub(steps);
    }

    /// Waits for the result of the current step, which another thread sends, and keeps the bar moving.
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
        self.draw(Instant::now());
    }

    /// Hides the bar while `f` writes to the same terminal.
    pub(crate) fn suspend<T>(&self, write: impl FnOnce() -> T) -> T {
        match &self.shown {
            Shown::Bar(bar) => bar.suspend(write),
            Shown::Lines(_) => write(),
        }
    }

    /// Removes the bar after a failure.
    pub(crate) fn give_up(self) {
        if let Shown::Bar(bar) = self.shown {
            bar.finish_and_clear();
        }
    }

    /// Removes the bar after the last step.
    pub(crate) fn finish(self) {
        let done = format!("done in {:.1} s", self.started.elapsed().as_secs_f64());
        match self.shown {
            Shown::Bar(bar) => {
                bar.println(done);
                bar.finish_and_clear();
            }
            Shown::Lines(mut out) => _ = writeln!(out, "{done}"),
        }
    }

    fn draw(&self, now: Instant) {
        let Shown::Bar(bar) = &self.shown else {
            return;
        };
        let (share, left) = self.at(now);
        bar.set_prefix(left);
        bar.set_message(self.current.as_ref().map_or_else(String::new, |(name, _)| name.clone()));
        bar.set_position((share * BAR_STEPS as f64) as u64);
        bar.tick();
    }

    /// Formats the share that is done and the remaining time.
    fn at(&self, now: Instant) -> (f64, String) {
        let begun = self.current.as_ref().map_or(now, |(_, begun)| *begun);
        let share = self.share(now.saturating_duration_since(begun));
        (share, self.left(share, now.saturating_duration_since(self.started)))
    }

    /// The share that is done, from 0 to 1; a step that takes longer than planned stays just below its end.
    fn share(&self, step_elapsed: Duration) -> f64 {
        let in_step = step_elapsed.as_secs_f64() / self.step_planned.as_secs_f64().max(1e-3);
        let steps = self.steps_done as f64 + in_step.min(STEP_SHARE_MAX);
        (steps / self.step_count.max(1) as f64).clamp(0.0, 1.0)
    }

    /// The remaining time: as planned at first, extrapolated after a tenth.
    fn left(&self, share: f64, elapsed: Duration) -> String {
        let planned = self.step_planned.as_secs_f64() * self.step_count as f64;
        let total = if share < 0.1 { planned } else { elapsed.as_secs_f64() / share };
        let seconds = (total * (1.0 - share)).ceil() as u64;
        format!("{}:{:02}", seconds / 60, seconds % 60)
    }
}

fn bar(target: ProgressDrawTarget) -> Shown {
    let style = ProgressStyle::with_template("{bar:24} {percent:>3} %  {prefix} left  {wide_msg}");
    let style = style.expect("a template without mistakes").progress_chars("█░");
    Shown::Bar(ProgressBar::with_draw_target(Some(BAR_STEPS), target).with_style(style))
}

/// Often enough to look alive, and rarely enough to cost nothing beside a measurement.
const REDRAW_EVERY: Duration = Duration::from_millis(200);
/// Finer than any bar.
const BAR_STEPS: u64 = 1000;
const STEP_SHARE_MAX: f64 = 0.99;

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, mpsc};

    use indicatif::InMemoryTerm;

    use super::*;

    /// A writer whose text can be read after it was given away.
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

    fn lines(screen: &Screen) -> Progress {
        Progress::new(Shown::Lines(Box::new(screen.clone())), 4, Duration::from_secs(30))
    }

    fn on_terminal(columns: u16) -> (Progress, InMemoryTerm) {
        let terminal = InMemoryTerm::new(5, columns);
        let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        (Progress::new(bar(target), 4, Duration::from_secs(30)), terminal)
    }

    #[test]
    fn a_plain_line_a_step_without_a_terminal() {
        let screen = Screen::default();
        let mut progress = lines(&screen);
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
        let progress = lines(&Screen::default());
        assert_eq!(progress.left(0.05, Duration::from_secs(60)), "1:54");
        assert_eq!(progress.left(0.5, Duration::from_secs(75)), "1:15");
        assert_eq!(progress.left(1.0, Duration::from_secs(75)), "0:00");
    }

    #[test]
    fn a_bar_on_a_terminal() {
        let (mut progress, terminal) = on_terminal(80);
        progress.begin("one");
        let begun = "░░░░░░░░░░░░░░░░░░░░░░░░   0 %  2:00 left  one";
        assert_eq!(terminal.contents(), begun);
        progress.begin("two");
        let text = terminal.contents();
        assert!(text.starts_with("██████░░░░░░░░░░░░░░░░░░  25 %"), "{text}");
        assert!(text.ends_with(" left  two"), "{text}");
        progress.suspend(|| assert_eq!(terminal.contents(), ""));
        assert_eq!(terminal.contents().lines().count(), 1);
        progress.finish();
        let text = terminal.contents();
        assert!(text.starts_with("done in ") && text.ends_with(" s"), "{text}");
    }

    /// A line longer than the terminal would be drawn again and again below itself.
    #[test]
    fn a_bar_is_cut_to_the_terminal() {
        let (mut progress, terminal) = on_terminal(60);
        progress.begin(&"x".repeat(100));
        progress.tick();
        let text = terminal.contents();
        assert_eq!((text.lines().count(), text.chars().count()), (1, 60), "{text}");
    }

    #[test]
    fn the_share_never_passes_the_step_under_way() {
        let mut progress = lines(&Screen::default());
        progress.begin("one");
        assert_eq!(progress.share(Duration::ZERO), 0.0);
        assert_eq!(progress.share(Duration::from_secs(15)), 0.125);
        assert!(progress.share(Duration::from_secs(3600)) < 0.25);
    }

    #[test]
    fn watching_ends_with_the_result_the_thread_or_the_limit() {
        let mut progress = lines(&Screen::default());
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
