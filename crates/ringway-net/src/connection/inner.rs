//! The state that all handles of one connection share.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};

use bytes::Bytes;
use ringway_runtime::io::{Pressure, Stream, StreamLimits};
use ringway_runtime::{View, now};

use super::opening::Opening;
use super::server_hooks::ServerHooks;
use crate::error::{Error, Result};
use crate::session::{ConnectionId, Session};
use crate::slow_reader::SlowReader;
use crate::tls::TlsStream;
use crate::transport::Transport;

/// The state of a connection. The `Connection` or the handler's callback owns it; tables and groups
/// hold it weakly.
pub(crate) struct ConnectionInner {
    pub(super) transport: Transport,
    pub(super) session: Session,
    pub(super) limits: RefCell<Rc<StreamLimits>>,
    /// `None` if the connection belongs to no server.
    hooks: Option<Rc<ServerHooks>>,
    slow_reader: SlowReader,
    /// Counts the calls of [`close`](Self::close).
    closes: Cell<u32>,
    /// Whether the program wants to receive while the server drains.
    pub(super) receives_while_draining: Cell<bool>,
    pub(super) opening: Cell<Opening>,
}

impl ConnectionInner {
    pub(crate) fn new(
        transport: Transport,
        id: ConnectionId,
        limits: Rc<StreamLimits>,
        hooks: Option<Rc<ServerHooks>>,
        slow_reader: SlowReader,
    ) -> Self {
        Self {
            transport,
            session: Session::new(id),
            limits: RefCell::new(limits),
            hooks,
            slow_reader,
            closes: Cell::new(0),
            receives_while_draining: Cell::new(false),
            opening: Cell::new(Opening::Silent { since: now() }),
        }
    }

    #[inline]
    pub(crate) fn poll_recv(&self, cx: &mut Context<'_>) -> Poll<Result<Option<View>>> {
        let polled = self.transport.poll_recv(cx);
        if matches!(polled, Poll::Ready(Ok(Some(_)))) {
            self.note_bytes();
        }
        polled.map_err(Error::from)
    }

    /// Ends receiving as though the peer had finished after the received bytes.
    pub(crate) fn end_receiving(&self) {
        self.transport.end_receiving();
    }

    pub(crate) fn close(&self) {
        self.closes.set(self.closes.get().wrapping_add(1));
        self.end_receiving();
    }

    /// Returns a number that changes with every call of [`close`](Self::close).
    pub(crate) fn closes(&self) -> u32 {
        self.closes.get()
    }

    /// Finishes sending after the queued bytes, because the handler has ended.
    pub(crate) fn finish(&self) {
        self.transport.shutdown();
    }

    pub(crate) fn abort(&self) {
        self.transport.abort();
    }

    pub(super) fn set_paced(&self, paced: bool) {
        self.stream().set_paced(paced);
        if self.tls().is_some() {
            // Decrypted bytes wait here, and the stream does not know of them.
            self.stream().prompt();
        }
    }

    pub(crate) fn stream(&self) -> &Stream {
        self.transport.stream()
    }

    /// Returns why nothing can be sent any more, unless we ended sending ourselves.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.transport.failure().map(Error::from)
    }

    pub(crate) fn tls(&self) -> Option<&TlsStream> {
        self.transport.tls()
    }

    pub(crate) fn hooks(&self) -> Option<&ServerHooks> {
        self.hooks.as_deref()
    }

    pub(crate) fn id(&self) -> ConnectionId {
        self.session.id()
    }

    /// Queues a whole message that did not come from the connection's own task, under the
    /// slow-reader policy.
    pub(crate) fn push(&self, message: Bytes) -> Pushed {
        if self.slow_reader == SlowReader::Drop && self.stream().is_congested() {
            return Pushed::Dropped;
        }
        match self.transport.send(message.into()) {
            Pressure::Low => Pushed::Queued,
            Pressure::High => Pushed::Congested,
            Pressure::Closed => Pushed::Closed,
        }
    }

    pub(super) fn change_limits(&self, change: impl FnOnce(&mut StreamLimits)) {
        let mut limits = StreamLimits::clone(&self.limits.borrow());
        change(&mut limits);
        let limits = Rc::new(limits);
        // Replaced first: the stream wakes whoever waits for room, and a foreign waker may look at
        // the limits.
        self.limits.replace(Rc::clone(&limits));
        self.transport.stream().set_limits(limits);
    }
}

/// The outcome of a message that was pushed to a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pushed {
    Queued,
    /// Queued, and the connection is above its high-water mark.
    Congested,
    Dropped,
    Closed,
}

impl Drop for ConnectionInner {
    fn drop(&mut self) {
        if let Some(hooks) = &self.hooks {
            (hooks.on_drop)(self.session.id());
        }
    }
}

/// A weak reference to a connection, for tables and groups.
pub(crate) type WeakConnection = Weak<ConnectionInner>;
