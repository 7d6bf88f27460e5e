//! Streams, listeners and datagram sockets of a core.

mod closing;
mod datagram;
mod deadlines;
mod inbox;
mod listener;
mod opening;
mod outbox;
mod stream;
mod stream_state;
mod waiters;

pub use closing::abort_dropped_streams;
pub use datagram::DatagramSocket;
pub(crate) use datagram::DatagramState;
pub(crate) use listener::ListenerState;
pub use listener::{Accepted, ListenOptions, Listener};
pub use stream::{Drained, Incoming, Next, Pressure, Recv, Stream, StreamLimits};
pub(crate) use stream_state::{Callback, End, Phase, RecvState, Relief, StreamState};

/// A registered descriptor of a core.
pub(crate) enum Socket {
    Stream(StreamState),
    Listener(ListenerState),
    Datagram(DatagramState),
}
