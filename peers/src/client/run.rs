//! The phases of a run, and what its tasks tell.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::cpu::cpu_time;
use super::report::Report;
use crate::args::Load;
use crate::limits::DRAIN_SECONDS_MAX;

/// What connecting and calling fail with.
pub(super) type Error = Box<dyn std::error::Error + Send + Sync>;

/// What the tasks of a run share. All run on one thread, so the lock is always free and no count
/// is lost; lock and atomics are there because the frameworks want tasks that could run on several.
pub(super) struct Run {
    /// Whether an operation is followed by the next.
    issuing: AtomicBool,
    /// Whether replies are counted.
    recording: AtomicBool,
    /// When they began to be. What begins from then on is timed to its end, be it in the drain: the slowest of the
    /// interval would be missing otherwise.
    began: OnceLock<Instant>,
    /// Intact replies while `recording`, and others at any time. A message of a stream costs so
    /// little that a lock would show.
    messages: AtomicU64,
    mismatches: AtomicU64,
    report: Mutex<Report>,
}

/// Whether a task goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Issue,
    End,
}

/// Runs the tasks that `start` spawns through warm-up, measurement and drain. Tasks that are still
/// busy then are errors.
///
/// # Errors
/// If the run could not begin.
pub(super) fn drive<F>(load: &Load, start: impl FnOnce(Arc<Run>) -> F) -> Result<Report, Error>
where
    F: Future<Output = Result<JoinSet<()>, Error>>,
{
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let run = Arc::new(Run::new(load.message_bytes));
        let mut tasks = start(run.clone()).await?;
        all_ended_within(load.warmup, &mut tasks).await;

        load.tell_begin();
        let cpu_before = cpu_time();
        let begin = run.begin();
        all_ended_within(load.duration, &mut tasks).await;
        let (elapsed, cpu) = (begin.elapsed(), cpu_time() - cpu_before);
        run.end();
        load.tell_end();

        all_ended_within(Duration::from_secs(DRAIN_SECONDS_MAX), &mut tasks).await;
        let unanswered = tasks.len() as u64;
        tasks.shutdown().await;

        let mut report = run.report();
        report.elapsed = elapsed;
        report.cpu = cpu;
        report.errors += unanswered;
        report.messages = run.messages.load(Ordering::Relaxed);
        report.mismatches = run.mismatches.load(Ordering::Relaxed);
        Ok(std::mem::replace(&mut *report, Report::new(load.message_bytes)))
    })
}

/// Waits for the time, or for the end of all tasks if that comes first.
async fn all_ended_within(time: Duration, tasks: &mut JoinSet<()>) {
    let all_ended = async {
        while let Some(ended) = tasks.join_next().await {
            ended.expect("no task panics or is cancelled during a run");
        }
    };
    // Time running out is how a phase ends.
    let _ = timeout(time, all_ended).await;
}

impl Run {
    fn new(message_bytes: usize) -> Self {
        Self {
            issuing: AtomicBool::new(true),
            recording: AtomicBool::new(false),
            began: OnceLock::new(),
            messages: AtomicU64::new(0),
            mismatches: AtomicU64::new(0),
            report: Mutex::new(Report::new(message_bytes)),
        }
    }

    /// Begins the measured interval.
    fn begin(&self) -> Instant {
        self.recording.store(true, Ordering::Relaxed);
        *self.began.get_or_init(Instant::now)
    }

    /// Ends it: what is under way is the last.
    fn end(&self) {
        self.recording.store(false, Ordering::Relaxed);
        self.issuing.store(false, Ordering::Relaxed);
    }

    /// A reply to what was sent at `begun` came at `now`.
    pub(super) fn on_reply(&self, intact: bool, begun: Instant, now: Instant) -> Next {
        if intact {
            self.time(begun, now);
        }
        self.on_message(intact)
    }

    fn time(&self, begun: Instant, now: Instant) {
        if self.began.get().is_some_and(|began| begun >= *began) {
            self.report().time(now - begun);
        }
    }

    /// A message came that is not timed by itself.
    pub(super) fn on_message(&self, intact: bool) -> Next {
        if !intact {
            add_one(&self.mismatches);
        } else if self.is_recording() {
            add_one(&self.messages);
        }
        self.next()
    }

    /// A stream that began at `begun` has ended in order.
    pub(super) fn on_stream_end(&self, begun: Instant) -> Next {
        self.time(begun, Instant::now());
        self.next()
    }

    /// A call failed. The first failure is told, since the report has numbers only.
    pub(super) fn on_error(&self, error: &Error) {
        let mut report = self.report();
        if report.errors == 0 {
            eprintln!("ringway-peers: {error}");
        }
        report.errors += 1;
    }

    fn is_recording(&self) -> bool {
        self.recording.load(Ordering::Relaxed)
    }

    fn next(&self) -> Next {
        if self.issuing.load(Ordering::Relaxed) { Next::Issue } else { Next::End }
    }

    fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn add_one(count: &AtomicU64) {
    count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Ringway's own clients have it.
    #[test]
    fn what_begins_in_the_interval_is_timed_and_what_ends_in_it_is_counted() {
        let run = Run::new(64);
        let before = Instant::now();
        run.begin();
        assert!(run.on_reply(true, before, Instant::now()) == Next::Issue);
        let (messages, json) = (run.messages.load(Ordering::Relaxed), run.report().to_json());
        assert!(messages == 1 && json.contains("\"max_us\":null"), "{messages}: {json}");
        let within = Instant::now();
        run.end();
        assert!(run.on_reply(true, within, Instant::now()) == Next::End);
        let (messages, json) = (run.messages.load(Ordering::Relaxed), run.report().to_json());
        assert!(messages == 1 && !json.contains("\"max_us\":null"), "{messages}: {json}");
    }
}
