//! Runs clients of other projects. They print their counts and report when their interval begins and
//! ends, so that the server's costs are known for the same interval.

use std::error::Error;

use super::Bench;
use super::mongo;
use super::outcome::{Latency, Outcome};
use super::plan::{Setting, Workload};
use super::server::{Server, Usage};
use crate::args::{Pace, RpcLoad, RpcMode};
use crate::histogram::Percentiles;
use crate::process::{Edge, H2loadRun, PeerClientRun, PeerJob, ProcessError};
use crate::report::{Cost, Errors};

impl Bench<'_> {
    pub(super) fn run_peer_client(
        &self,
        setting: &Setting,
        job: PeerJob,
        server: Server,
    ) -> Result<Outcome, Box<dyn Error>> {
        let peers = self.programs.of_client(&job)?;
        let addr = server.uri().clone();
        let run = PeerClientRun {
            job,
            addr: &addr,
            uri: mongo::job(self.config).and_then(|job| job.uri.as_deref()),
            connections: setting.connections,
            size: setting.size,
            warmup: self.config.length.warmup,
            measured: self.config.length.measured,
            core: self.config.placement.client.as_slice()[0],
        };
        let mut watched = Watched::new(server);
        let result = peers.run_client(run, |edge| watched.note(edge))?;
        Ok(Outcome {
            rate: result.rate,
            begun: 0.0,
            timeline: Vec::new(),
            latency: Latency::Percentiles(Percentiles {
                p50_us: result.p50_us,
                p90_us: result.p90_us,
                p99_us: result.p99_us,
                p999_us: result.p999_us,
                max_us: result.max_us,
                ..Percentiles::default()
            }),
            errors: Errors {
                mismatched: result.mismatches,
                other: result.errors,
                ..Errors::default()
            },
            verified: result.messages,
            server: watched.stop(result.messages)?,
            client: Cost { cpu_us_per_op: result.client_cpu_us_per_op, ..Cost::default() },
            warnings: Vec::new(),
            memory: None,
            clock: None,
        })
    }

    pub(super) fn run_h2load(
        &self,
        setting: &Setting,
        server: Server,
    ) -> Result<Outcome, Box<dyn Error>> {
        let h2load = self.programs.h2load()?;
        let Workload::Rpc(RpcLoad { mode: RpcMode::Unary, pace: Pace::Closed { depth } }) =
            setting.workload
        else {
            return Err("h2load makes unary calls, so many at a time".into());
        };
        let addr = server.uri().clone();
        let run = H2loadRun {
            addr: &addr,
            path: "/ringway.bench.Echo/Say",
            connections: setting.connections,
            depth,
            size: setting.size,
            warmup: self.config.length.warmup,
            measured: self.config.length.measured,
            core: self.config.placement.client.as_slice()[0],
        };
        let mut watched = Watched::new(server);
        let result = h2load.run(&run, |edge| watched.note(edge))?;
        let due = result.calls * (u64::from(setting.size) + GRPC_PREFIX_BYTES);
        Ok(Outcome {
            rate: result.rate,
            begun: 0.0,
            timeline: Vec::new(),
            latency: Latency::Percentiles(Percentiles {
                max_us: result.max_us,
                ..Percentiles::default()
            }),
            errors: Errors {
                // h2load compares nothing, but failed replies have no content.
                mismatched: u64::from(result.content_bytes < due),
                timed_out: result.timed_out,
                other: result.failed,
                ..Errors::default()
            },
            verified: 0,
            server: watched.stop(result.calls)?,
            client: Cost::per_operation(result.calls, result.cpu, None, None),
            warnings: vec![NOT_COMPARED.to_owned()],
            memory: None,
            clock: None,
        })
    }
}

/// A server while another project's client measures it.
struct Watched {
    server: Server,
    before: Usage,
    after: Usage,
}

impl Watched {
    fn new(server: Server) -> Self {
        Self { server, before: Usage::default(), after: Usage::default() }
    }

    fn note(&mut self, edge: Edge) -> Result<(), ProcessError> {
        let usage = self.server.usage()?;
        match edge {
            Edge::Begin => self.before = usage,
            Edge::End => self.after = usage,
        }
        Ok(())
    }

    /// Drains the server. Returns what each of the operations has cost it.
    fn stop(self, operations: u64) -> Result<Cost, ProcessError> {
        self.server.stop()?;
        Ok(self.after.since(self.before, operations))
    }
}

/// The compressed flag and the length before each message.
const GRPC_PREFIX_BYTES: u64 = 5;

const NOT_COMPARED: &str = "h2load compares no payload; HTTP's status of each call and the bytes of all replies were looked at";
