//! The phases of a run, and what its tasks tell.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::caller::Error;
use crate::args::Load;
use crate::client::{Report, cpu_time};
use crate::limits::DRAIN_SECONDS_MAX;

/// What the tasks of a run share. All run on one thread, so the lock is always free; it is there
/// because the frameworks want tasks that could run on several.
pub(super) struct Run(Mutex<State>);

struct State {
    /// Whether an operation is followed by the next.
    issuing: bool,
    /// Whether replies are counted and timed.
    recording: bool,
    report: Report,
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
        run.state().recording = true;
        let cpu_before = cpu_time();
        let begin = Instant::now();
        all_ended_within(load.duration, &mut tasks).await;
        let (elapsed, cpu) = (begin.elapsed(), cpu_time() - cpu_before);
        run.state().recording = false;
        load.tell_end();

        run.state().issuing = false;
        all_ended_within(Duration::from_secs(DRAIN_SECONDS_MAX), &mut tasks).await;
        let unanswered = tasks.len() as u64;
        tasks.shutdown().await;

        let mut state = run.state();
        state.report.elapsed = elapsed;
        state.report.cpu = cpu;
        state.report.errors += unanswered;
        let message_bytes = load.message_bytes;
        Ok(std::mem::replace(&mut state.report, Report::new(message_bytes)))
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
        let report = Report::new(message_bytes);
        Self(Mutex::new(State { issuing: true, recording: false, report }))
    }

    /// A reply came after `latency`.
    pub(super) fn on_reply(&self, intact: bool, latency: Duration) -> Next {
        let mut state = self.state();
        state.on_message(intact);
        if intact && state.recording {
            state.report.time(latency);
        }
        state.next()
    }

    /// A message came that is not timed by itself.
    pub(super) fn on_message(&self, intact: bool) -> Next {
        let mut state = self.state();
        state.on_message(intact);
        state.next()
    }

    /// A stream ended in order, this long after it began.
    pub(super) fn on_stream_end(&self, latency: Duration) -> Next {
        let mut state = self.state();
        if state.recording {
            state.report.time(latency);
        }
        state.next()
    }

    /// A call failed. The first failure is told, since the report has numbers only.
    pub(super) fn on_error(&self, error: &Error) {
        let mut state = self.state();
        if state.report.errors == 0 {
            eprintln!("ringway-peers: {error}");
        }
        state.report.errors += 1;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn on_message(&mut self, intact: bool) {
        if !intact {
            self.report.mismatches += 1;
        } else if self.recording {
            self.report.count();
        }
    }

    fn next(&self) -> Next {
        if self.issuing { Next::Issue } else { Next::End }
    }
}
