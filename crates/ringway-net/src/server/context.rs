//! The state of a server on one core.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringway_runtime::io::StreamLimits;
use ringway_runtime::sync::CancellationToken;

use super::connections::Connections;
use super::core_number::CoreNumber;
use super::log_throttle::LogThrottle;
use super::running::Running;
use super::shared::{CoreShare, ServerShared};
use crate::connection::{Connection, ConnectionInner, ServerHooks};
use crate::limits;
use crate::tls::Handshakes;
use crate::transport::Transport;

thread_local! {
    static CONTEXT: RefCell<Option<Rc<CoreContext>>> = const { RefCell::new(None) };
}

/// Passes a new connection to the program.
pub(crate) type Serve = Box<dyn Fn(&Rc<CoreContext>, Connection)>;

/// The state of a server on one core: connections, limits, phase.
pub(crate) struct CoreContext {
    pub(crate) number: usize,
    pub(crate) shared: Arc<ServerShared>,
    pub(crate) limits: Rc<StreamLimits>,
    /// Cancelled when no more connections are accepted.
    pub(crate) stopping: CancellationToken,
    /// Cancelled when queued connections can be accepted only after others have ended.
    pub(crate) lacks_descriptors: CancellationToken,
    /// Cancelled when the server begins to drain.
    pub(crate) draining: CancellationToken,
    /// Cancelled when the remaining connections are aborted.
    pub(crate) aborting: CancellationToken,
    /// Tasks that accept connections, one per listener.
    pub(crate) listeners: Running,
    pub(crate) datagrams: Running,
    /// TLS handshakes under way.
    pub(crate) handshakes: Handshakes,
    /// Limits the log message about connections without a slot.
    pub(crate) slots_full: LogThrottle,
    pub(crate) connections: Rc<Connections>,
    hooks: Rc<ServerHooks>,
    serve: Serve,
}

impl CoreContext {
    pub(crate) fn new(
        number: usize,
        called: CoreNumber,
        shared: Arc<ServerShared>,
        serve: Serve,
    ) -> Rc<Self> {
        let draining = CancellationToken::new();
        let connections = Rc::new(Connections::new(called));
        let known = Rc::clone(&connections);
        let hooks = ServerHooks {
            core: number,
            draining: draining.clone(),
            on_drop: Box::new(move |id| known.forget(id)),
            server: Arc::clone(&shared) as _,
        };
        Rc::new(Self {
            number,
            limits: shared.settings.stream_limits(),
            handshakes: Handshakes::new(shared.settings.handshakes_max),
            shared,
            stopping: CancellationToken::new(),
            lacks_descriptors: CancellationToken::new(),
            draining,
            aborting: CancellationToken::new(),
            listeners: Running::default(),
            datagrams: Running::default(),
            slots_full: LogThrottle::default(),
            connections,
            hooks: Rc::new(hooks),
            serve,
        })
    }

    /// Installs this as the context of the calling core.
    pub(crate) fn install(self: &Rc<Self>) {
        CONTEXT.set(Some(Rc::clone(self)));
    }

    /// Returns the context of the calling core, while a server runs there.
    pub(crate) fn current() -> Option<Rc<Self>> {
        CONTEXT.with_borrow(Option::clone)
    }

    /// Removes the context of the calling core.
    pub(crate) fn uninstall() {
        let former = CONTEXT.take();
        drop(former);
    }

    /// Returns the counters of this core.
    pub(crate) fn share(&self) -> &CoreShare {
        self.shared.core(self.number)
    }

    pub(crate) fn count(&self, which: impl FnOnce(&CoreShare) -> &AtomicU64) {
        which(self.share()).fetch_add(1, Ordering::Relaxed);
    }

    /// Registers a connection and passes it to the program.
    pub(crate) fn open(self: &Rc<Self>, transport: Transport) {
        let Some(id) = self.connections.reserve() else {
            self.count(|share| &share.refused);
            if let Some(before) = self.slots_full.admit() {
                let max = limits::SLOTS_MAX;
                tracing::warn!(
                    before,
                    "a core has reached its limit of {max} connections; a new one is closed"
                );
            }
            return;
        };
        // A server must not read from a peer that does not read its replies.
        transport.stream().set_paced(true);
        let (limits, hooks) = (Rc::clone(&self.limits), Rc::clone(&self.hooks));
        let policy = self.shared.settings.slow_reader;
        let inner = Rc::new(ConnectionInner::new(transport, id, limits, Some(hooks), policy));
        self.connections.enter(&inner);
        if self.draining.is_cancelled() {
            inner.begin_drain();
        }
        (self.serve)(self, Connection::of_inner(inner));
    }
}
