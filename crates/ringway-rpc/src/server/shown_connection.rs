//! A connection as the console shows it.

use std::time::Duration;

use ringway_wire::native::Credit;
use serde_json::{Value, json};

use crate::call::status::Code;
use crate::limits;

/// A connection for people, with its parts.
pub(super) struct ShownConnection {
    pub(super) id: u64,
    pub(super) peer: Option<String>,
    pub(super) is_tls: bool,
    /// The protocols that its parts speak, the one that carries the others first.
    pub(super) protocols: Vec<&'static str>,
    pub(super) age: Duration,
    pub(super) in_flight: usize,
    pub(super) streams: usize,
    pub(super) waiting: usize,
    pub(super) unread: usize,
    pub(super) unsent: usize,
    pub(super) credit: Option<Credit>,
    pub(super) calls: Vec<Value>,
    /// The last failure of a call, and how long ago that was.
    pub(super) failure: Option<(Code, Duration)>,
}

impl ShownConnection {
    /// Adds what a part of the connection has under way.
    pub(super) fn add(&mut self, part: ShownConnection) {
        self.in_flight += part.in_flight;
        self.streams += part.streams;
        self.waiting += part.waiting;
        self.unread += part.unread;
        self.unsent += part.unsent;
        for protocol in part.protocols {
            if !self.protocols.contains(&protocol) {
                self.protocols.push(protocol);
            }
        }
        self.calls.extend(part.calls);
        self.calls.truncate(limits::CONSOLE_CALLS_MAX);
        let failures = self.failure.take().into_iter().chain(part.failure);
        self.failure = failures.min_by_key(|(_, ago)| *ago);
    }

    pub(super) fn into_json(self) -> Value {
        json!({
            "id": self.id.to_string(),
            "peer": self.peer,
            "tls": self.is_tls,
            "protocol": self.protocols.join(" + "),
            "age_ms": millis(self.age),
            "in_flight": self.in_flight,
            "streams": self.streams,
            "waiting": self.waiting,
            "unread": self.unread,
            "unsent": self.unsent,
            "credit": self.credit.map(credit_json),
            "calls": self.calls,
            "failure": self.failure.map(|(code, ago)| json!({
                "code": code.name(),
                "ago_ms": millis(ago),
            })),
        })
    }
}

pub(super) fn credit_json(credit: Credit) -> Value {
    json!({ "to_send": credit.to_send, "to_receive": credit.to_receive })
}

pub(super) fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
