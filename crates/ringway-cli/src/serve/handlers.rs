//! Handlers that send little or nothing back.

use std::sync::Arc;

use ringway_net::{Error, Handler, Peer, View};

use super::framing::Framing;
use super::tally::{Tally, Totals, acknowledgement};
use crate::clock::{self, EXCHANGE_BYTES};
use crate::stderr;

/// Reads and discards; the runtime counts the bytes.
pub(super) struct Discard;

/// Frames and checks packets, and tells a client that has finished sending what arrived.
pub(super) struct Framed {
    framing: Framing,
    totals: Arc<Totals>,
    /// Whether each packet is answered.
    acknowledges: bool,
}

impl Framed {
    pub(super) fn new(totals: Arc<Totals>, acknowledges: bool) -> Self {
        Self { framing: Framing::default(), totals, acknowledges }
    }

    fn acknowledge(peer: &Peer, before: Tally, after: Tally) {
        for packets in before.packets + 1..=after.packets {
            peer.write(&acknowledgement(packets));
        }
        if after.mismatches > before.mismatches {
            peer.write(&acknowledgement(after.packets));
        }
    }

    /// Logs the first wrong packet only; otherwise a client could fill a disk.
    #[cold]
    fn complain(&self) {
        let first = self.totals.add_mismatch();
        if let Some(mismatch) = self.framing.mismatch().filter(|_| first) {
            stderr::complain(mismatch);
        }
    }
}

/// Answers each request with the time.
#[derive(Default)]
pub(super) struct Clock {
    /// The beginning of an incomplete request.
    carried: Vec<u8>,
}

impl Handler for Clock {
    fn on_message(&mut self, peer: &Peer, view: View) {
        self.carried.extend_from_slice(&view);
        let whole = self.carried.len() - self.carried.len() % EXCHANGE_BYTES;
        clock::answer(&mut self.carried[..whole], clock::now_us());
        peer.write(&self.carried[..whole]);
        self.carried.drain(..whole);
    }
}

impl Handler for Discard {
    fn on_message(&mut self, _: &Peer, _: View) {}
}

impl Handler for Framed {
    #[inline]
    fn on_message(&mut self, peer: &Peer, view: View) {
        let before = self.framing.tally();
        self.framing.take(&view);
        let after = self.framing.tally();
        self.totals.add_packets(after.packets - before.packets);
        if after.mismatches > before.mismatches {
            self.complain();
        }
        if self.acknowledges {
            Self::acknowledge(peer, before, after);
        }
    }

    fn on_close(&mut self, peer: &Peer, error: Option<&Error>) {
        if error.is_none() {
            peer.write(&self.framing.tally().to_bytes());
        }
    }
}
