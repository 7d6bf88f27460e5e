//! The memory of a request's body or a WebSocket's message.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The bytes held of a body, or of a WebSocket's message, while it is collected. A server that bounds the memory of
/// all its connections reads them here.
#[derive(Clone, Default, Debug)]
pub struct BodyAccount(Arc<Account>);

#[derive(Default, Debug)]
struct Account {
    kept: AtomicUsize,
    is_given_up: AtomicBool,
}

impl BodyAccount {
    /// Returns the bytes held now; 0 once the body was given up.
    pub fn kept(&self) -> usize {
        match self.is_given_up() {
            true => 0,
            false => self.0.kept.load(Ordering::Relaxed),
        }
    }

    /// Gives the body up: its reader gets 503 the next time it is polled.
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
