//! The TLS configuration of a server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, WebPkiClientVerifier};

use super::error::unusable;
use super::identity::Identity;
use super::itself::{OrItself, Roots};
use super::{pem, provider};
use crate::error::Result;
use crate::limits;

/// A server's certificate, key and settings for TLS 1.2 and 1.3. Cheap to clone; one value serves
/// all cores.
///
/// ```no_run
/// use ringway_net::{ClientAuth, ServerTls};
///
/// let chain = std::fs::read("server.pem")?;
/// let key = std::fs::read("server.key")?;
/// let clients = std::fs::read("clients-ca.pem")?;
/// let tls = ServerTls::from_pem(&chain, &key)?
///     .alpn(["h2", "http/1.1"])
///     .client_auth(&clients, ClientAuth::Required)?;
/// # let _ = tls;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ServerTls {
    identity: Arc<Identity>,
    config: Arc<ServerConfig>,
    client_auth: Option<ClientAuth>,
    handshake_timeout: Duration,
}

/// Whether a client must present a certificate. A presented certificate is always verified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientAuth {
    /// A handshake without a client certificate fails.
    Required,
    /// A client may connect without a certificate; its connection then has no peer certificates.
    Optional,
}

impl ServerTls {
    /// Makes the settings of a certificate chain, the server's own certificate first, and its
    /// private key (PKCS#8, PKCS#1 or SEC1), both as PEM text.
    ///
    /// # Errors
    /// [`is_tls`](crate::Error::is_tls) when either is missing or malformed, the kind of key is not
    /// supported, or the key does not belong to the certificate.
    pub fn from_pem(chain: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Result<Self> {
        let certified = pem::certified_key(chain.as_ref(), key.as_ref())?;
        let identity = Arc::new(Identity::new(certified));
        let config = Arc::new(config(&identity, Arc::new(NoClientAuth))?);
        let handshake_timeout = limits::TLS_HANDSHAKE_TIMEOUT;
        Ok(Self { identity, config, client_auth: None, handshake_timeout })
    }

    /// Sets the application protocols to agree on (ALPN), in order of preference. The handshake
    /// fails with a client that offers only others, and succeeds with one that offers none.
    #[must_use]
    pub fn alpn<P: AsRef<[u8]>>(mut self, protocols: impl IntoIterator<Item = P>) -> Self {
        let protocols = protocols.into_iter().map(|name| name.as_ref().to_vec());
        Arc::make_mut(&mut self.config).alpn_protocols = protocols.collect();
        self
    }

    /// Whether application protocols were set.
    #[must_use]
    pub fn has_alpn(&self) -> bool {
        !self.config.alpn_protocols.is_empty()
    }

    /// Replaces the certificate chain and key for new handshakes. Clones share them, so keep a
    /// clone beside the server; existing connections are not affected.
    ///
    /// ```no_run
    /// use ringway_net::{Server, ServerTls};
    ///
    /// let read = |path: &str| std::fs::read(path);
    /// let tls = ServerTls::from_pem(read("server.pem")?, read("server.key")?)?;
    /// let server = Server::bind("tls://0.0.0.0:7443")?.tls(tls.clone());
    /// // … and when the files have changed:
    /// tls.replace_pem(read("server.pem")?, read("server.key")?)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails like [`from_pem`](Self::from_pem); the former certificate and key then stay.
    pub fn replace_pem(&self, chain: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Result<()> {
        self.identity.replace(pem::certified_key(chain.as_ref(), key.as_ref())?);
        Ok(())
    }

    /// Asks clients for a certificate that one of these roots (PEM text) has issued, or that is one
    /// of them.
    ///
    /// # Errors
    /// [`is_tls`](crate::Error::is_tls) when the text contains no usable root.
    pub fn client_auth(mut self, roots: impl AsRef<[u8]>, auth: ClientAuth) -> Result<Self> {
        let Roots { store, themselves } = pem::roots(roots.as_ref())?;
        let builder = WebPkiClientVerifier::builder_with_provider(store, provider());
        let builder = match auth {
            ClientAuth::Required => builder,
            ClientAuth::Optional => builder.allow_unauthenticated(),
        };
        let chains = builder.build().map_err(|error| unusable("client roots", error))?;
        let mut config = config(&self.identity, Arc::new(OrItself { themselves, chains }))?;
        config.alpn_protocols = self.config.alpn_protocols.clone();
        self.config = Arc::new(config);
        self.client_auth = Some(auth);
        Ok(self)
    }

    /// Sets the time limit of the whole handshake; 10 seconds by default.
    #[must_use]
    pub fn handshake_timeout(mut self, limit: Duration) -> Self {
        self.handshake_timeout = limit;
        self
    }

    pub(super) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    pub(super) fn handshake_limit(&self) -> Duration {
        self.handshake_timeout
    }
}

fn config(identity: &Arc<Identity>, clients: Arc<dyn ClientCertVerifier>) -> Result<ServerConfig> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable("TLS versions", error))?;
    Ok(builder.with_client_cert_verifier(clients).with_cert_resolver(Arc::clone(identity) as _))
}

/// Omits the key.
impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocols =
            self.config.alpn_protocols.iter().map(|name| name.escape_ascii().to_string());
        f.debug_struct("ServerTls")
            .field("alpn", &protocols.collect::<Vec<_>>())
            .field("client_auth", &self.client_auth)
            .field("handshake_timeout", &self.handshake_timeout)
            .finish_non_exhaustive()
    }
}
