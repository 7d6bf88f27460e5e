//! Both ends of TLS connections on loopback, and helpers for them.

use std::io;
use std::rc::Rc;

use ringway_net::{ClientTls, Result, ServerTls, TlsStream};
use ringway_runtime::io::{ListenOptions, Listener, Stream};
use ringway_runtime::{block_on, spawn};
use socket2::SockAddr;

use super::certificates::{Authority, Identity, NAME};

/// A server with a certificate, and a client that trusts it.
pub(crate) struct Trust {
    pub(crate) server: ServerTls,
    pub(crate) client: ClientTls,
    pub(crate) identity: Identity,
    pub(crate) authority_pem: String,
}

impl Trust {
    pub(crate) fn new() -> Self {
        let authority = Authority::new();
        let identity = authority.sign(NAME);
        let client = ClientTls::new().roots_pem(authority.pem()).expect("a root");
        let server = server_of(&identity);
        Self { server, client, identity, authority_pem: authority.pem() }
    }

    /// Returns both ends of one handshake.
    pub(crate) async fn pair(&self) -> (Result<TlsStream>, Result<TlsStream>) {
        self.pair_of(NAME).await
    }

    pub(crate) async fn pair_of(&self, host: &str) -> (Result<TlsStream>, Result<TlsStream>) {
        let listener = listen();
        let address = listener.local_addr().clone();
        let tls = self.server.clone();
        let accepting = spawn(async move {
            let accepted = loop {
                // Accepting may run out of descriptors, as simulated faults do.
                if let Ok(accepted) = listener.accept().await {
                    break accepted;
                }
            };
            let stream = accepted.into_stream(&Rc::default())?;
            TlsStream::accept(stream, &tls).await
        });
        let stream = Stream::connect(&address).await.expect("a listener");
        let client = TlsStream::connect(stream, &self.client, host).await;
        (accepting.await.expect("no panic"), client)
    }
}

pub(crate) fn server_of(identity: &Identity) -> ServerTls {
    ServerTls::from_pem(&identity.chain, &identity.key).expect("they belong together")
}

pub(crate) fn run<F: Future<Output = Result> + 'static>(test: F) {
    block_on(test).expect("a core").expect("the test's own connections");
}

pub(crate) fn listen() -> Listener {
    let any_port = "127.0.0.1:0".parse::<std::net::SocketAddr>().expect("an address");
    Listener::bind(&any_port.into(), ListenOptions::default()).expect("a free port")
}

pub(crate) fn socket_addr(address: &SockAddr) -> std::net::SocketAddr {
    address.as_socket().expect("TCP")
}

/// Makes bytes in which every position shows.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

pub(crate) async fn receive_exactly(stream: &TlsStream, len: usize) -> io::Result<Vec<u8>> {
    let mut received = Vec::new();
    while received.len() < len {
        let view = stream.recv().await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        received.extend_from_slice(&view);
    }
    Ok(received)
}
