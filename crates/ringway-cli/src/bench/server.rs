//! The server under test: one of ours, a peer, or one that runs already.

use std::error::Error;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::args::{BenchConfig, Placement, ServeConfig, Service, Transport, Uri};
use crate::process::{self, Peers, ServerProcess};
use crate::report::Cost;

/// A server that listens. Dropping it kills what was started for the purpose.
pub(super) struct Server {
    process: Option<ServerProcess>,
    uri: Uri,
    /// Whether it answers `snapshot`.
    counts: bool,
    /// Its last snapshot, for the environment.
    counters: Map<String, Value>,
}

/// Resources that a server has used by some moment; each is `None` where it cannot be known.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Usage {
    cpu: Option<Duration>,
    syscalls: Option<u64>,
    allocations: Option<u64>,
}

impl Server {
    /// Starts a server of our own in a process of its own.
    pub(super) fn own(
        config: &BenchConfig,
        service: Service,
        transport: Transport,
    ) -> Result<Self, Box<dyn Error>> {
        let serve = ServeConfig {
            service,
            listen: vec![process::private_address(transport)],
            cores: config.placement.server.clone(),
            backend: config.backend,
            spin: config.spin,
            tls: None,
            client_ca: None,
            control: true,
        };
        let process = ServerProcess::start(process::own_server(&serve)?, "the server")?;
        let uri = process.uri().clone();
        Ok(Self { process: Some(process), uri, counts: true, counters: Map::new() })
    }

    /// Starts the peer `kind` on the first of the server's cores: peers have one thread.
    pub(super) fn peer(
        peers: &Peers,
        kind: &str,
        transport: Transport,
        placement: &Placement,
    ) -> Result<Self, Box<dyn Error>> {
        let listen = process::private_address(transport);
        let process = peers.serve(kind, listen.as_str(), placement.server.as_slice()[0])?;
        let uri = process.uri().clone();
        Ok(Self { process: Some(process), uri, counts: false, counters: Map::new() })
    }

    /// A server that somebody else has started.
    pub(super) fn running(uri: &Uri) -> Self {
        Self { process: None, uri: uri.clone(), counts: false, counters: Map::new() }
    }

    /// The same, for clients of ours to speak gRPC to.
    pub(super) fn over_grpc(mut self) -> Self {
        self.uri = self.uri.over_grpc();
        self
    }

    /// The same, for JSON-RPC.
    pub(super) fn over_json_rpc(mut self) -> Self {
        self.uri = self.uri.over_json_rpc();
        self
    }

    /// The address at which clients find it.
    pub(super) fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Its counters as last read; empty if it has none.
    pub(super) fn counters(&self) -> &Map<String, Value> {
        &self.counters
    }

    /// The resources used since the server's start.
    ///
    /// # Errors
    /// It has ended or does not answer.
    pub(super) fn usage(&mut self) -> Result<Usage, process::ProcessError> {
        let Some(server) = &mut self.process else {
            return Ok(Usage::default());
        };
        if self.counts
            && let Value::Object(counters) = server.snapshot()?
        {
            self.counters = counters;
        }
        let count = |name: &str| self.counters.get(name).and_then(Value::as_u64);
        Ok(Usage {
            cpu: Some(server.cpu_time()?),
            syscalls: count("syscalls"),
            allocations: count("allocations"),
        })
    }

    /// Lets it drain.
    ///
    /// # Errors
    /// It did not end well.
    pub(super) fn stop(self) -> Result<(), process::ProcessError> {
        self.process.map_or(Ok(()), ServerProcess::stop)
    }
}

impl Usage {
    /// The cost of each of `operations` between `before` and this.
    pub(super) fn since(self, before: Usage, operations: u64) -> Cost {
        let count = |after: Option<u64>, before: Option<u64>| Some(after?.saturating_sub(before?));
        let cpu = self.cpu.zip(before.cpu).map(|(after, before)| after.saturating_sub(before));
        Cost::per_operation(
            operations,
            cpu,
            count(self.syscalls, before.syscalls),
            count(self.allocations, before.allocations),
        )
    }

    /// The resources that this thread, a core of a runtime, has used since its start. Allocations are counted
    /// for the whole process, so no core can say which were its own.
    pub(super) fn of_this_core() -> Self {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Self {
            cpu: Duration::try_from(time).ok(),
            syscalls: Some(ringway_runtime::CoreHandle::current().counters().syscalls),
            allocations: None,
        }
    }
}
