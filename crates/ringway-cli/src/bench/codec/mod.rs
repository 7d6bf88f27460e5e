//! The codec suite: decodes and encodes JSON-RPC messages in memory in one thread. It shows the cost of a
//! message without network and load.

mod messages;
mod ours;
mod serde;
mod timing;

use std::error::Error;
use std::io::{self, Write};

use rustix::thread::CpuSet;
use serde_json::{Map, Value, json};

use super::publish::publish;
use crate::args::{BenchConfig, Cores};
use crate::environment::Environment;
use crate::histogram::Percentiles;
use crate::progress::Progress;
use crate::repeats::{self, Spread};
use crate::report::{Cost, Detail, Errors, Report, Row, Versus};
use messages::Operation;
use timing::Timed;

/// Measures each operation of each codec with alternating runs, prints the report to `out`, and returns whether
/// there was no error.
///
/// # Errors
/// The system refuses the core, or writing the output fails.
pub(super) fn run(
    config: &BenchConfig,
    allowed: &Cores,
    out: &mut dyn Write,
) -> Result<bool, Box<dyn Error>> {
    let core = config.placement.client.take(1);
    pin(core.as_slice()[0])?;
    let length = config.length;
    let mut operations = ours::operations();
    operations.extend(serde::operations());
    operations.sort_by_key(Operation::rank);
    let runs = operations.len() * length.repeat as usize;
    let mut progress = Progress::on_stderr(runs, length.warmup + length.measured);
    let mut results = vec![Vec::new(); operations.len()];
    for repeat in 1..=length.repeat {
        for (operation, results) in operations.iter_mut().zip(&mut results) {
            progress.begin(&format!("codec {operation}, run {repeat}"));
            results.push(operation.run(length));
        }
    }
    progress.finish();
    let rows: Vec<Row> = operations.iter().zip(&results).map(|(it, runs)| row(it, runs)).collect();
    let environment = Environment::of_one_thread(allowed, &core);
    let report = Report { environment, rows, left_out: Vec::new(), failure: None };
    publish(config, &report, out)?;
    Ok(report.is_clean())
}

/// Pins this thread to one core, so that caches and clock settle.
pub(super) fn pin(core: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

fn row(operation: &Operation, runs: &[Timed]) -> Row {
    let rates: Vec<f64> = runs.iter().map(|run| run.rate).collect();
    let rate = Spread::of(&rates).expect("there is at least one run");
    let wrong = runs.iter().filter(|run| !run.is_right).count() as u64;
    Row {
        suite: "codec",
        parameters: parameters(operation),
        rate,
        repeat: runs.len() as u32,
        detail: Detail { rates, ..Detail::default() },
        unit: "operations/s",
        open_loop: None,
        goodput_mib_s: Some(rate.median * operation.text.len() as f64 / f64::from(1 << 20)),
        latency: Percentiles::default(),
        errors: Errors { mismatched: wrong, ..Errors::default() },
        verified: runs.len() as u64 - wrong,
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

fn parameters(operation: &Operation) -> Map<String, Value> {
    let Operation { message, verb, codec, text, .. } = operation;
    let named = [
        ("message", json!(message)),
        ("operation", json!(verb)),
        ("codec", json!(codec)),
        ("size", json!(text.len())),
    ];
    named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_codec_does_the_same_and_does_it_right() {
        let (ours, theirs) = (ours::operations(), serde::operations());
        let named = |all: &[Operation]| -> Vec<(&str, &str, String)> {
            all.iter().map(|it| (it.message, it.verb, it.text.clone())).collect()
        };
        assert_eq!(named(&ours), named(&theirs));
        assert_eq!(ours.len(), 12);
        for operation in ours.into_iter().chain(theirs) {
            let name = operation.to_string();
            assert!((operation.check)(&operation.text), "{name}");
            let other = operation.text.replace('0', "1");
            assert!(!(operation.check)(&other) || other == operation.text, "{name}");
        }
    }
}
