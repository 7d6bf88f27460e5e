//! The event suite: what a core does for one event. Bytes go round between the pipes of one core without a server,
//! after the bench of libevent, which muduo has too.

mod plain;
mod ring;
mod round;

use std::error::Error;
use std::io::Write;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::codec::pin;
use super::descriptors;
use super::publish::publish;
use super::server::Usage;
use crate::args::{BenchConfig, Cores, EventLoad};
use crate::environment::Environment;
use crate::histogram::Latencies;
use crate::progress::Progress;
use crate::repeats::{self, Spread};
use crate::report::{Cost, Detail, Errors, Report, Row, Versus};
use crate::{allocations, cores, limits};
use round::Round;

/// Measures each of `loads`, prints the report to `out`, and tells whether it is without an error.
///
/// # Errors
/// The system refuses a core or descriptors, or writing the output fails.
pub(super) fn run(
    config: &BenchConfig,
    allowed: &Cores,
    loads: &[EventLoad],
    out: &mut dyn Write,
) -> Result<bool, Box<dyn Error>> {
    descriptors::ensure_pipes(loads.iter().map(|load| load.pipes).max().unwrap_or(0))?;
    let core = config.placement.client.take(1);
    let loops = if config.peers { &[Loop::Ringway, Loop::Epoll][..] } else { &[Loop::Ringway] };
    let length = config.length;
    let steps = loads.len() * loops.len() * length.repeat as usize;
    let mut progress = Progress::on_stderr(steps, length.warmup + length.measured);
    let mut environment = Environment::of_one_thread(allowed, &core);
    let mut rows = Vec::new();
    for &load in loads {
        let mut runs = vec![Vec::new(); loops.len()];
        for repeat in 1..=length.repeat {
            for (which, runs) in loops.iter().zip(&mut runs) {
                progress.begin(&which.describe(load, repeat));
                runs.push(match which {
                    Loop::Ringway => {
                        run_ours(config, load, &core, &mut environment, &mut progress)?
                    }
                    Loop::Epoll => run_plain(config, load, &core)?,
                });
            }
        }
        let pairs = loops.iter().zip(&runs);
        rows.extend(pairs.map(|(&which, own)| row(which, load, own, &runs)));
    }
    progress.finish();
    let report = Report { environment, rows, left_out: Vec::new(), failure: None };
    publish(config, &report, out)?;
    Ok(report.is_clean())
}

/// What passes the bytes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loop {
    /// A core of the runtime.
    Ringway,
    /// A plain loop over epoll.
    Epoll,
}

impl Loop {
    fn name(self) -> &'static str {
        match self {
            Self::Ringway => "ringway",
            Self::Epoll => "epoll",
        }
    }

    fn describe(self, load: EventLoad, run: u32) -> String {
        let EventLoad { pipes, active, writes } = load;
        format!("event {}, {pipes} pipes, {active} active, {writes} writes, run {run}", self.name())
    }
}

fn run_ours(
    config: &BenchConfig,
    load: EventLoad,
    core: &Cores,
    environment: &mut Environment,
    progress: &mut Progress,
) -> Result<EventRun, Box<dyn Error>> {
    let runtime = cores::builder(core, config.backend, config.client_spin)?.start()?;
    let (sender, outcome) = mpsc::channel();
    let length = config.length;
    drop(runtime.cores()[0].spawn(async move || _ = sender.send(ring::run(load, length).await))?);
    let limit = length.warmup + length.measured + 2 * limits::ITERATION_MAX;
    let run = progress.watch(&outcome, limit).map_err(|error| match error {
        mpsc::RecvTimeoutError::Timeout => format!("a run did not end within {limit:?}"),
        mpsc::RecvTimeoutError::Disconnected => "the core failed".to_owned(),
    })?;
    environment.client.learn(&cores::counters_of(runtime.cores()).into());
    runtime.shutdown()?;
    Ok(run?)
}

fn run_plain(
    config: &BenchConfig,
    load: EventLoad,
    core: &Cores,
) -> Result<EventRun, Box<dyn Error>> {
    let (number, length) = (core.as_slice()[0], config.length);
    let thread = thread::Builder::new().name("plain loop".to_owned()).spawn(move || {
        pin(number)?;
        plain::run(load, length)
    })?;
    Ok(thread.join().map_err(|_| "the plain loop panicked")??)
}

/// One run of one row.
#[derive(Clone)]
struct EventRun {
    /// Events per second.
    rate: f64,
    /// Times of whole iterations.
    latencies: Latencies,
    errors: Errors,
    verified: u64,
    cost: Cost,
}

/// The measured interval of a run.
struct Iterations {
    began: Instant,
    before: Usage,
    allocations_before: u64,
    latencies: Latencies,
}

impl Iterations {
    fn begin(before: Usage) -> Self {
        let (latencies, allocations_before) = (Latencies::new(), allocations::count());
        Self { before, allocations_before, latencies, began: Instant::now() }
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Counts an iteration that is over, if nothing was wrong with it.
    #[inline]
    fn add(&mut self, took: Duration, round: &Round) {
        if round.is_right() {
            self.latencies.record(took);
        }
    }

    fn end(self, load: EventLoad, round: &Round, after: Usage) -> EventRun {
        let elapsed = self.elapsed();
        let allocated = allocations::count() - self.allocations_before;
        let events = self.latencies.count() * load.events();
        let (verified, mismatched) = round.compared();
        EventRun {
            rate: events as f64 / elapsed.as_secs_f64(),
            latencies: self.latencies,
            errors: Errors { mismatched, unanswered: round.missing(), ..Errors::default() },
            verified,
            cost: Cost {
                allocations_per_op: (events > 0).then(|| allocated as f64 / events as f64),
                ..after.since(self.before, events)
            },
        }
    }
}

fn row(which: Loop, load: EventLoad, own: &[EventRun], all: &[Vec<EventRun>]) -> Row {
    let rates: Vec<f64> = own.iter().map(|run| run.rate).collect();
    let mut errors = Errors::default();
    own.iter().for_each(|run| errors.add(&run.errors));
    let mut samples = Latencies::new();
    own.iter().for_each(|run| samples.merge(&run.latencies));
    let samples = Arc::new(samples);
    let cost =
        |part: fn(&Cost) -> Option<f64>| repeats::median(own.iter().map(|run| part(&run.cost)));
    let partner = all.get(1).filter(|_| which == Loop::Ringway);
    let ratios = partner.map(|plain| own.iter().zip(plain));
    Row {
        suite: "event",
        parameters: parameters(which, load),
        rate: Spread::of(&rates).expect("there is at least one run"),
        repeat: own.len() as u32,
        detail: Detail {
            rates,
            curve: samples.curve(),
            samples: Some(Arc::clone(&samples)),
            ..Detail::default()
        },
        unit: "events/s",
        open_loop: None,
        goodput_mib_s: None,
        latency: samples.percentiles(),
        errors,
        verified: own.iter().map(|run| run.verified).sum(),
        server: Cost::default(),
        client: Cost {
            cpu_us_per_op: cost(|cost| cost.cpu_us_per_op),
            syscalls_per_op: cost(|cost| cost.syscalls_per_op),
            allocations_per_op: cost(|cost| cost.allocations_per_op),
        },
        versus_epoll: Versus {
            rate: ratios.and_then(|pairs| {
                repeats::median(pairs.map(|(ours, plain)| Some(ours.rate / plain.rate)))
            }),
            ..Versus::default()
        },
        warnings: Vec::new(),
        clock: None,
    }
}

fn parameters(which: Loop, load: EventLoad) -> Map<String, Value> {
    let EventLoad { pipes, active, writes } = load;
    let named = [
        ("loop", json!(which.name())),
        ("pipes", json!(pipes)),
        ("active", json!(active)),
        ("writes", json!(writes)),
    ];
    named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
