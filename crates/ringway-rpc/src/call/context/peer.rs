//! The peer of a call's connection.

use std::fmt;
use std::sync::Arc;

use ringway_net::{CertificateDer, Connection, Credentials, Endpoint, certificate_names};

/// The other end of a call's connection.
#[derive(Clone)]
pub struct Peer(Arc<Parts>);

struct Parts {
    address: Option<Endpoint>,
    local: Option<Endpoint>,
    tls: Option<Box<TlsParts>>,
    credentials: Option<Credentials>,
}

/// What is known of the peer of a TLS connection.
struct TlsParts {
    certificates: Vec<CertificateDer<'static>>,
    server_name: Option<String>,
}

impl Peer {
    /// Reads the properties of a connection's peer, after the handshake.
    pub(crate) fn of(connection: &Connection) -> Self {
        let address = connection.peer_addr().ok();
        let is_local = matches!(address, Some(Endpoint::Unix(_) | Endpoint::Unnamed));
        Self(Arc::new(Parts {
            credentials: is_local.then(|| connection.peer_credentials()).flatten(),
            address,
            local: connection.local_addr().ok(),
            tls: connection.is_tls().then(|| {
                Box::new(TlsParts {
                    certificates: connection.peer_certificates().to_vec(),
                    server_name: connection.server_name().map(str::to_owned),
                })
            }),
        }))
    }

    /// Makes an unknown peer.
    pub(crate) fn unknown() -> Self {
        Self(Arc::new(Parts { address: None, local: None, tls: None, credentials: None }))
    }

    /// Returns the peer's address; `None` if the connection was lost before it could be read.
    pub fn address(&self) -> Option<&Endpoint> {
        self.0.address.as_ref()
    }

    /// Returns the address of this server that the peer has connected to, which is one of the machine's even if the
    /// server listens on all of them; `None` if the connection was lost before it could be read.
    pub fn local_address(&self) -> Option<&Endpoint> {
        self.0.local.as_ref()
    }

    /// Returns the credentials of the process at the other end of a Unix socket, as the kernel
    /// reports them; `None` for other sockets.
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

    /// Whether the connection uses TLS.
    pub fn is_tls(&self) -> bool {
        self.0.tls.is_some()
    }

    /// Returns the verified certificate chain of the peer, its own certificate first; empty without
    /// client authentication.
    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        self.0.tls.as_ref().map_or(&[], |tls| &tls.certificates)
    }

    /// Returns the DNS names of the peer's own certificate, for which its issuer vouches: they
    /// identify the caller under mutual TLS.
    pub fn certificate_names(&self) -> Vec<String> {
        self.certificates().first().map_or_else(Vec::new, certificate_names)
    }

    /// Returns the name by which the peer addressed this server (SNI).
    pub fn server_name(&self) -> Option<&str> {
        self.0.tls.as_ref()?.server_name.as_deref()
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer")
            .field("address", &self.0.address)
            .field("tls", &self.is_tls())
            .field("certificates", &self.certificates().len())
            .finish()
    }
}
