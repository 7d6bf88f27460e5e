//! Replies that end when their client leaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Says whether the reply to a request ends when the client closes the connection or its half of it; the
/// [body](crate::RequestBody::watch) of a request has it.
///
/// A client that has closed its half may still read, so by default it gets its reply. A reply that may take long,
/// such as that of a call or a stream of messages, should end when nobody wants it. TCP reports both cases in the
/// same way.
#[derive(Clone, Default, Debug)]
pub struct PeerWatch(Arc<AtomicBool>);

impl PeerWatch {
    /// Ends this request's reply, with its body, when the client has left.
    pub fn start(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Sends the reply even if the client has closed its half, because it needs no more work.
    pub fn stop(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    pub(crate) fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
