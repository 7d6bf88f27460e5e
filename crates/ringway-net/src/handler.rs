//! Callbacks that a program serves a connection by.

use ringway_runtime::View;

use crate::connection::Peer;
use crate::error::Error;

/// Serves one connection by callbacks that run where its bytes are found: no task, no waker, no
/// state machine. For work that never waits; what waits belongs into a task.
///
/// Every connection has a handler of its own. A panic resets its connection ([`Peer::abort`]) and nothing else.
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
    /// queue is above its high-water mark ([`Peer::set_paced`]). [`Peer::close`] ends the connection.
    fn on_message(&mut self, peer: &Peer, view: View);

    /// The send queue was above its high-water mark and has fallen below the low one.
    fn on_drained(&mut self, peer: &Peer) {
        let _ = peer;
    }

    /// The last call: the peer has finished sending, the server drains, the connection was closed by
    /// [`Peer::close`], or it has failed with `error`. What is queued, or sent here, still leaves
    /// unless it has failed, and is followed by the word that this was all ([`Peer::shutdown`]).
    fn on_close(&mut self, peer: &Peer, error: Option<&Error>) {
        let _ = (peer, error);
    }
}
