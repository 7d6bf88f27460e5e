//! What a client's end makes up.

use super::handshake::{accept_key, new_key};
use super::masks::Masks;

/// The key of a client's handshake and the masks of its frames, for programs that carry the bytes of a
/// WebSocket themselves. [`Client::websocket`](crate::Client::websocket) does all of it.
///
/// ```
/// use ringway_http::ClientSecrets;
///
/// let secrets = ClientSecrets::new();
/// let request = format!("sec-websocket-key: {}\r\n", secrets.key());
/// assert!(!secrets.is_answered_by(b"something else"));
/// assert_ne!(secrets.next_mask(), secrets.next_mask());
/// # drop(request);
/// ```
#[derive(Debug)]
pub struct ClientSecrets {
    key: String,
    masks: Masks,
}

impl ClientSecrets {
    /// Makes up those of one connection.
    #[must_use]
    pub fn new() -> Self {
        Self { key: new_key(), masks: Masks::new() }
    }

    /// The value of `sec-websocket-key`.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether a server's `sec-websocket-accept` belongs to the key.
    #[must_use]
    pub fn is_answered_by(&self, accept: &[u8]) -> bool {
        accept == accept_key(self.key.as_bytes()).as_bytes()
    }

    /// The mask of the next frame, which nobody can foretell.
    #[must_use]
    pub fn next_mask(&self) -> [u8; 4] {
        self.masks.next()
    }
}

impl Default for ClientSecrets {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_answer_to_its_own_key_will_do() {
        let (one, other) = (ClientSecrets::new(), ClientSecrets::new());
        assert!(one.is_answered_by(accept_key(one.key().as_bytes()).as_bytes()));
        assert!(!one.is_answered_by(accept_key(other.key().as_bytes()).as_bytes()));
    }
}
