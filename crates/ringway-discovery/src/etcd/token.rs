//! The token with which a user is known to a cluster.
//!
//! Tokens expire, and all become void when the rights of users change. The cluster then says so, and the next request
//! has a new one.

use std::time::Duration;

use ringway_rpc::{CallOptions, Client, Status};

use super::api::etcdserverpb::{AuthClient, AuthenticateRequest};
use super::config::User;

/// The token of a registry's user.
#[derive(Clone, Default)]
pub(crate) enum Token {
    /// It has to be asked for, if there is a user.
    #[default]
    Unknown,
    Known(String),
    /// The cluster authenticates nobody.
    Needless,
}

/// Asks a member for a token.
///
/// # Errors
/// Fails if the password is wrong, or the member does not answer.
pub(crate) async fn ask(
    client: Client,
    user: Option<&User>,
    limit: Duration,
) -> Result<Token, Status> {
    let Some(user) = user else {
        return Ok(Token::Needless);
    };
    let options = CallOptions::new().timeout(limit);
    let request = AuthenticateRequest { name: user.name.clone(), password: user.password.clone() };
    match AuthClient::new(client).with(options).authenticate(request).await {
        Ok(response) => Ok(Token::Known(response.token)),
        Err(status) if status.message().contains("authentication is not enabled") => {
            Ok(Token::Needless)
        }
        Err(status) => Err(status),
    }
}
