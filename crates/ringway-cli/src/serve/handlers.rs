//! Handlers of bytes that are not sent back.

use std::sync::Arc;

use ringway_net::{Error, Handler, Peer, View};

use super::framing::Framing;
use super::tally::Totals;
use crate::stderr;

/// Reads and forgets; the runtime counts the bytes.
pub(super) struct Discard;

/// Frames and checks packets; a client that has finished sending is told what arrived.
pub(super) struct Framed {
    framing: Framing,
    totals: Arc<Totals>,
}

impl Framed {
    pub(super) fn new(totals: Arc<Totals>) -> Self {
        Self { framing: Framing::default(), totals }
    }

    /// Tells of the first wrong packet; a client must not be able to fill a disk with the others.
    #[cold]
    fn complain(&self) {
        let first = self.totals.add_mismatch();
        if let Some(mismatch) = self.framing.mismatch().filter(|_| first) {
            stderr::complain(mismatch);
        }
    }
}

impl Handler for Discard {
    fn on_message(&mut self, _: &Peer, _: View) {}
}

impl Handler for Framed {
    #[inline]
    fn on_message(&mut self, _: &Peer, view: View) {
        let before = self.framing.tally();
        self.framing.take(&view);
        let after = self.framing.tally();
        self.totals.add_packets(after.packets - before.packets);
        if after.mismatches > before.mismatches {
            self.complain();
        }
    }

    fn on_close(&mut self, peer: &Peer, error: Option<&Error>) {
        if error.is_none() {
            peer.write(&self.framing.tally().to_bytes());
        }
    }
}
