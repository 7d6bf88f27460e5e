//! Configuration of a client's connection.

use super::compression::ClientCompression;
use crate::http2::Http2Config;

/// Configuration of a client's connection, with the fields that all its calls share.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Configuration of the HTTP/2 connection.
    pub http2: Http2Config,
    /// The server's name and port, sent as `:authority`.
    pub authority: String,
    /// The name of the client, sent as `user-agent`.
    pub user_agent: String,
    /// Whether the connection is encrypted, so that `:scheme` is `https`.
    pub is_secure: bool,
    /// Largest message that is accepted, in bytes on the wire.
    pub max_message: u32,
    /// The compression of its calls; `None` means none, in either direction.
    pub compression: Option<ClientCompression>,
}

impl ClientConfig {
    /// Creates the default for a server with this name: plain text, messages of up to 4 MiB.
    #[must_use]
    pub fn new(authority: impl Into<String>) -> Self {
        Self {
            http2: Http2Config::client(),
            authority: authority.into(),
            user_agent: concat!("ringway/", env!("CARGO_PKG_VERSION")).to_owned(),
            is_secure: false,
            max_message: 4 << 20,
            compression: None,
        }
    }
}
