//! The state that the cores of a server and its handles share.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use ringway_runtime::CoreHandle;

use super::control::Control;
use super::core_number::CoreNumber;
use super::hung::Hung;
use super::per_address::{self, PerAddress};
use super::settings::Settings;
use crate::address::Address;
use crate::limits;
use crate::session::ConnectionId;

/// The shared state of one server.
pub(crate) struct ServerShared {
    pub(crate) settings: Settings,
    pub(crate) addresses: Vec<Address>,
    pub(crate) control: Control,
    /// The process-wide numbers of the cores in ids, in the order of the server's cores.
    called: Box<[u16]>,
    /// Set once the cores have started, before any of them listens.
    handles: OnceLock<Vec<CoreHandle>>,
    cores: Box<[CoreShare]>,
    open: AtomicUsize,
    peak: AtomicUsize,
    per_address: PerAddress,
    pub(crate) hung: Hung,
}

/// The counters of one core, written by it and by cores that hand connections to it. The alignment
/// keeps them off their neighbours' cache lines.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct CoreShare {
    open: AtomicUsize,
    pub(crate) accepted: AtomicU64,
    pub(crate) handed_off: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) accept_errors: AtomicU64,
    pub(crate) handshakes: AtomicU64,
    pub(crate) handshake_errors: AtomicU64,
    pub(crate) handler_errors: AtomicU64,
    pub(crate) handler_panics: AtomicU64,
}

impl CoreShare {
    /// Returns the number of open connections of the core.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

/// Counts an accepted descriptor as open. It moves with the descriptor from core to core, stays
/// through the handshake and the remaining sends after the handler's end, and is dropped when the
/// descriptor has been closed. Everything that counts or waits for connections counts permits.
pub(crate) struct Permit {
    shared: Arc<ServerShared>,
    core: u16,
    prefix: Option<Box<IpAddr>>,
}

/// Why a connection is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    ConnectionsMax,
    PerAddressMax,
    /// The peer has gone, and its address is not known any more.
    Gone,
}

impl ServerShared {
    pub(crate) fn new(
        settings: Settings,
        addresses: Vec<Address>,
        called: &[CoreNumber],
        hooks_pending: bool,
    ) -> Self {
        let cores = called.len();
        Self {
            settings,
            addresses,
            control: Control::new(cores, hooks_pending),
            called: called.iter().map(CoreNumber::get).collect(),
            handles: OnceLock::new(),
            cores: (0..cores).map(|_| CoreShare::default()).collect(),
            open: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            per_address: PerAddress::default(),
            hung: Hung::new(cores, Vec::new()),
        }
    }

    pub(crate) fn set_handles(&self, handles: Vec<CoreHandle>) {
        assert!(self.handles.set(handles).is_ok(), "a server starts its cores once");
    }

    pub(crate) fn handles(&self) -> &[CoreHandle] {
        self.handles.get().map_or(&[], |handles| handles)
    }

    /// Returns the core that owns or has owned the connection; `None` if it belongs to another
    /// server.
    pub(crate) fn home(&self, id: ConnectionId) -> Option<&CoreHandle> {
        let called = id.core()?;
        self.handles().get(self.called.iter().position(|&core| core == called)?)
    }

    pub(crate) fn core(&self, number: usize) -> &CoreShare {
        &self.cores[number]
    }

    pub(crate) fn cores(&self) -> &[CoreShare] {
        &self.cores
    }

    /// Returns the number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// Returns the largest number of connections that were open at once.
    pub(crate) fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }

    /// Counts a connection from `address` that `core` will serve.
    ///
    /// # Errors
    /// Fails when a limit is reached.
    pub(crate) fn admit(
        self: &Arc<Self>,
        core: usize,
        address: Option<IpAddr>,
    ) -> Result<Permit, Refusal> {
        let open = self.open.fetch_add(1, Ordering::SeqCst) + 1;
        self.cores[core].open.fetch_add(1, Ordering::Relaxed);
        let mut permit = Permit { shared: Arc::clone(self), core: core as u16, prefix: None };
        if open > self.settings.connections_max {
            return Err(Refusal::ConnectionsMax);
        }
        if let (Some(max), Some(address)) = (self.settings.connections_per_address_max, address) {
            let prefix = per_address::prefix(address, self.settings.ipv6_prefix_len);
            if !self.per_address.add(prefix, max) {
                return Err(Refusal::PerAddressMax);
            }
            permit.prefix = Some(Box::new(prefix));
        }
        self.peak.fetch_max(open, Ordering::Relaxed);
        Ok(permit)
    }

    /// Chooses the core for a connection that `own` has accepted: `own`, unless it has noticeably
    /// more connections than the least loaded core that does not hang.
    pub(crate) fn core_for(&self, own: usize, spreads: bool) -> usize {
        let loads = self.cores.iter().map(CoreShare::open).enumerate();
        let loads = loads.filter(|&(core, _)| !self.hung.hangs(core));
        let Some((least, load)) = loads.min_by_key(|&(_, load)| load) else { return own };
        let slack = match spreads {
            true => 0,
            false => limits::HANDOFF_SLACK_MIN.max(load >> limits::HANDOFF_SLACK_SHIFT),
        };
        if self.cores[own].open() > load + slack { least } else { own }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permit(core {})", self.core)
    }
}

impl Permit {
    /// Counts the connection on another core from now on.
    pub(crate) fn move_to(&mut self, core: usize) {
        self.shared.cores[usize::from(self.core)].open.fetch_sub(1, Ordering::Relaxed);
        self.shared.cores[core].open.fetch_add(1, Ordering::Relaxed);
        self.core = core as u16;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.shared.cores[usize::from(self.core)].open.fetch_sub(1, Ordering::Relaxed);
        if let Some(prefix) = self.prefix.take() {
            self.shared.per_address.remove(&prefix);
        }
        if self.shared.open.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.shared.control.emptied();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(settings: Settings, cores: usize) -> Arc<ServerShared> {
        let called = CoreNumber::take(cores).expect("numbers");
        Arc::new(ServerShared::new(settings, Vec::new(), &called, false))
    }

    #[test]
    fn connections_beyond_the_maximum_are_refused_and_uncounted() {
        let settings = Settings { connections_max: 1, ..Settings::default() };
        let shared = shared(settings, 1);
        let first = shared.admit(0, None).expect("there is room for one");
        assert_eq!(shared.admit(0, None).err(), Some(Refusal::ConnectionsMax));
        assert_eq!((shared.open(), shared.peak()), (1, 1));
        drop(first);
        assert!(shared.admit(0, None).is_ok());
        assert_eq!(shared.open(), 0);
    }

    #[test]
    fn connections_are_limited_per_address() {
        let settings = Settings { connections_per_address_max: Some(1), ..Settings::default() };
        let shared = shared(settings, 1);
        let [one, other] = [[127, 0, 0, 1], [127, 0, 0, 2]].map(|ip| Some(IpAddr::from(ip)));
        let first = shared.admit(0, one).expect("the first of its address");
        assert_eq!(shared.admit(0, one).err(), Some(Refusal::PerAddressMax));
        assert!(shared.admit(0, other).is_ok());
        drop(first);
        assert!(shared.admit(0, one).is_ok(), "the next of its address");
    }

    #[test]
    fn core_with_noticeably_more_connections_hands_new_ones_over() {
        let shared = shared(Settings::default(), 2);
        let mut held = Vec::new();
        for _ in 0..limits::HANDOFF_SLACK_MIN {
            held.push(shared.admit(0, None).expect("room"));
            assert_eq!(shared.core_for(0, false), 0);
        }
        held.push(shared.admit(0, None).expect("room"));
        assert_eq!(shared.core_for(0, false), 1);
        held[0].move_to(1);
        assert_eq!(shared.core_for(0, false), 0);
        assert_eq!(shared.core_for(0, true), 1, "a single listener spreads evenly");
    }
}
