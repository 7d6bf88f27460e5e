//! A server whose handshakes have all the time they want.

use std::time::Duration;

use ringway_net::{Server, ToAddresses};

use super::trust::Trust;

/// A server that waits for handshakes for ever, and in a drain for whoever is left.
pub(crate) fn patient_server(trust: &Trust) -> Server {
    patient_server_at(trust, ["tls://127.0.0.1:0"])
}

/// The same at addresses of which the first is its TLS.
pub(crate) fn patient_server_at(trust: &Trust, addresses: impl ToAddresses) -> Server {
    let tls = trust.server.clone().handshake_timeout(Duration::from_secs(1_000_000));
    let server = Server::bind(addresses).expect("free ports").threads(1);
    server.tls(tls).drain_timeout(Duration::MAX)
}

/// The first bytes of a record of the handshake that never becomes whole.
pub(crate) const BEGINNING: [u8; 5] = [22, 3, 1, 2, 0];
