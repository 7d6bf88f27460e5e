//! Serving connections by callbacks, without a task each.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ringway_runtime::io::{Incoming, Next};
use ringway_runtime::{View, spawn_named};
use tracing::Instrument;

use crate::connection::{Connection, Peer};
use crate::error::{Error, Result};
use crate::server::{report_error, report_panic};
use crate::spans;

/// Serves one connection by callbacks that run where its bytes are found: no task, no waker, no
/// state machine. For work that never waits; what waits belongs into a task.
///
/// Every connection has a handler of its own. A panic closes its connection and nothing else.
///
/// ```no_run
/// use ringway_net::{Handler, Peer, Server, View};
///
/// #[derive(Default)]
/// struct Count {
///     bytes: usize,
/// }
///
/// impl Handler for Count {
///     fn on_message(&mut self, peer: &Peer, view: View) {
///         self.bytes += view.len();
///         peer.send(view);
///     }
/// }
///
/// fn main() -> ringway_net::Result {
///     Server::bind("tcp://127.0.0.1:7001")?.serve_with(Count::default)
/// }
/// ```
pub trait Handler: 'static {
    /// The connection is open.
    fn on_open(&mut self, peer: &Peer) {
        let _ = peer;
    }

    /// Bytes have arrived: whatever a receive brought, not a frame. Not called while the send
    /// queue is above its high-water mark. [`Peer::close`] ends the connection.
    fn on_message(&mut self, peer: &Peer, view: View);

    /// The send queue was above its high-water mark and has fallen below the low one.
    fn on_drained(&mut self, peer: &Peer) {
        let _ = peer;
    }

    /// The last call: the peer has finished sending, the server drains, or the connection has
    /// failed with `error`. What is queued, or sent here, still leaves unless it has failed.
    fn on_close(&mut self, peer: &Peer, error: Option<&Error>) {
        let _ = (peer, error);
    }
}

/// Gives a connection to its handler.
pub(crate) fn serve(connection: Connection, handler: impl Handler) {
    let mut handler = handler;
    let span = spans::of_connection(&connection);
    let open = || contain(connection.id(), || handler.on_open(&connection));
    if span.in_scope(open).is_none() {
        return;
    }
    if connection.is_tls() {
        spawn_named("connection", serve_in_task(connection, handler).instrument(span));
        return;
    }
    let peer = connection.into_peer();
    let link = peer.link().clone();
    link.stream().set_callback(move |incoming| {
        let _entered = span.enter();
        let step = || deliver(&mut handler, &peer, incoming);
        contain(peer.id(), step).unwrap_or(Next::Close)
    });
}

fn deliver(handler: &mut impl Handler, peer: &Peer, incoming: Incoming) -> Next {
    match incoming {
        Incoming::Data(view) => {
            peer.link().note_bytes();
            handler.on_message(peer, view);
        }
        Incoming::Drained => handler.on_drained(peer),
        Incoming::Eof => return close(handler, peer, None),
        Incoming::Failed(error) => return close(handler, peer, Some(&error.into())),
    }
    match peer.link().is_ended() {
        true => close(handler, peer, None),
        false => Next::Continue,
    }
}

fn close(handler: &mut impl Handler, peer: &Peer, error: Option<&Error>) -> Next {
    if let Some(error) = error {
        report_error(peer.id(), error);
    }
    handler.on_close(peer, error);
    Next::Close
}

/// The same over a transport that has bytes only when asked: TLS.
async fn serve_in_task(mut connection: Connection, mut handler: impl Handler) {
    loop {
        let congested = connection.queued_bytes() >= connection.limits().send_high_water;
        let received = connection.recv().await;
        let step = || {
            if congested {
                handler.on_drained(&connection);
            }
            deliver(&mut handler, &connection, incoming(received))
        };
        if contain(connection.id(), step) != Some(Next::Continue) {
            return;
        }
    }
}

fn incoming(received: Result<Option<View>>) -> Incoming {
    match received {
        Ok(Some(view)) => Incoming::Data(view),
        Ok(None) => Incoming::Eof,
        Err(error) => Incoming::Failed(error.into()),
    }
}

/// Runs a callback; `None` when it panicked.
fn contain<T>(id: crate::ConnectionId, call: impl FnOnce() -> T) -> Option<T> {
    let outcome: Result<T, Box<dyn Any + Send>> = catch_unwind(AssertUnwindSafe(call));
    outcome.inspect_err(|panic| report_panic(id, &**panic)).ok()
}
