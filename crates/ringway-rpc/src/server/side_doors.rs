//! What a server answers over HTTP beside its calls.

use ringway_http::Router;

use crate::builtin::health::Health;

/// The state behind the side doors of a server.
#[derive(Debug)]
pub(crate) struct SideDoors {
    pub(super) health: Health,
    /// The program's own routes.
    pub(super) routes: Option<Router>,
}
