//! The state of a registered descriptor of a core.

use super::closed::Closed;
use super::datagram_state::DatagramState;
use super::listener_state::ListenerState;
use super::stream_state::{Phase, StreamState};

/// A registered descriptor of a core.
pub(crate) enum Socket {
    Stream(StreamState),
    Listener(ListenerState),
    Datagram(DatagramState),
}

impl Socket {
    /// Whether the descriptor is closed, so that only a handle keeps the slot.
    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Socket::Stream(state) => state.phase == Phase::Closed,
            Socket::Datagram(state) => state.is_closed(),
            Socket::Listener(state) => state.is_closed(),
        }
    }

    pub(super) fn note_closed(&mut self) -> Closed {
        match self {
            Socket::Stream(state) => state.note_closed(),
            Socket::Datagram(state) => state.note_closed(),
            Socket::Listener(state) => state.note_closed(),
        }
    }
}
