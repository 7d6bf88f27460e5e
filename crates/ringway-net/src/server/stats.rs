//! The counters of a server.

use std::sync::atomic::{AtomicU64, Ordering};

use ringway_runtime::{CoreCounters, CoreHandle};

use super::shared::{CoreShare, ServerShared};

/// The counters of a server since its start, read at about the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerStats {
    /// Open connections: from their accept until their descriptor is closed.
    pub open: usize,
    /// The largest number of connections that were open at once.
    pub peak: usize,
    /// Accepted connections.
    pub accepted: u64,
    /// Accepted connections that were closed at once: a limit was reached, the server was being
    /// aborted, or the peer had left before its address could be counted.
    pub refused: u64,
    /// Accepted connections that were moved to another core than the one that accepted them.
    pub handed_off: u64,
    /// Times that accepting failed and paused, for example without free descriptors.
    pub accept_errors: u64,
    /// TLS handshakes that completed.
    pub handshakes: u64,
    /// TLS handshakes that failed, took too long or were abandoned.
    pub handshake_errors: u64,
    /// Handlers that ended with an error: tasks and datagram handlers that returned one, and
    /// [`Handler`](crate::Handler)s whose connection failed.
    pub handler_errors: u64,
    /// Handlers that panicked; for a [`Handler`](crate::Handler) this includes panics while it was
    /// made or dropped.
    pub handler_panics: u64,
    /// The counters of each core, in the order of their numbers.
    pub cores: Vec<CoreStats>,
}

/// The counters of one core of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CoreStats {
    /// Open connections of the core.
    pub open: usize,
    /// Connections that the core has accepted.
    pub accepted: u64,
    /// The kernel interface in use and its flags.
    pub backend: String,
    /// The runtime's counters of the core.
    pub counters: CoreCounters,
}

impl ServerStats {
    pub(crate) fn of(shared: &ServerShared) -> Self {
        let sum = |which: fn(&CoreShare) -> &AtomicU64| {
            shared.cores().iter().map(|core| which(core).load(Ordering::Relaxed)).sum()
        };
        let cores = shared.cores().iter().zip(shared.handles());
        Self {
            open: shared.open(),
            peak: shared.peak(),
            accepted: sum(|core| &core.accepted),
            refused: sum(|core| &core.refused),
            handed_off: sum(|core| &core.handed_off),
            accept_errors: sum(|core| &core.accept_errors),
            handshakes: sum(|core| &core.handshakes),
            handshake_errors: sum(|core| &core.handshake_errors),
            handler_errors: sum(|core| &core.handler_errors),
            handler_panics: sum(|core| &core.handler_panics),
            cores: cores.map(|(share, handle)| CoreStats::of(share, handle)).collect(),
        }
    }
}

impl CoreStats {
    fn of(share: &CoreShare, handle: &CoreHandle) -> Self {
        Self {
            open: share.open(),
            accepted: share.accepted.load(Ordering::Relaxed),
            backend: handle.backend().to_owned(),
            counters: handle.counters(),
        }
    }
}
