//! What the console shows of a connection.

use std::time::Duration;

use ringway_wire::native::{Side, StreamId};
use serde_json::{Value, json};

use super::connection::ServerConnection;
use super::machine::Machine;
use super::shown_connection::{ShownConnection, credit_json, millis};
use crate::connection::table::Waits;
use crate::limits;

impl<M: Machine> ServerConnection<M> {
    /// The connection for people, without its parts.
    pub(super) fn shown(&self) -> ShownConnection {
        let now = self.core().now();
        let machine = self.machine();
        let (in_flight, unread, unsent, credit) = (
            machine.in_flight(),
            machine.kept_len(Side::Unread),
            machine.kept_len(Side::Unsent),
            machine.shared_credit(),
        );
        drop(machine);
        let failure = self.last_failure.take();
        self.last_failure.set(failure.clone());
        let (site, waiting) = (self.site(), self.calls.borrow().len());
        ShownConnection {
            id: site.id(),
            peer: site.peer().address().map(ToString::to_string),
            is_tls: site.peer().is_tls(),
            protocols: vec![M::NAME],
            age: now.saturating_sub(self.opened_at()),
            in_flight,
            streams: self.known_streams().open(),
            waiting,
            unread,
            unsent,
            credit,
            calls: self.shown_calls(now),
            failure: failure.map(|failure| (failure.0, now.saturating_sub(failure.1))),
        }
    }

    /// The first calls that are under way.
    fn shown_calls(&self, now: Duration) -> Vec<Value> {
        let calls = self.calls.borrow();
        let shown = calls.under_way().take(limits::CONSOLE_CALLS_MAX);
        let shown = shown.map(|(stream, call, since)| {
            let (method, state) = match call {
                Ok(context) => (context.method().name(), self.state(stream)),
                Err(method_index) => (self.core().entry(method_index).method().name(), "queued"),
            };
            json!({
                "method": method,
                "age_ms": millis(now.saturating_sub(since)),
                "state": state,
                "credit": self.machine().credit(stream).map(credit_json),
            })
        });
        shown.collect()
    }

    /// What a call that runs is doing, as far as its stream tells.
    fn state(&self, stream: StreamId) -> &'static str {
        match self.known_streams().waits(stream) {
            Waits::ToSend => "client does not read",
            Waits::ToReceive => "client has to send",
            Waits::ForNobody => "in handler",
        }
    }
}
