//! Who is at the other end of a connection.

use std::fmt;
use std::sync::Arc;

use ringway_net::{CertificateDer, Connection, Credentials, Endpoint, certificate_names};

/// The other end of a call's connection.
#[derive(Clone)]
pub struct Peer(Arc<Parts>);

struct Parts {
    address: Option<Endpoint>,
    is_tls: bool,
    certificates: Vec<CertificateDer<'static>>,
    server_name: Option<String>,
    credentials: Option<Credentials>,
}

impl Peer {
    /// The peer of a connection, as it is after the handshake.
    pub(crate) fn of(connection: &Connection) -> Self {
        let address = connection.peer_addr().ok();
        let is_local = matches!(address, Some(Endpoint::Unix(_) | Endpoint::Unnamed));
        Self(Arc::new(Parts {
            credentials: is_local.then(|| connection.peer_credentials()).flatten(),
            address,
            is_tls: connection.is_tls(),
            certificates: connection.peer_certificates().to_vec(),
            server_name: connection.server_name().map(str::to_owned),
        }))
    }

    /// Nobody.
    pub(crate) fn unknown() -> Self {
        Self(Arc::new(Parts {
            address: None,
            is_tls: false,
            certificates: Vec::new(),
            server_name: None,
            credentials: None,
        }))
    }

    /// Its address; `None` if the connection was gone before it could be asked.
    pub fn address(&self) -> Option<&Endpoint> {
        self.0.address.as_ref()
    }

    /// The process that calls over a Unix socket, by the kernel's word; `None` over all others.
    ///
    /// ```
    /// use ringway_rpc::{Context, Status};
    ///
    /// fn only_root(context: &Context) -> Result<(), Status> {
    ///     match context.peer().credentials() {
    ///         Some(caller) if caller.uid == 0 => Ok(()),
    ///         _ => Err(Status::permission_denied("only root may do this, over the Unix socket")),
    ///     }
    /// }
    /// ```
    pub fn credentials(&self) -> Option<Credentials> {
        self.0.credentials
    }

    /// Whether the connection is encrypted.
    pub fn is_tls(&self) -> bool {
        self.0.is_tls
    }

    /// The certificates that it has proved to own, its own first; empty without client
    /// authentication.
    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.0.certificates
    }

    /// The DNS names in the first of them, for which its authority vouches: who calls, under mutual TLS.
    pub fn certificate_names(&self) -> Vec<String> {
        self.certificates().first().map_or_else(Vec::new, certificate_names)
    }

    /// The name by which it has called this server (SNI).
    pub fn server_name(&self) -> Option<&str> {
        self.0.server_name.as_deref()
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer")
            .field("address", &self.0.address)
            .field("tls", &self.0.is_tls)
            .field("certificates", &self.0.certificates.len())
            .finish()
    }
}
