//! Any bytes as the messages of a server that is to prove itself.

use super::{ScramClient, ScramKeys, ScramMechanism};

/// The first byte chooses the mechanism, and where the server's first message ends.
pub fn fuzz(data: &[u8]) {
    let Some((&form, messages)) = data.split_first() else { return };
    let mechanism = match form & 1 {
        0 => ScramMechanism::Sha1,
        _ => ScramMechanism::Sha256,
    };
    let end = messages.iter().position(|byte| *byte == b'\n').unwrap_or(messages.len());
    let (first, last) = messages.split_at(end);
    let Ok(challenge) = ScramClient::new(mechanism, "user", "abc").challenge(first) else { return };
    assert!((4096..=1_000_000).contains(&challenge.iterations().get()));
    // The number of iterations is the server's to choose; one is enough to see what follows.
    let one = std::num::NonZeroU32::MIN;
    let keys = ScramKeys::derive(mechanism, b"pencil", challenge.salt(), one);
    let (answer, verifier) = challenge.answer(&keys);
    assert!(answer.starts_with("c=biws,r=abc"));
    let _verified = verifier.verify(last.strip_prefix(b"\n").unwrap_or(last));
}
