//! The registry inside one process: workers on all cores register, look up and deregister, without a server.

use std::error::Error;
use std::hint::black_box;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use ringway_discovery::{Endpoint, Local, LocalService};
use ringway_runtime::yield_now;
use serde_json::{Map, Value, json};

use super::publish::publish;
use crate::args::{BenchConfig, Cores};
use crate::environment::Environment;
use crate::histogram::Percentiles;
use crate::repeats::{self, Spread};
use crate::report::{Cost, Detail, Errors, Report, Row, Versus};
use crate::{allocations, cores, stderr};

/// What the workers do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LocalWork {
    /// Each registers an endpoint of its own service, looks it up, and deregisters it: three operations.
    Register,
    /// Each reads the ten endpoints of one service.
    LookUp,
}

struct LocalRun {
    rate: f64,
    allocations: f64,
    wrong: u64,
    verified: u64,
}

/// Measures both kinds of work in one shared registry, prints the report to `out`, and tells whether it is without an
/// error.
///
/// # Errors
/// The system refuses a core, or writing the output fails.
pub(super) fn run(
    config: &BenchConfig,
    allowed: &Cores,
    workers: u32,
    used: &Cores,
    out: &mut dyn Write,
) -> Result<bool, Box<dyn Error>> {
    let one = used.take(1);
    let kinds = [(LocalWork::Register, used, workers), (LocalWork::LookUp, &one, 1)];
    let mut runs = [Vec::new(), Vec::new()];
    for _ in 0..config.length.repeat {
        for ((work, cores, workers), runs) in kinds.iter().zip(&mut runs) {
            runs.push(run_once(config, *work, cores, *workers)?);
        }
    }
    let rows = kinds
        .iter()
        .zip(&runs)
        .map(|((work, cores, workers), runs)| row(*work, cores.as_slice().len(), *workers, runs));
    let environment = Environment::read(allowed, used, None);
    let report = Report { environment, rows: rows.collect(), left_out: Vec::new(), failure: None };
    publish(config, &report, out)?;
    Ok(report.is_clean())
}

/// What the workers of one core have done.
#[derive(Default)]
struct WorkerTally {
    operations: AtomicU64,
    wrong: AtomicU64,
}

fn run_once(
    config: &BenchConfig,
    work: LocalWork,
    used: &Cores,
    workers: u32,
) -> Result<LocalRun, Box<dyn Error>> {
    let runtime = cores::builder(used, config.backend, config.client_spin)?.start()?;
    let registry = Local::new();
    let shared = registry.service("bench");
    let held: Vec<_> = (0..ENDPOINTS).map(|number| shared.register(endpoint(number))).collect();
    let is_over = Arc::new(AtomicBool::new(false));
    let (ended, is_ended) = mpsc::channel::<()>();
    let mut tallies = Vec::new();
    for (core, number) in runtime.cores().iter().cycle().zip(0..workers) {
        let tally = Arc::new(WorkerTally::default());
        tallies.push(Arc::clone(&tally));
        let (is_over, ended) = (Arc::clone(&is_over), ended.clone());
        let service = match work {
            LocalWork::Register => registry.service(&format!("service-{number}")),
            LocalWork::LookUp => shared.clone(),
        };
        drop(core.spawn(async move || {
            let _ended = ended;
            let own = Arc::new(endpoint(number));
            while !is_over.load(Ordering::Relaxed) {
                let (operations, wrong) = match work {
                    LocalWork::Register => register(&service, &own),
                    LocalWork::LookUp => look_up(&service),
                };
                tally.operations.fetch_add(operations - wrong, Ordering::Relaxed);
                tally.wrong.fetch_add(wrong, Ordering::Relaxed);
                yield_now().await;
            }
        })?);
    }
    drop(ended);
    let sum = |of: fn(&WorkerTally) -> &AtomicU64| -> u64 {
        tallies.iter().map(|tally| of(tally).load(Ordering::Relaxed)).sum()
    };
    // Nobody sends: this waits.
    _ = is_ended.recv_timeout(config.length.warmup);
    let (begun, before, allocated) =
        (Instant::now(), sum(|it| &it.operations), allocations::count());
    tell_each_second(config.length.measured, &is_ended, || sum(|it| &it.operations));
    let (seconds, after) = (begun.elapsed().as_secs_f64(), sum(|it| &it.operations));
    let allocated = allocations::count() - allocated;
    is_over.store(true, Ordering::Relaxed);
    _ = is_ended.recv_timeout(config.length.measured);
    runtime.shutdown()?;
    drop(held);
    let count = (after - before) as f64;
    Ok(LocalRun {
        rate: count / seconds,
        allocations: allocated as f64 / count,
        wrong: sum(|it| &it.wrong),
        verified: sum(|it| &it.operations) + sum(|it| &it.wrong),
    })
}

/// Waits, and tells the rate of each whole second.
fn tell_each_second(time: Duration, never: &mpsc::Receiver<()>, count: impl Fn() -> u64) {
    let end = Instant::now() + time;
    let mut before = count();
    for second in 1.. {
        let left = end.saturating_duration_since(Instant::now());
        if left < SECOND {
            _ = never.recv_timeout(left);
            return;
        }
        _ = never.recv_timeout(SECOND);
        let now = count();
        stderr::say(format_args!("second {second}: {} operations", now - before));
        before = now;
    }
}

fn register(service: &LocalService, own: &Arc<Endpoint>) -> (u64, u64) {
    let mut wrong = 0;
    for _ in 0..BATCH {
        let held = service.register(Arc::clone(own));
        wrong += u64::from(!service.endpoints().iter().any(|it| it.address() == own.address()));
        drop(held);
    }
    (3 * BATCH, wrong)
}

fn look_up(service: &LocalService) -> (u64, u64) {
    let mut wrong = 0;
    for _ in 0..BATCH {
        wrong += u64::from(black_box(service).endpoints().len() != ENDPOINTS as usize);
    }
    (BATCH, wrong)
}

fn endpoint(number: u32) -> Endpoint {
    Endpoint::new(format!("tcp://10.0.0.1:{number}"))
}

fn row(work: LocalWork, cores: usize, workers: u32, runs: &[LocalRun]) -> Row {
    let rates: Vec<f64> = runs.iter().map(|run| run.rate).collect();
    let wrong: u64 = runs.iter().map(|run| run.wrong).sum();
    Row {
        suite: "registry",
        parameters: parameters(work, cores, workers),
        rate: Spread::of(&rates).expect("there is at least one run"),
        repeat: runs.len() as u32,
        detail: Detail { rates, ..Detail::default() },
        unit: "operations/s",
        open_loop: None,
        goodput_mib_s: None,
        latency: Percentiles::default(),
        errors: Errors { mismatched: wrong, ..Errors::default() },
        verified: runs.iter().map(|run| run.verified).sum(),
        server: Cost::default(),
        client: Cost {
            allocations_per_op: repeats::median(runs.iter().map(|run| Some(run.allocations))),
            ..Cost::default()
        },
        versus_epoll: Versus::default(),
        warnings: Vec::new(),
        clock: None,
    }
}

fn parameters(work: LocalWork, cores: usize, workers: u32) -> Map<String, Value> {
    let mode = match work {
        LocalWork::Register => "register, discover, deregister",
        LocalWork::LookUp => "look-up",
    };
    let named = [("mode", json!(mode)), ("cores", json!(cores)), ("workers", json!(workers))];
    named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Endpoints of the service that is looked up.
const ENDPOINTS: u32 = 10;
/// Repeats between two looks at the clock of the run.
const BATCH: u64 = 200;
const SECOND: Duration = Duration::from_secs(1);
