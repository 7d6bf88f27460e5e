//! What a connection keeps of the body of a request, or of a WebSocket's message.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The bytes that are kept of a body, or of a WebSocket's message, while it is gathered, for a server that bounds the
/// memory of all its connections.
#[derive(Clone, Default, Debug)]
pub struct BodyAccount(Arc<Account>);

#[derive(Default, Debug)]
struct Account {
    kept: AtomicUsize,
    is_given_up: AtomicBool,
}

impl BodyAccount {
    /// Bytes kept now; none once the body is given up.
    pub fn kept(&self) -> usize {
        match self.is_given_up() {
            true => 0,
            false => self.0.kept.load(Ordering::Relaxed),
        }
    }

    /// Gives it up: whoever reads it gets 503 when it is polled next.
    pub fn give_up(&self) {
        self.0.is_given_up.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.0.is_given_up.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, bytes: usize) {
        self.0.kept.store(bytes, Ordering::Relaxed);
    }
}
