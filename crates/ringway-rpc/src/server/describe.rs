//! A connection as the console shows it.

use std::time::Duration;

use ringway_wire::native::{Side, StreamId};
use serde_json::{Value, json};

use super::connection::ServerConnection;
use super::machine::Machine;
use crate::connection::table::Waits;
use crate::limits;

impl<M: Machine> ServerConnection<M> {
    /// The connection for people.
    pub(super) fn description(&self) -> Value {
        let now = self.core().now();
        let machine = self.machine();
        let (in_flight, unread, unsent) =
            (machine.in_flight(), machine.kept_len(Side::Unread), machine.kept_len(Side::Unsent));
        drop(machine);
        let calls = self.calls.borrow();
        let shown: Vec<Value> = calls
            .under_way()
            .take(limits::CONSOLE_CALLS_MAX)
            .map(|(stream, call, since)| {
                let age_ms = millis(now.saturating_sub(since));
                match call {
                    Ok(context) => json!({
                        "method": context.method().name(),
                        "age_ms": age_ms,
                        "state": self.state(stream),
                    }),
                    Err(method_index) => json!({
                        "method": self.core().entry(method_index).method().name(),
                        "age_ms": age_ms,
                        "state": "queued",
                    }),
                }
            })
            .collect();
        let failure = self.last_failure.take();
        self.last_failure.set(failure.clone());
        let peer = self.site().peer();
        json!({
            "id": self.id().to_string(),
            "peer": peer.address().map(ToString::to_string),
            "tls": peer.is_tls(),
            "protocol": M::NAME,
            "age_ms": millis(now.saturating_sub(self.opened_at())),
            "in_flight": in_flight,
            "streams": self.known_streams().open(),
            "waiting": calls.len(),
            "unread": unread,
            "unsent": unsent,
            "calls": shown,
            "failure": failure.map(|failure| *failure).map(|(code, at)| json!({
                "code": code.name(),
                "ago_ms": millis(now.saturating_sub(at)),
            })),
        })
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

pub(super) fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
