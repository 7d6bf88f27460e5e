//! The counters of a server.

use std::sync::atomic::{AtomicU64, Ordering};

use ringway_runtime::{CoreCounters, CoreHandle};

use super::shared::{CoreShare, ServerShared};

/// Counts of a server since its start, read at about one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerStats {
    /// Connections open now: from being accepted until their descriptor is closed.
    pub open: usize,
    /// Most connections that were open at once.
    pub peak: usize,
    /// Connections accepted.
    pub accepted: u64,
    /// Accepted connections that were closed at once, since a limit was reached, the server was being
    /// aborted, or the peer had left before its address could be counted.
    pub refused: u64,
    /// Accepted connections that were given to another core than the one that accepted them.
    pub handed_off: u64,
    /// Times that accepting failed and paused, as without free descriptors.
    pub accept_errors: u64,
    /// TLS handshakes that were completed.
    pub handshakes: u64,
    /// TLS handshakes that failed, took too long or were given up.
    pub handshake_errors: u64,
    /// Handlers that ended with an error: those that returned one, of connections or of datagrams,
    /// and [`Handler`](crate::Handler)s whose connection failed.
    pub handler_errors: u64,
    /// Handlers that panicked; [`Handler`](crate::Handler)s also when they were made, and when they
    /// were dropped at the end of their connections.
    pub handler_panics: u64,
    /// Each core, in the order of their numbers.
    pub cores: Vec<CoreStats>,
}

/// Counts of one core of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CoreStats {
    /// Connections that live on the core now.
    pub open: usize,
    /// Connections that the core has accepted.
    pub accepted: u64,
    /// The kernel interface in use and the flags that it took.
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
