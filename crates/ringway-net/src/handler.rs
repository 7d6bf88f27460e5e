//! Callbacks that serve a connection.

use ringway_runtime::View;

use crate::connection::Peer;
use crate::error::Error;

/// Serves one connection with callbacks that run right where its bytes are received: no task, no
/// waker, no state machine. It suits work that never waits; use a task for work that waits.
///
/// Each connection has its own handler. A panic resets its connection ([`Peer::abort`]) and nothing
/// else.
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
    /// Called when the connection is open.
    fn on_open(&mut self, peer: &Peer) {
        let _ = peer;
    }

    /// Called with received bytes: whatever one receive brought, not a frame. It is not called
    /// while the send queue is above its high-water mark ([`Peer::set_paced`]). [`Peer::close`]
    /// ends the connection.
    fn on_message(&mut self, peer: &Peer, view: View);

    /// Called when the send queue, having been above its high-water mark, has fallen below the
    /// low-water mark.
    fn on_drained(&mut self, peer: &Peer) {
        let _ = peer;
    }

    /// Called last: the peer has finished sending, the server drains, [`Peer::close`] was called,
    /// or the connection has failed with `error`. Unless it has failed, bytes that are queued or
    /// sent here still leave, followed by the end of the stream ([`Peer::shutdown`]).
    fn on_close(&mut self, peer: &Peer, error: Option<&Error>) {
        let _ = (peer, error);
    }
}
