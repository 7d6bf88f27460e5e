//! A TLS client without a socket: a test can delay each of its bytes.

use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::certificates::NAME;
use super::trust::Trust;

/// Makes a client that trusts the server.
pub(crate) fn client(trust: &Trust) -> rustls::ClientConnection {
    let mut roots = rustls::RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(trust.authority_pem.as_bytes()).expect("a root");
    roots.add(root).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = NAME.try_into().expect("a name");
    rustls::ClientConnection::new(Arc::new(config), name).expect("a client")
}

/// Runs the handshake until only the client's last flight is left.
pub(crate) fn shake_hands(client: &mut rustls::ClientConnection, socket: &mut TcpStream) {
    while client.is_handshaking() {
        while client.wants_write() {
            client.write_tls(socket).expect("written");
        }
        client.read_tls(socket).expect("the server answers");
        client.process_new_packets().expect("an honest server");
    }
}
