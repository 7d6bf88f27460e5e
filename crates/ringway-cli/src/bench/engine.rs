//! Runs a client on its cores: all of them connect, then all start their clocks.

use std::error::Error;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use ringway_runtime::sleep;
use serde_json::{Map, Value};
use socket2::SockAddr;

use super::connect;
use super::outcome::{CoreOutcome, Outcome};
use super::server::{Server, Usage};
use crate::args::{BenchConfig, RunLength, Scheme, Uri};
use crate::cores;
use crate::limits;
use crate::process::ProcessError;
use crate::progress::Progress;

/// The share of one core of the client.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) uri: Uri,
    pub(super) address: Option<SockAddr>,
    /// Number of connections of all cores together.
    all: u32,
    /// The numbers of its connections.
    pub(super) connections: Range<u32>,
    pub(super) length: RunLength,
    gate: Arc<Gate>,
    /// Present on the one core that reads the counters of whole processes.
    costs: Option<Arc<Mutex<ProcessCosts>>>,
}

/// A barrier for all cores.
struct Gate {
    expected: u32,
    arrived: AtomicU32,
}

/// Resources used by the two processes before the measured interval and after it.
struct ProcessCosts {
    server: Server,
    before: Usage,
    after: Usage,
    /// Allocations of the client on all its cores.
    allocations_before: u64,
    allocations_after: u64,
}

/// The result of a run.
pub(super) struct Ran {
    pub(super) outcome: Outcome,
    pub(super) server: Server,
    /// CPU time of the client.
    pub(super) counters: Map<String, Value>,
    /// Bytes by which the server's memory has grown.
    pub(super) grown: Option<i64>,
}

impl Ran {
    /// Tells what each of `connections` has cost the server in memory, if all of them were made.
    pub(super) fn with_memory_of(mut self, connections: u32) -> Self {
        let grown = self.grown.filter(|_| self.outcome.errors.total() == 0);
        self.outcome.memory = grown.map(|bytes| bytes as f64 / f64::from(connections));
        self
    }
}

/// Runs `client` on every core of the client with `connections` in all against `server`.
///
/// # Errors
/// The address does not resolve, a core is refused or fails, or the server ends.
pub(super) fn run<C, F>(
    config: &BenchConfig,
    connections: u32,
    server: Server,
    progress: &mut Progress,
    client: C,
) -> Result<Ran, Box<dyn Error>>
where
    C: Fn(Part) -> F + Clone + Send + 'static,
    F: Future<Output = io::Result<CoreOutcome>> + 'static,
{
    let uri = server.uri().clone();
    let has_address = uri.scheme() != Scheme::Source;
    let address = has_address.then(|| connect::resolve(&uri)).transpose();
    let address = address.map_err(|error| format!("cannot resolve {uri}: {error}"))?;
    let placement = &config.placement.client;
    let runtime = cores::builder(placement, config.backend, config.client_spin)?.start()?;
    let costs = Arc::new(Mutex::new(ProcessCosts::new(server)));
    let (sender, outcomes) = mpsc::channel();
    let count = u32::try_from(runtime.cores().len())?.min(connections);
    let gate = Arc::new(Gate { expected: count, arrived: AtomicU32::new(0) });
    for index in 0..count {
        let part = Part {
            uri: uri.clone(),
            address: address.clone(),
            all: connections,
            connections: share(connections, index, count),
            length: config.length,
            gate: Arc::clone(&gate),
            costs: (index == 0).then(|| Arc::clone(&costs)),
        };
        let (client, sender) = (client.clone(), sender.clone());
        // The outcome comes through the channel, on which the progress bar can wait.
        drop(runtime.cores()[index as usize].spawn(async move || {
            _ = sender.send(client(part).await);
        })?);
    }
    drop(sender);
    let limit = config.length.warmup + config.length.measured + limits::RUN_SLACK;
    let cores = collect(&outcomes, count, limit, progress)?;
    let counters = cores::counters_of(runtime.cores());
    runtime.shutdown()?;
    let costs = Arc::into_inner(costs).ok_or("a core of the client did not end")?;
    let costs = costs.into_inner().unwrap_or_else(PoisonError::into_inner);
    let allocated = costs.allocations_after - costs.allocations_before;
    let grown = costs.after.grown_since(costs.before);
    let server = |operations| costs.after.since(costs.before, operations);
    let outcome = CoreOutcome::merge(cores, server, allocated);
    Ok(Ran { outcome, server: costs.server, counters, grown })
}

fn collect(
    outcomes: &mpsc::Receiver<io::Result<CoreOutcome>>,
    count: u32,
    limit: Duration,
    progress: &mut Progress,
) -> Result<Vec<CoreOutcome>, Box<dyn Error>> {
    let mut cores = Vec::new();
    for _ in 0..count {
        let outcome = progress.watch(outcomes, limit).map_err(|error| match error {
            mpsc::RecvTimeoutError::Timeout => format!("a run did not end within {limit:?}"),
            mpsc::RecvTimeoutError::Disconnected => "a core of the client failed".to_owned(),
        })?;
        cores.push(outcome.map_err(|error| format!("the client: {error}"))?);
    }
    Ok(cores)
}

impl Part {
    /// Returns this core's share of all connections.
    pub(super) fn share_of_all(&self) -> f64 {
        self.connections.len() as f64 / f64::from(self.all)
    }

    /// Waits until every core has reached round `round`, counted from 1.
    pub(super) async fn wait_for_all(&self, round: u32) {
        self.gate.arrived.fetch_add(1, Ordering::AcqRel);
        let deadline = Instant::now() + limits::RUN_SLACK;
        while self.gate.arrived.load(Ordering::Acquire) < self.gate.expected * round
            && Instant::now() < deadline
        {
            sleep(GATE_LOOK_EVERY).await;
        }
    }

    /// Records what the processes have used before the clock starts. It blocks the core, so the server does
    /// almost nothing meanwhile.
    pub(super) fn read_costs_before(&self) -> io::Result<()> {
        self.with_costs(|costs| {
            costs.before = costs.server.usage()?;
            costs.allocations_before = crate::allocations::count();
            Ok(())
        })
    }

    /// Records what they have used once the clock has stopped.
    pub(super) fn read_costs_after(&self) -> io::Result<()> {
        self.with_costs(|costs| {
            costs.allocations_after = crate::allocations::count();
            costs.after = costs.server.usage()?;
            Ok(())
        })
    }

    fn with_costs(
        &self,
        read: impl FnOnce(&mut ProcessCosts) -> Result<(), ProcessError>,
    ) -> io::Result<()> {
        let Some(costs) = &self.costs else {
            return Ok(());
        };
        let mut costs = costs.lock().unwrap_or_else(PoisonError::into_inner);
        read(&mut costs).map_err(io::Error::other)
    }
}

impl ProcessCosts {
    fn new(server: Server) -> Self {
        let (before, after) = (Usage::default(), Usage::default());
        Self { server, before, after, allocations_before: 0, allocations_after: 0 }
    }
}

/// Returns the numbers of the connections of core `index` of `count`.
fn share(connections: u32, index: u32, count: u32) -> Range<u32> {
    let bound = |index: u32| {
        u32::try_from(u64::from(connections) * u64::from(index) / u64::from(count))
            .expect("no more than all connections")
    };
    bound(index)..bound(index + 1)
}

/// Cores wait for each other only before the clock starts, so coarse polling is enough.
const GATE_LOOK_EVERY: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_connection_belongs_to_one_core() {
        for (connections, count) in [(1, 1), (10, 3), (1000, 7), (5, 5)] {
            let mut next = 0;
            for index in 0..count {
                let range = share(connections, index, count);
                assert_eq!(range.start, next);
                assert!(!range.is_empty());
                next = range.end;
            }
            assert_eq!(next, connections);
        }
    }
}
