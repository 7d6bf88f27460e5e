//! The server under test: our own, a peer, or one that is already running.

use std::error::Error;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::args::{BenchConfig, Cores, Placement, ServeConfig, Service, Transport, Uri};
use crate::process::{self, DataFolder, EtcdProcess, Peers, ServerProcess};
use crate::report::Cost;

/// A running server. Dropping it kills a process that was started for it.
pub(super) struct Server {
    process: Option<ServerProcess>,
    etcd: Option<EtcdProcess>,
    /// The data of our own registry.
    data: Option<DataFolder>,
    uri: Uri,
    /// Whether it answers `snapshot`.
    counts: bool,
    /// Its latest snapshot, for the environment.
    counters: Map<String, Value>,
}

/// The resources used by a server up to some moment; each is `None` if unknown.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Usage {
    cpu: Option<Duration>,
    syscalls: Option<u64>,
    allocations: Option<u64>,
    /// Bytes of memory at that moment.
    resident: Option<u64>,
}

impl Server {
    /// Starts our own server as a process.
    pub(super) fn own(
        config: &BenchConfig,
        service: Service,
        transport: Transport,
    ) -> Result<Self, Box<dyn Error>> {
        let is_registry = service == Service::Registry;
        let data = if is_registry { Some(DataFolder::create()?) } else { None };
        let serve = ServeConfig {
            service,
            listen: vec![process::private_address(transport)],
            cores: config.placement.server.clone(),
            backend: config.backend,
            spin: config.spin,
            tls: None,
            client_ca: None,
            data: data.as_ref().map(|folder| folder.path().to_owned()),
            advertised: Vec::new(),
            stats: None,
            control: true,
        };
        let process = ServerProcess::start(process::own_server(&serve)?, "the server")?;
        let uri = process.uri().clone();
        let counts = true;
        Ok(Self { process: Some(process), etcd: None, data, uri, counts, counters: Map::new() })
    }

    /// Starts the peer `kind` on the first of the server's cores, since peers have one thread.
    pub(super) fn peer(
        peers: &Peers,
        kind: &str,
        transport: Transport,
        placement: &Placement,
    ) -> Result<Self, Box<dyn Error>> {
        let listen = process::private_address(transport);
        let process = peers.serve(kind, listen.as_str(), placement.server.as_slice()[0])?;
        let uri = process.uri().clone();
        Ok(Self { process: Some(process), ..Self::running(&uri) })
    }

    /// Uses a server that somebody else has started.
    pub(super) fn running(uri: &Uri) -> Self {
        Self {
            process: None,
            etcd: None,
            data: None,
            uri: uri.clone(),
            counts: false,
            counters: Map::new(),
        }
    }

    /// Starts a real etcd.
    pub(super) fn etcd(cores: &Cores) -> Result<Self, Box<dyn Error>> {
        let etcd = EtcdProcess::start(cores)?;
        let uri = etcd.uri().clone();
        Ok(Self { etcd: Some(etcd), ..Self::running(&uri) })
    }

    /// Uses it over gRPC.
    pub(super) fn over_grpc(mut self) -> Self {
        self.uri = self.uri.over_grpc();
        self
    }

    /// Uses it over JSON-RPC.
    pub(super) fn over_json_rpc(mut self, transport: Transport) -> Self {
        self.uri = self.uri.over_json_rpc(transport);
        self
    }

    /// Returns the address for clients.
    pub(super) fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Returns its counters as last read; empty if it has none.
    pub(super) fn counters(&self) -> &Map<String, Value> {
        &self.counters
    }

    /// Returns the resources used since the server's start.
    ///
    /// # Errors
    /// The server has ended or does not answer.
    pub(super) fn usage(&mut self) -> Result<Usage, process::ProcessError> {
        if let Some(etcd) = &self.etcd {
            return Ok(Usage { cpu: etcd.cpu_time().ok(), ..Usage::default() });
        }
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
            resident: server.resident_bytes(),
            cpu: Some(server.cpu_time()?),
            syscalls: count("syscalls"),
            allocations: count("allocations"),
        })
    }

    /// Drains it.
    ///
    /// # Errors
    /// The server did not end in order.
    pub(super) fn stop(self) -> Result<(), process::ProcessError> {
        let stopped = self.process.map_or(Ok(()), ServerProcess::stop);
        drop(self.data);
        stopped
    }
}

impl Usage {
    /// Returns the bytes that it has more than `before`; negative if it has fewer.
    pub(super) fn grown_since(self, before: Usage) -> Option<i64> {
        Some(self.resident? as i64 - before.resident? as i64)
    }

    /// Returns the cost of each of `operations` between `before` and this.
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

    /// Returns the resources used by this thread, a core of a runtime, since its start. Allocations are counted
    /// for the whole process, so a core does not know its own.
    pub(super) fn of_this_core() -> Self {
        Self::of_this_thread(ringway_runtime::CoreHandle::current().counters().syscalls)
    }

    /// Returns the time that this thread has used, which is no core and counts its own system calls.
    pub(super) fn of_this_thread(syscalls: u64) -> Self {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Self { cpu: Duration::try_from(time).ok(), syscalls: Some(syscalls), ..Self::default() }
    }

    /// Returns the time that all threads of this process have used.
    pub(super) fn of_this_process() -> Self {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Self { cpu: Duration::try_from(time).ok(), ..Self::default() }
    }
}
