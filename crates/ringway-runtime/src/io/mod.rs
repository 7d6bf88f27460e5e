//! Streams, listeners and datagram sockets of a core.

mod callback;
mod clocks;
mod closed;
mod closing;
mod datagram;
mod datagram_state;
mod deadlines;
mod inbox;
mod listener;
mod listener_state;
mod opening;
mod outbox;
mod socket;
mod stream;
mod stream_limits;
mod stream_state;
mod waiters;
mod waiting;

pub(crate) use callback::Callback;
pub use callback::{Incoming, Next};
pub use closing::abort_dropped_streams;
pub use datagram::DatagramSocket;
pub use listener::{Accepted, ListenOptions, Listener};
pub(crate) use socket::Socket;
pub use stream::{Drained, Pressure, Recv, Stream};
pub use stream_limits::StreamLimits;
pub(crate) use stream_state::{End, Phase, RecvState, Relief, StreamState};
