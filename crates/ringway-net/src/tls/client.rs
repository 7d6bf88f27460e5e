//! The TLS configuration of a client.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ringway_runtime::spawn_blocking;
use rustls::ClientConfig;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::ServerName;
use rustls::sign::{CertifiedKey, SingleCertAndKey};

use super::error::unusable;
use super::itself::{OrItself, Roots};
use super::unverified::{AcceptAny, AnyName};
use super::{pem, provider, roots};
use crate::error::{Error, Kind, Result};
use crate::limits;

/// Trust settings and offers of a client, for TLS 1.2 and 1.3. Cheap to clone; clones share resumed
/// sessions.
///
/// By default the server's certificate must be valid now, contain the name that the client
/// connected to, and chain to a root that this machine trusts.
///
/// ```no_run
/// use ringway_net::ClientTls;
///
/// let tls = ClientTls::new().roots_pem(std::fs::read("our-ca.pem")?)?.alpn(["h2"]);
/// # let _ = tls;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ClientTls {
    trust: Trust,
    identity: Option<Arc<CertifiedKey>>,
    alpn: Vec<Vec<u8>>,
    server_name: Option<ServerName<'static>>,
    /// Whether the certificate may be of another host.
    takes_any_name: bool,
    handshake_timeout: Duration,
    /// Made of the fields above at the first use; reset by every change.
    config: Arc<OnceLock<Arc<ClientConfig>>>,
}

#[derive(Clone)]
enum Trust {
    /// The roots of this machine.
    System,
    /// Only these roots.
    Roots(Roots),
    /// No verification.
    Anyone,
}

impl Default for ClientTls {
    fn default() -> Self {
        Self::new()
    }
}

impl ClientTls {
    /// Trusts the machine's roots, presents no certificate, offers no ALPN protocols.
    pub fn new() -> Self {
        Self {
            trust: Trust::System,
            identity: None,
            alpn: Vec::new(),
            server_name: None,
            takes_any_name: false,
            handshake_timeout: limits::TLS_HANDSHAKE_TIMEOUT,
            config: Arc::default(),
        }
    }

    /// Trusts these roots (PEM text) instead of the machine's. A server may also present one of the
    /// roots itself, as with a certificate made by `openssl req -x509`.
    ///
    /// # Errors
    /// [`is_tls`](crate::Error::is_tls) when the text holds no certificate or one that cannot be a
    /// root.
    pub fn roots_pem(mut self, pem: impl AsRef<[u8]>) -> Result<Self> {
        self.trust = Trust::Roots(pem::roots(pem.as_ref())?);
        Ok(self.changed())
    }

    /// Presents this certificate chain to servers that ask for one. The formats are those of
    /// [`ServerTls::from_pem`](super::ServerTls::from_pem).
    ///
    /// # Errors
    /// Fails like [`ServerTls::from_pem`](super::ServerTls::from_pem).
    pub fn client_cert_pem(
        mut self,
        chain: impl AsRef<[u8]>,
        key: impl AsRef<[u8]>,
    ) -> Result<Self> {
        self.identity = Some(pem::certified_key(chain.as_ref(), key.as_ref())?);
        Ok(self.changed())
    }

    /// Sets the application protocols to offer (ALPN), in order of preference.
    #[must_use]
    pub fn alpn<P: AsRef<[u8]>>(mut self, protocols: impl IntoIterator<Item = P>) -> Self {
        self.alpn = protocols.into_iter().map(|name| name.as_ref().to_vec()).collect();
        self.changed()
    }

    /// Sets the name or IP address that the server's certificate must contain, if it differs from
    /// the host that the client connects to.
    ///
    /// # Errors
    /// [`is_tls`](crate::Error::is_tls) when `name` is neither a DNS name nor an IP address.
    pub fn server_name(mut self, name: &str) -> Result<Self> {
        self.server_name = Some(parse_name(name)?);
        Ok(self)
    }

    /// Sets the time limit of the whole handshake; 10 seconds by default.
    #[must_use]
    pub fn handshake_timeout(mut self, limit: Duration) -> Self {
        self.handshake_timeout = limit;
        self
    }

    /// Accepts **any** certificate, from anyone, for any name. The connection is encrypted, but
    /// anyone on the path can impersonate the server and read and change everything. Use it for
    /// tests on one machine only.
    #[must_use]
    pub fn dangerous_accept_any_certificate(mut self) -> Self {
        self.trust = Trust::Anyone;
        self.changed()
    }

    /// Accepts certificates of **any** host that a trusted root has signed. Whoever has such a certificate can impersonate
    /// the server. Where the name is known, [`server_name`](Self::server_name) is better.
    #[must_use]
    pub fn dangerous_accept_any_name(mut self) -> Self {
        self.takes_any_name = true;
        self.changed()
    }

    fn changed(mut self) -> Self {
        self.config = Arc::default();
        self
    }

    /// Returns the configuration, made at the first use, and the name that the certificate must
    /// contain.
    pub(super) async fn prepare(
        &self,
        host: &str,
    ) -> Result<(Arc<ClientConfig>, ServerName<'static>)> {
        let name = self.server_name.clone().map_or_else(|| parse_name(host), Ok)?;
        if let Some(config) = self.config.get() {
            return Ok((Arc::clone(config), name));
        }
        let built = self.build(self.trusted_roots().await?)?;
        Ok((Arc::clone(self.config.get_or_init(|| Arc::new(built))), name))
    }

    pub(super) fn handshake_limit(&self) -> Duration {
        self.handshake_timeout
    }

    /// Returns the trusted roots; `None` without verification.
    async fn trusted_roots(&self) -> Result<Option<Roots>> {
        match &self.trust {
            Trust::System => {
                let what = "loading the system's root certificates";
                let task = spawn_blocking(roots::system)
                    .map_err(|error| Error::with_source(Kind::Limit, what, error))?;
                let loaded =
                    task.await.map_err(|_| Error::new(Kind::Other, format!("{what} panicked")))?;
                loaded.map(|store| Some(Roots { store, themselves: Arc::default() }))
            }
            Trust::Roots(roots) => Ok(Some(roots.clone())),
            Trust::Anyone => Ok(None),
        }
    }

    fn build(&self, roots: Option<Roots>) -> Result<ClientConfig> {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable("TLS versions", error))?;
        let verifier: Arc<dyn ServerCertVerifier> = match roots {
            Some(Roots { store, themselves }) => {
                let chains = WebPkiServerVerifier::builder_with_provider(store, provider());
                let chains = chains.build().map_err(|error| unusable("roots", error))?;
                Arc::new(OrItself { themselves, chains: chains as Arc<dyn ServerCertVerifier> })
            }
            None => Arc::new(AcceptAny(provider())),
        };
        let verifier: Arc<dyn ServerCertVerifier> = match self.takes_any_name {
            true => Arc::new(AnyName(verifier)),
            false => verifier,
        };
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let mut config = match &self.identity {
            Some(identity) => {
                let resolver = SingleCertAndKey::from(Arc::clone(identity));
                builder.with_client_cert_resolver(Arc::new(resolver))
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = self.alpn.clone();
        Ok(config)
    }
}

fn parse_name(name: &str) -> Result<ServerName<'static>> {
    let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    let parsed = ServerName::try_from(bare.to_owned());
    parsed.map_err(|_| {
        unusable("TLS server name", format!("`{name}` is neither a DNS name nor an IP address"))
    })
}

/// Omits the key.
impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let trust = match &self.trust {
            Trust::System => "the machine's roots",
            Trust::Roots(_) => "its own roots",
            Trust::Anyone => "ANYONE",
        };
        let alpn = self.alpn.iter().map(|name| name.escape_ascii().to_string());
        f.debug_struct("ClientTls")
            .field("trust", &trust)
            .field("alpn", &alpn.collect::<Vec<_>>())
            .field("server_name", &self.server_name)
            .field("takes_any_name", &self.takes_any_name)
            .field("client_certificate", &self.identity.is_some())
            .field("handshake_timeout", &self.handshake_timeout)
            .finish_non_exhaustive()
    }
}
