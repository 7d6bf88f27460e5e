//! A server without handshake timeouts.

use std::time::Duration;

use ringway_net::{Server, ToAddresses};

use super::trust::Trust;

/// Makes a server that waits for handshakes, and in a drain for connections, without a time limit.
pub(crate) fn patient_server(trust: &Trust) -> Server {
    patient_server_at(trust, ["tls://127.0.0.1:0"])
}

/// Makes such a server at `addresses`, of which the first is the `tls://` one.
pub(crate) fn patient_server_at(trust: &Trust, addresses: impl ToAddresses) -> Server {
    let tls = trust.server.clone().handshake_timeout(Duration::from_secs(1_000_000));
    let server = Server::bind(addresses).expect("free ports").threads(1);
    server.tls(tls).drain_timeout(Duration::MAX)
}

/// The beginning of a handshake record that is never completed.
pub(crate) const BEGINNING: [u8; 5] = [22, 3, 1, 2, 0];
