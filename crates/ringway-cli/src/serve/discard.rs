//! Connections whose bytes are counted and, if they are framed, checked.

use std::sync::Arc;

use ringway_runtime::io::{Incoming, Next, Stream};

use super::framing::Framing;
use super::tally::Totals;

/// Reads and forgets; the runtime counts the bytes.
pub(super) fn bytes(stream: Stream) {
    stream.on_incoming(|_, incoming| match incoming {
        Incoming::Data(_) | Incoming::Drained => Next::Continue,
        Incoming::Eof | Incoming::Failed(_) => Next::Close,
    });
}

/// Frames and checks; a client that has finished sending is told what arrived.
pub(super) fn packets(stream: Stream, totals: Arc<Totals>) {
    let mut framing = Framing::default();
    stream.on_incoming(move |stream, incoming| match incoming {
        Incoming::Data(view) => {
            let before = framing.tally();
            framing.take(&view);
            let after = framing.tally();
            totals.add(after.packets - before.packets, after.mismatches - before.mismatches);
            Next::Continue
        }
        Incoming::Drained => Next::Continue,
        Incoming::Eof => {
            stream.write(&framing.tally().to_bytes());
            Next::Close
        }
        Incoming::Failed(_) => Next::Close,
    });
}
