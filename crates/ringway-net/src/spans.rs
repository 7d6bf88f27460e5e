//! `tracing` spans, which show to which connection an event belongs.
//!
//! Without a subscriber a span costs one flag check: its fields are not computed, so there is no
//! allocation and no system call.

use tracing::level_filters::LevelFilter;
use tracing::{Span, field};

use crate::address::{Address, Endpoint};
use crate::connection::Connection;
use crate::session::ConnectionId;

/// Makes `connection{id, peer}`, the span of everything that serves a connection of a server.
pub(crate) fn of_connection(connection: &Connection) -> Span {
    connection_span(connection.id(), || connection.peer_addr().ok())
}

/// Makes `connect{address}`, the span of a client's attempts.
pub(crate) fn of_connect(address: &Address) -> Span {
    tracing::debug_span!("connect", %address)
}

/// Computes the peer's address only when the span is enabled, since it costs a system call. The
/// macro alone would compute it in vain if any crate of the program turns on the `log` feature of
/// tracing.
fn connection_span(id: ConnectionId, peer: impl FnOnce() -> Option<Endpoint>) -> Span {
    if LevelFilter::current() < LevelFilter::DEBUG {
        return Span::none();
    }
    tracing::debug_span!("connection", %id, peer = peer().map(field::display))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;

    struct ListensToAll;

    impl Subscriber for ListensToAll {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, _: &Event<'_>) {}

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn fields_are_not_computed_without_a_subscriber() {
        let asked = Cell::new(0);
        let peer = || {
            asked.set(asked.get() + 1);
            Some(Endpoint::Unnamed)
        };
        let id = ConnectionId::new(0, 1, 2);
        assert!(connection_span(id, peer).is_disabled());
        assert_eq!(asked.get(), 0);
        tracing::subscriber::with_default(ListensToAll, || {
            assert!(!connection_span(id, peer).is_disabled());
        });
        assert_eq!(asked.get(), 1);
    }
}
