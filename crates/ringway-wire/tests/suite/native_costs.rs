//! In the steady state, calls and small messages of streams cost the machines no allocation.

use std::time::Duration;

use ringway_wire::native::{
    Body, Client, ClientEvent, Config, Open, Outgoing, Reply, Server, ServerEvent, StreamId,
};

use crate::support::allocations_of;
use crate::support::alone::alone;

/// Calls in flight, and messages in a batch.
const BATCH: usize = 64;

const NOW: Duration = Duration::ZERO;

struct Ends {
    client: Client,
    server: Server,
    up: Vec<u8>,
    down: Vec<u8>,
}

impl Ends {
    fn new() -> Self {
        let (client, server) =
            (Client::new(Config::default(), NOW), Server::new(Config::default(), NOW));
        Self { client, server, up: Vec::new(), down: Vec::new() }
    }

    /// The output of the client, in a buffer that is reused.
    fn upward(&mut self) {
        self.up.clear();
        let up = &mut self.up;
        self.client.transmit(usize::MAX, &mut |out| match out {
            Outgoing::Copy(part) => up.extend_from_slice(part),
            Outgoing::Shared(part) => up.extend_from_slice(&part),
        });
    }

    fn downward(&mut self) {
        self.down.clear();
        let down = &mut self.down;
        self.server.transmit(usize::MAX, &mut |out| match out {
            Outgoing::Copy(part) => down.extend_from_slice(part),
            Outgoing::Shared(part) => down.extend_from_slice(&part),
        });
    }

    /// Makes a batch of unary calls and echoes them. Returns how many were answered.
    fn unary(&mut self) -> usize {
        let body = [7; 47];
        for _ in 0..BATCH {
            let call = Open {
                method: 1,
                name: "echo.Echo/Say",
                timeout: Some(Duration::from_secs(10)),
                message: Some(Body::Copy(&body)),
                end: true,
                ..Open::default()
            };
            self.client.open(call).expect("room");
        }
        self.upward();
        let mut input = &self.up[..];
        while let Some(event) = self.server.receive(&mut input, NOW).expect("well-formed") {
            if let ServerEvent::Request { stream, message: Some(message), .. } = event {
                let message = Some(Body::Copy(&message));
                self.server.respond(stream, Reply { status: 0, meta: &[], message });
            }
        }
        self.downward();
        let mut answered = 0;
        let mut input = &self.down[..];
        while let Some(event) = self.client.receive(&mut input, NOW).expect("well-formed") {
            if let ClientEvent::Response { status: 0, message: Some(message), .. } = event {
                answered += usize::from(message.len() == body.len());
            }
        }
        answered
    }

    /// Opens a stream of replies. Returns its handler's id.
    fn watch(&mut self) -> StreamId {
        let call = Open { end: true, initial_credit: 1 << 20, ..Open::default() };
        let stream = self.client.open(call).expect("room");
        self.upward();
        while self.server.receive(&mut &self.up[..], NOW).expect("well-formed").is_some() {
            self.up.clear();
        }
        stream
    }

    /// Sends the number of messages that is wanted, which exceeds the output. Returns how many arrived.
    fn stream(&mut self, stream: StreamId, count: usize) -> usize {
        for _ in 0..count {
            self.server.send(stream, &[], Body::Copy(&[9; 128])).expect("open");
        }
        let mut came = 0;
        while self.server.has_output() {
            self.downward();
            let mut input = &self.down[..];
            while let Some(event) = self.client.receive(&mut input, NOW).expect("well-formed") {
                if let ClientEvent::Message { stream, message } = event {
                    came += usize::from(message.len() == 128);
                    self.client.taken(stream, 1);
                }
            }
            self.upward();
            let mut input = &self.up[..];
            while self.server.receive(&mut input, NOW).expect("well-formed").is_some() {}
        }
        came
    }
}

#[test]
fn calls_and_small_messages_cost_no_allocation() {
    alone(|| {
        let mut ends = Ends::new();
        let batches = std::env::var("RINGWAY_BATCHES").ok().and_then(|count| count.parse().ok());
        for _ in 0..4 {
            assert_eq!(ends.unary(), BATCH);
        }
        let unary = allocations_of(|| {
            for _ in 0..batches.unwrap_or(50) {
                assert_eq!(ends.unary(), BATCH);
            }
        });
        assert_eq!(unary, 0, "unary calls");

        let stream = ends.watch();
        let messages: usize = std::env::var("RINGWAY_MESSAGES")
            .ok()
            .and_then(|count| count.parse().ok())
            .unwrap_or(50);
        for _ in 0..4 {
            assert_eq!(ends.stream(stream, 1_000), 1_000);
        }
        let messages = allocations_of(|| {
            for _ in 0..messages {
                assert_eq!(ends.stream(stream, 1_000), 1_000);
            }
        });
        assert_eq!(messages, 0, "messages of a stream");
    });
}
