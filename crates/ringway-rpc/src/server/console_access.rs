//! The setting of who may see the console.

/// Who may see the console of a server, for [`Server::console`](crate::Server::console): the page at `/` on its port.
///
/// By default, only programs of the same machine may, which connect over a loopback address or a Unix socket and
/// name it in `Host`.
#[derive(Clone, Default, Debug)]
pub struct Console(pub(super) Access);

#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) enum Access {
    Off,
    #[default]
    Local,
    Token(String),
}

impl Console {
    /// Nobody may see it.
    #[must_use]
    pub fn off() -> Self {
        Self(Access::Off)
    }

    /// Whoever knows `token` may see it, from anywhere: at `http://host/#token`, where browsers keep the token
    /// to themselves. Use it with TLS, or a network that you trust.
    #[must_use]
    pub fn with_token(token: impl Into<String>) -> Self {
        Self(Access::Token(token.into()))
    }

    /// Checks the settings.
    pub(super) fn check(&self) -> Result<(), String> {
        match &self.0 {
            Access::Token(token) if token.len() < TOKEN_LEN_MIN => {
                Err(format!("the token of the console is shorter than {TOKEN_LEN_MIN} bytes"))
            }
            _ => Ok(()),
        }
    }
}

/// Shorter tokens can be guessed.
const TOKEN_LEN_MIN: usize = 16;
