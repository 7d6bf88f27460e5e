//! Spans of `tracing`: which connection an event belongs to.
//!
//! While nobody listens for them a span is the look at one flag: its fields are not computed, so
//! there is no allocation and no system call.

use tracing::level_filters::LevelFilter;
use tracing::{Span, field};

use crate::address::{Address, Endpoint};
use crate::connection::Connection;
use crate::session::ConnectionId;

/// `connection{id, peer}`: around everything that serves a connection of a server.
pub(crate) fn of_connection(connection: &Connection) -> Span {
    connection_span(connection.id(), || connection.peer_addr().ok())
}

/// `connect{address}`: around the attempts of a client.
pub(crate) fn of_connect(address: &Address) -> Span {
    tracing::debug_span!("connect", %address)
}

/// Asks for the peer only when the span is wanted: it costs a system call. The macro alone would
/// ask in vain as soon as any crate of the program turns on the `log` feature of tracing.
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
    fn nothing_is_computed_while_nobody_listens() {
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
