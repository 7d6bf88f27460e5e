//! What a client is told when its connection is made.

use crate::http2::Http2Config;

/// Settings of a client's connection, and what each of its calls says.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Of the connection.
    pub http2: Http2Config,
    /// The server's name and port: `:authority`.
    pub authority: String,
    /// Who calls: `user-agent`.
    pub user_agent: String,
    /// The connection is encrypted: `:scheme` is `https`.
    pub is_secure: bool,
    /// Bytes of the longest message that is taken, as it is on the wire.
    pub max_message: u32,
}

impl ClientConfig {
    /// The defaults for a server with this name: plain text, messages of up to 4 MiB.
    #[must_use]
    pub fn new(authority: impl Into<String>) -> Self {
        Self {
            http2: Http2Config::client(),
            authority: authority.into(),
            user_agent: concat!("ringway/", env!("CARGO_PKG_VERSION")).to_owned(),
            is_secure: false,
            max_message: 4 << 20,
        }
    }
}
