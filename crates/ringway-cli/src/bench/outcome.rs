//! The measurements of one run, and their merge into a row.

use std::time::Duration;

use super::timeline;
use crate::clock::ClockReading;
use crate::histogram::{Latencies, Percentiles};
use crate::repeats::{self, Spread};
use crate::report::{Cost, Errors};

/// One run of one row.
#[derive(Clone)]
pub(super) struct Outcome {
    /// Operations per second.
    pub(super) rate: f64,
    /// Those that were begun, a second; zero where that is not told.
    pub(super) begun: f64,
    /// The rate in each step of the measured interval; empty where that is not told.
    pub(super) timeline: Vec<f64>,
    pub(super) latency: Latency,
    pub(super) errors: Errors,
    /// Payloads compared.
    pub(super) verified: u64,
    pub(super) server: Cost,
    pub(super) client: Cost,
    pub(super) warnings: Vec<String>,
    /// Bytes of the server's memory for each connection, where that is measured.
    pub(super) memory: Option<f64>,
    /// The offset of the server's clock, where that is measured.
    pub(super) clock: Option<ClockReading>,
}

/// Latencies as their source gives them.
#[derive(Clone)]
pub(super) enum Latency {
    /// Samples of our own.
    Samples(Box<Latencies>),
    /// Another program's percentiles.
    Percentiles(Percentiles),
    /// Not measured.
    None,
}

/// The measurements of one core of the client.
pub(super) struct CoreOutcome {
    /// Within the measured interval.
    pub(super) operations: u64,
    /// Begun within it, where that is told.
    pub(super) begun: u64,
    /// Among which the costs are divided: those of the drain cost something too.
    pub(super) charged: u64,
    /// Elapsed, not requested.
    pub(super) elapsed: Duration,
    /// As in an [`Outcome`].
    pub(super) timeline: Vec<f64>,
    pub(super) latencies: Option<Latencies>,
    pub(super) errors: Errors,
    pub(super) verified: u64,
    pub(super) client: Cost,
    /// The first payload mismatch.
    pub(super) complaint: Option<String>,
    /// As in an [`Outcome`].
    pub(super) clock: Option<ClockReading>,
}

impl CoreOutcome {
    /// The cores' outcomes as one. `server` is what each of so many operations has cost the server, and
    /// `allocated` what all cores of the client together have allocated for them.
    pub(super) fn merge(
        cores: Vec<Self>,
        server: impl FnOnce(u64) -> Cost,
        allocated: u64,
    ) -> Outcome {
        let charged: u64 = cores.iter().map(|core| core.charged).sum();
        let rate = |count: fn(&Self) -> u64| -> f64 {
            cores.iter().map(|core| count(core) as f64 / core.elapsed.as_secs_f64()).sum()
        };
        let mut outcome = Outcome {
            rate: rate(|core| core.operations),
            begun: rate(|core| core.begun),
            timeline: timeline::sum(cores.iter().map(|core| &core.timeline[..])),
            latency: Latency::None,
            errors: Errors::default(),
            verified: 0,
            server: server(charged),
            client: Cost::default(),
            warnings: Vec::new(),
            memory: None,
            clock: cores.iter().filter_map(|core| core.clock).reduce(ClockReading::better),
        };
        outcome.client = Cost {
            allocations_per_op: (charged > 0).then(|| allocated as f64 / charged as f64),
            ..mean_cost(&cores, charged)
        };
        let mut latencies: Option<Box<Latencies>> = None;
        for core in cores {
            outcome.errors.add(&core.errors);
            outcome.verified += core.verified;
            outcome.warnings.extend(core.complaint);
            match (&mut latencies, core.latencies) {
                (Some(all), Some(more)) => all.merge(&more),
                (None, Some(first)) => latencies = Some(Box::new(first)),
                (_, None) => {}
            }
        }
        if let Some(latencies) = latencies {
            outcome.latency = Latency::Samples(latencies);
        }
        outcome
    }
}

/// The mean of what the cores know of their own costs, each core weighing as much as it has done.
fn mean_cost(cores: &[CoreOutcome], charged: u64) -> Cost {
    let mean = |part: fn(&Cost) -> Option<f64>| {
        let weigh = |core: &CoreOutcome| Some(part(&core.client)? * core.charged as f64);
        let sum: Option<f64> = cores.iter().map(weigh).sum();
        sum.filter(|_| charged > 0).map(|sum| sum / charged as f64)
    };
    Cost {
        cpu_us_per_op: mean(|cost| cost.cpu_us_per_op),
        syscalls_per_op: mean(|cost| cost.syscalls_per_op),
        allocations_per_op: None,
    }
}

/// Our own samples of all runs together.
pub(super) fn samples(runs: &[Outcome]) -> Option<Box<Latencies>> {
    let mut merged: Option<Box<Latencies>> = None;
    for run in runs {
        match (&run.latency, &mut merged) {
            (Latency::Samples(more), Some(all)) => all.merge(more),
            (Latency::Samples(first), None) => merged = Some(first.clone()),
            (Latency::Percentiles(_) | Latency::None, _) => {}
        }
    }
    merged
}

/// The percentiles of all runs together: those of our own `samples`, or the medians of others' percentiles.
pub(super) fn percentiles(runs: &[Outcome], samples: Option<&Latencies>) -> Percentiles {
    if let Some(samples) = samples {
        return samples.percentiles();
    }
    let given = runs.iter().filter_map(|run| match &run.latency {
        Latency::Percentiles(percentiles) => Some(*percentiles),
        Latency::Samples(_) | Latency::None => None,
    });
    let given: Vec<Percentiles> = given.collect();
    let median = |part: fn(&Percentiles) -> Option<f64>| repeats::median(given.iter().map(part));
    Percentiles {
        mean_us: median(|p| p.mean_us),
        p50_us: median(|p| p.p50_us),
        p90_us: median(|p| p.p90_us),
        p95_us: median(|p| p.p95_us),
        p99_us: median(|p| p.p99_us),
        p999_us: median(|p| p.p999_us),
        max_us: given.iter().filter_map(|p| p.max_us).reduce(f64::max),
    }
}

/// The medians of what an operation has cost one side, over all runs.
pub(super) fn cost(runs: &[Outcome], side: impl Fn(&Outcome) -> Cost) -> Cost {
    let median =
        |part: fn(&Cost) -> Option<f64>| repeats::median(runs.iter().map(|run| part(&side(run))));
    Cost {
        cpu_us_per_op: median(|cost| cost.cpu_us_per_op),
        syscalls_per_op: median(|cost| cost.syscalls_per_op),
        allocations_per_op: median(|cost| cost.allocations_per_op),
    }
}

/// The rates of all runs; zero for a row of which every run failed to begin.
pub(super) fn rates(runs: &[Outcome]) -> Spread {
    let rates: Vec<f64> = runs.iter().map(|run| run.rate).collect();
    Spread::of(&rates).unwrap_or(Spread { median: 0.0, min: 0.0, max: 0.0, cv: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core(operations: u64) -> CoreOutcome {
        CoreOutcome {
            operations,
            begun: 0,
            charged: operations,
            elapsed: Duration::from_secs(1),
            timeline: Vec::new(),
            latencies: None,
            errors: Errors::default(),
            verified: operations,
            client: Cost::per_operation(operations, None, Some(operations), None),
            complaint: None,
            clock: None,
        }
    }

    #[test]
    fn what_the_process_allocates_is_divided_among_the_operations_of_all_cores() {
        let per_op = |cores| {
            let merged = CoreOutcome::merge(cores, |_| Cost::default(), 600);
            (merged.client.allocations_per_op, merged.client.syscalls_per_op)
        };
        assert_eq!(per_op(vec![core(300)]), (Some(2.0), Some(1.0)));
        assert_eq!(per_op(vec![core(100), core(200)]), (Some(2.0), Some(1.0)));
        assert_eq!(per_op(vec![core(0)]), (None, None));
    }
}
