//! Two sessions in memory, with the bytes between them cut and corrupted.

use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;

use ringway_runtime::io::Stream;
use ringway_runtime::{CoreHandle, block_on, yield_now};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{CipherSuiteCommon, Tls12CipherSuite, Tls13CipherSuite};
use rustls::{ClientConnection, RootCertStore, ServerConnection};

use super::*;
use crate::tls::{TlsStream, provider};

/// A client and a server session without a socket.
struct Pair {
    client: TlsSession,
    server: TlsSession,
}

impl Pair {
    fn new() -> Self {
        Self::with_provider(provider())
    }

    fn with_provider(provider: Arc<CryptoProvider>) -> Self {
        let identity = rcgen::generate_simple_self_signed(["server.test".to_owned()]);
        let identity = identity.expect("a certificate");
        let certificate = CertificateDer::from_pem_slice(identity.cert.pem().as_bytes());
        let certificate = certificate.expect("PEM");
        let key = identity.signing_key.serialize_pem();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).expect("a root");
        let client = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("supported")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let server = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("supported")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("they belong together");
        let name = "server.test".try_into().expect("a name");
        let client = ClientConnection::new(Arc::new(client), name).expect("a session");
        let server = ServerConnection::new(Arc::new(server)).expect("a session");
        Self { client: TlsSession::new(client), server: TlsSession::new(server) }
    }

    /// Carries bytes both ways, in pieces of `cut`, until there are no more.
    fn exchange(&mut self, cut: usize) {
        loop {
            let up = carry(&mut self.client, &mut self.server, cut);
            let down = carry(&mut self.server, &mut self.client, cut);
            if up + down == 0 {
                break;
            }
        }
    }

    fn shaken(cut: usize) -> Self {
        Self::new().shake_hands(cut)
    }

    fn shake_hands(mut self, cut: usize) -> Self {
        let pair = &mut self;
        pair.exchange(cut);
        assert!(!pair.client.is_handshaking() && !pair.server.is_handshaking());
        self
    }
}

fn carry(from: &mut TlsSession, to: &mut TlsSession, cut: usize) -> usize {
    let ciphertext = ciphertext_of(from);
    let mut plain = Vec::new();
    for piece in ciphertext.chunks(cut) {
        to.give(View::from(piece.to_vec()));
        // All plaintext comes from the test; it is put back for the test to inspect.
        plain.extend(received(to));
    }
    to.plain = plain;
    ciphertext.len()
}

fn ciphertext_of(session: &mut TlsSession) -> Vec<u8> {
    let mut ciphertext = Vec::new();
    session.drain_to(&mut ciphertext).expect("a vector takes everything");
    ciphertext
}

fn received(session: &mut TlsSession) -> Vec<u8> {
    let mut plain = Vec::new();
    while let Some(view) = session.next_plain() {
        assert!(view.len() <= limits::TLS_PLAIN_BYTES_MAX);
        plain.extend_from_slice(&view);
    }
    plain
}

#[test]
fn plaintext_is_the_same_at_any_cut() {
    let sent: Vec<u8> = (0..40_000_u32).map(|at| (at % 251) as u8).collect();
    for cut in [1, 2, 3, 5, 7, 64, 1_000, 4_097, usize::MAX] {
        let mut pair = Pair::shaken(cut);
        pair.client.encrypt(&sent);
        pair.client.close();
        carry(&mut pair.client, &mut pair.server, cut);
        assert_eq!(received(&mut pair.server), sent, "cut into {cut}");
        assert!(pair.server.is_peer_closed() && pair.server.failure().is_none());
    }
}

#[test]
fn large_view_is_delivered_in_bounded_pieces() {
    let mut pair = Pair::shaken(usize::MAX);
    let sent = vec![7; 300_000];
    pair.client.encrypt(&sent);
    pair.server.give(View::from(ciphertext_of(&mut pair.client)));
    assert_eq!(received(&mut pair.server), sent);
}

#[test]
fn corrupted_byte_is_an_error_and_never_plaintext() {
    let mut pair = Pair::shaken(usize::MAX);
    pair.client.encrypt(b"good");
    let good = ciphertext_of(&mut pair.client);
    // The version field of a record (bytes 1 and 2) is ignored (RFC 8446, section 5.1).
    for at in (0..good.len()).filter(|at| !(1..3).contains(at)) {
        let mut pair = Pair::shaken(usize::MAX);
        pair.client.encrypt(b"good");
        let first = ciphertext_of(&mut pair.client);
        pair.client.encrypt(b"evil");
        let mut second = ciphertext_of(&mut pair.client);
        second[at] ^= 0x20;
        // A longer length waits for more bytes: these are enough.
        second.resize(20_000, 0);
        pair.server.give(View::from([first, second].concat()));
        assert_eq!(received(&mut pair.server), b"good", "earlier plaintext is delivered");
        assert!(pair.server.failure().is_some(), "byte {at}");
        assert!(pair.server.is_send_closed());
        assert!(!ciphertext_of(&mut pair.server).is_empty(), "an alert is sent");
    }
}

#[test]
fn bad_record_after_our_own_close_is_an_error() {
    let mut pair = Pair::shaken(usize::MAX);
    pair.server.close();
    pair.server
        .give(View::from(vec![0x17, 3, 3, 0, 32].into_iter().chain([9; 32]).collect::<Vec<_>>()));
    assert!(pair.server.failure().is_some());
    assert!(received(&mut pair.server).is_empty());
}

#[test]
fn bytes_after_a_close_notify_are_ignored() {
    let mut pair = Pair::shaken(usize::MAX);
    pair.client.encrypt(b"all");
    pair.client.close();
    let mut ciphertext = ciphertext_of(&mut pair.client);
    ciphertext.extend([0xFF; 10_000]);
    pair.server.give(View::from(ciphertext));
    assert_eq!(received(&mut pair.server), b"all");
    pair.server.give(View::from(vec![0xFF; 100]));
    assert!(pair.server.is_peer_closed());
    pair.server.encrypt(b"answer");
    carry(&mut pair.server, &mut pair.client, 1);
    assert_eq!(received(&mut pair.client), b"answer");
}

#[test]
fn first_failure_is_kept() {
    let mut pair = Pair::new();
    pair.server.give(View::from(b"GET / HTTP/1.0\r\n\r\n".to_vec()));
    let first = pair.server.failure().cloned().expect("no TLS");
    pair.server.fail(TlsError::Truncated);
    assert_eq!(pair.server.failure(), Some(&first));
}

/// The number of records that one key may encrypt in the test's provider.
const RECORDS_MAX: u64 = 64;

/// A provider with one cipher suite, whose keys are soon used up.
fn soon_used_up(is_tls13: bool) -> Arc<CryptoProvider> {
    let mut provider = rustls::crypto::ring::default_provider();
    provider.cipher_suites.retain(|suite| {
        let is_gcm = format!("{:?}", suite.suite()).contains("AES_128_GCM");
        is_gcm && matches!(suite, SupportedCipherSuite::Tls13(_)) == is_tls13
    });
    let suite = match provider.cipher_suites[0] {
        SupportedCipherSuite::Tls12(suite) => {
            let common =
                CipherSuiteCommon { confidentiality_limit: RECORDS_MAX, ..common(&suite.common) };
            SupportedCipherSuite::Tls12(Box::leak(Box::new(Tls12CipherSuite { common, ..*suite })))
        }
        SupportedCipherSuite::Tls13(suite) => {
            let common =
                CipherSuiteCommon { confidentiality_limit: RECORDS_MAX, ..common(&suite.common) };
            SupportedCipherSuite::Tls13(Box::leak(Box::new(Tls13CipherSuite { common, ..*suite })))
        }
    };
    provider.cipher_suites = vec![suite];
    Arc::new(provider)
}

fn common(of: &CipherSuiteCommon) -> CipherSuiteCommon {
    CipherSuiteCommon { ..*of }
}

#[test]
fn used_up_keys_are_renewed_or_fail_the_session() {
    for is_tls13 in [true, false] {
        let mut pair = Pair::with_provider(soon_used_up(is_tls13)).shake_hands(usize::MAX);
        let mut sent = Vec::new();
        let mut arrived = Vec::new();
        for number in 0..4 * RECORDS_MAX {
            let piece = [number as u8; 3];
            pair.client.encrypt(&piece);
            if !pair.client.is_send_closed() {
                sent.extend(piece);
            }
            carry(&mut pair.client, &mut pair.server, usize::MAX);
            arrived.append(&mut pair.server.plain);
            // Carries the answer to a key update.
            carry(&mut pair.server, &mut pair.client, usize::MAX);
        }
        assert_eq!(arrived, sent, "accepted bytes arrive (TLS 1.3: {is_tls13})");
        assert!(!pair.server.is_peer_closed() && pair.server.failure().is_none());
        match is_tls13 {
            true => assert_eq!(sent.len() as u64, 3 * 4 * RECORDS_MAX),
            false => assert_eq!(pair.client.failure(), Some(&TlsError::KeysUsedUp)),
        }
    }
}

#[test]
fn empty_views_are_not_queued() {
    let mut pair = Pair::shaken(usize::MAX);
    for _ in 0..4 {
        pair.client.encrypt(&[7; limits::TLS_WRITE_BYTES]);
    }
    pair.server.give(View::from(ciphertext_of(&mut pair.client)));
    for _ in 0..100 {
        pair.server.give(View::from(Vec::new()));
    }
    assert!(pair.server.input.len() <= 1, "{} pieces", pair.server.input.len());
}

/// Returns the bytes that the core counts as held at the end of a turn.
async fn held_bytes() -> u64 {
    yield_now().await;
    CoreHandle::current().counters().held_bytes
}

#[test]
fn waiting_plaintext_counts_as_held_by_its_core() {
    let counted = block_on(async {
        let mut pair = Pair::shaken(usize::MAX);
        let sent = vec![7; 200_000];
        pair.client.encrypt(&sent);
        let ciphertext = ciphertext_of(&mut pair.client);
        let (near, _far) = UnixStream::pair().expect("a pair of sockets");
        let stream = Stream::adopt(near.into(), &Rc::default()).expect("a socket");
        let tls = TlsStream::new(stream, pair.server);
        assert_eq!(held_bytes().await, 0);
        tls.give(View::from(ciphertext));
        tls.waits();
        let all = held_bytes().await;
        assert!(all >= sent.len() as u64, "{all} bytes");
        let piece = tls.next_plain().expect("it has come").len() as u64;
        let rest = held_bytes().await;
        // rustls holds the beginning of an incomplete record.
        let begun = limits::TLS_WRITE_BYTES as u64;
        let is_counted = rest < all && rest + piece + begun >= sent.len() as u64;
        assert!(is_counted, "{piece}, and {rest} of {all}");
        while tls.next_plain().is_some() {}
        assert_eq!(held_bytes().await, 0);
        tls.give(View::from(vec![23, 3, 3, 0x40, 0]));
        drop(tls);
        held_bytes().await
    });
    assert_eq!(counted.expect("a core"), 0);
}
