//! The protocols of a port: which one a connection speaks, and who serves it.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use ringway_net::{Connection, Result};
use ringway_wire::Detected;

use super::core::ServerCore;
use super::first_bytes::{FirstBytes, first_bytes};
use super::guests::Guests;
use super::log::log;
use super::shared::ServerShared;
use super::{driver, http};

/// The rest of a connection's life, once its protocol is known.
type Stage = Pin<Box<dyn Future<Output = Result>>>;

/// Serves each connection by the protocol that it speaks. Each stage is in a box of its own, so that a
/// connection holds the memory of the stage that it is in and not that of the largest.
pub(super) fn serve_with(
    shared: Arc<ServerShared>,
) -> impl AsyncFn(Connection) -> Result + Clone + Send + 'static {
    async move |mut connection: Connection| {
        let core = ServerCore::of(&shared, &connection);
        let first = Box::pin(first_bytes(&mut connection)).await?;
        match stage(core, connection, first) {
            Some(stage) => stage.await,
            None => Ok(()),
        }
    }
}

/// Begins to serve a connection; `None` if it speaks no protocol served here.
fn stage(core: Rc<ServerCore>, connection: Connection, first: FirstBytes) -> Option<Stage> {
    match first {
        FirstBytes::Speaks(Detected::Native, first) if may_speak(&connection, ALPN_NATIVE) => {
            let machine = core.native_machine();
            Some(Box::pin(driver::serve(core, connection, machine, first, |_| {})))
        }
        FirstBytes::Speaks(Detected::Http2, first) if may_speak(&connection, ALPN_HTTP2) => {
            let machine = core.grpc_machine();
            Some(Box::pin(driver::serve(core, connection, machine, first, Guests::host)))
        }
        FirstBytes::Speaks(Detected::Http1, first) if may_speak(&connection, ALPN_HTTP1) => {
            Some(Box::pin(http::serve(core, connection, first)))
        }
        FirstBytes::Speaks(Detected::Json, first)
            if core.settings().has_json_lines && may_speak(&connection, b"") =>
        {
            let machine = core.json_machine();
            Some(Box::pin(driver::serve(core, connection, machine, first, |_| {})))
        }
        FirstBytes::Speaks(detected, _) => {
            core.share().count_unknown_protocol();
            log(|| tracing::debug!(?detected, "a connection speaks no protocol served here"));
            None
        }
        FirstBytes::Silent => {
            core.share().count_silent();
            log(|| tracing::debug!("a connection has not said in time what it speaks"));
            None
        }
        FirstBytes::Closed => None,
    }
}

/// The protocols that a TLS client may ask for.
pub(super) const ALPN: [&[u8]; 3] = [ALPN_HTTP2, ALPN_NATIVE, ALPN_HTTP1];
const ALPN_HTTP2: &[u8] = b"h2";
const ALPN_NATIVE: &[u8] = b"ringway/1";
const ALPN_HTTP1: &[u8] = b"http/1.1";

/// Whether the TLS handshake has not agreed on the other protocol. The first bytes decide otherwise.
fn may_speak(connection: &Connection, protocol: &[u8]) -> bool {
    let agreed = connection.alpn_protocol();
    agreed.is_none_or(|agreed| agreed == protocol || !ALPN.contains(&agreed))
}
