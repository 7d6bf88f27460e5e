//! Answers that are for a peer that is there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Among the extensions of each request: whether its answer ends when the peer closes the connection, or
/// its half of it.
///
/// A peer that has closed its half may still read, and gets its answer. An answer that may take long, such
/// as that of a call or a stream of messages, needs to know that nobody wants it any more, and TCP has one
/// word for both.
#[derive(Clone, Default, Debug)]
pub struct PeerWatch(Arc<AtomicBool>);

impl PeerWatch {
    /// Ends this request's answer, body included, when the peer has gone.
    pub fn start(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Has the answer sent even if the peer has closed its half: it needs no more work.
    pub fn stop(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    pub(crate) fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
