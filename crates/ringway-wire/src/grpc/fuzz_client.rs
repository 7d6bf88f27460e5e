//! A fuzz function that feeds arbitrary bytes to a client: the result must not depend on where they
//! are cut.

use std::time::Duration;

use super::{ClientConfig, GrpcClient};
use crate::http2::Violation;
use crate::native::{Body, ClientEvent, Open, Piece};

/// Feeds a client that has opened three calls; the first byte says how the input is cut.
pub fn fuzz(data: &[u8]) {
    let [cut, input @ ..] = data else { return };
    let whole = run(input, usize::MAX);
    for step in [1, usize::from(*cut) + 1] {
        assert_eq!(run(input, step), whole, "in pieces of {step}");
    }
}

/// Runs a client on the input, and returns its events and error.
fn run(wire: &[u8], step: usize) -> (Vec<String>, Option<Violation>) {
    let now = Duration::ZERO;
    let config = ClientConfig { max_message: 1_000, ..ClientConfig::new("name") };
    let mut client = GrpcClient::new(config, now);
    for end in [true, false, true] {
        let message = Some(Body::Copy(b"hello"));
        let open = Open { method: 1, name: "a.B/C", message, end, ..Open::default() };
        client.open(open).expect("room");
    }
    let mut events = Vec::new();
    for mut piece in wire.chunks(step) {
        loop {
            match client.receive(&mut piece, now) {
                Ok(Some(event)) => {
                    events.push(told(&event));
                    if let ClientEvent::Message { stream, .. } = event {
                        client.taken(stream, 1);
                    }
                    while let Some((stream, message)) = client.receive_message(&mut piece) {
                        let message = Piece::Borrowed(message);
                        events.push(told(&ClientEvent::Message { stream, message }));
                        client.taken(stream, 1);
                    }
                }
                Ok(None) => break,
                Err(violation) => return (events, Some(violation)),
            }
        }
        assert!(piece.is_empty(), "no event, and bytes are left");
    }
    (events, None)
}

/// Formats an event without the difference between borrowed and owned bytes.
fn told(event: &ClientEvent<'_>) -> String {
    match event {
        ClientEvent::Initial { stream, meta } => format!("initial {stream:?} {:?}", &**meta),
        ClientEvent::Message { stream, message } => format!("message {stream:?} {:?}", &**message),
        ClientEvent::Response { stream, status, meta, .. } => {
            format!("response {stream:?} {status} {:?}", &**meta)
        }
        ClientEvent::Leaving { code, accepted, reason, .. } => {
            format!("leaving {code} {accepted} {:?}", &**reason)
        }
        other => format!("{other:?}"),
    }
}
