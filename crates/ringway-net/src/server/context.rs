//! The state of a server on one core: its connections, their limits, whether it drains.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringway_runtime::io::StreamLimits;
use ringway_runtime::sync::CancellationToken;

use super::connections::Connections;
use super::core_number::CoreNumber;
use super::running::Running;
use super::seldom::Seldom;
use super::shared::{CoreShare, ServerShared};
use crate::connection::{Connection, ConnectionInner, ServerHooks};
use crate::limits;
use crate::tls::Handshakes;
use crate::transport::Transport;

thread_local! {
    static CONTEXT: RefCell<Option<Rc<CoreContext>>> = const { RefCell::new(None) };
}

/// Hands a new connection to the program.
pub(crate) type Serve = Box<dyn Fn(&Rc<CoreContext>, Connection)>;

/// One of these a core.
pub(crate) struct CoreContext {
    pub(crate) number: usize,
    pub(crate) shared: Arc<ServerShared>,
    pub(crate) limits: Rc<StreamLimits>,
    /// No more connections are accepted.
    pub(crate) stopping: CancellationToken,
    /// Who has come can be let in only when connections have ended.
    pub(crate) lacks_descriptors: CancellationToken,
    /// The server was asked to stop.
    pub(crate) draining: CancellationToken,
    /// Whoever has not ended is cut off.
    pub(crate) aborting: CancellationToken,
    /// Tasks that bring in something new until the server stops: one a listener, one a datagram
    /// socket.
    pub(crate) listeners: Running,
    pub(crate) datagrams: Running,
    /// TLS connections that are not open yet.
    pub(crate) handshakes: Handshakes,
    /// When it was last said that a connection was lost on its way here.
    pub(crate) lost: Seldom,
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
            lost: Seldom::default(),
            connections,
            hooks: Rc::new(hooks),
            serve,
        })
    }

    /// Makes this the context of the calling core.
    pub(crate) fn install(self: &Rc<Self>) {
        CONTEXT.set(Some(Rc::clone(self)));
    }

    /// The context of the calling core, while its server runs there.
    pub(crate) fn current() -> Option<Rc<Self>> {
        CONTEXT.with_borrow(Option::clone)
    }

    /// Takes the context away from the calling core.
    pub(crate) fn uninstall() {
        let former = CONTEXT.take();
        drop(former);
    }

    /// The counters of this core.
    pub(crate) fn share(&self) -> &CoreShare {
        self.shared.core(self.number)
    }

    pub(crate) fn count(&self, which: impl FnOnce(&CoreShare) -> &AtomicU64) {
        which(self.share()).fetch_add(1, Ordering::Relaxed);
    }

    /// Registers a connection and hands it to the program.
    pub(crate) fn open(self: &Rc<Self>, transport: Transport) {
        let Some(id) = self.connections.reserve() else {
            self.count(|share| &share.refused);
            if let Some(before) = self.lost.says() {
                let max = limits::SLOTS_MAX;
                tracing::warn!(before, "a core has {max} connections: one more is closed");
            }
            return;
        };
        // Whoever answers reads no further while its answers are not taken.
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
