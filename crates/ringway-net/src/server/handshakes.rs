//! TLS handshakes of accepted streams.

use std::rc::Rc;

use ringway_runtime::io::Stream;
use ringway_runtime::{now, sleep_until};

use super::context::CoreContext;
use super::log::log;
use super::until::until;
use crate::limits;
use crate::tls::{HandshakeSlot, ServerTls, TlsStream};
use crate::transport::Transport;

/// Completes a TLS handshake and opens the connection.
pub(crate) async fn shake_hands(context: Rc<CoreContext>, stream: Stream, tls: ServerTls) {
    let slot = context.handshakes.begin();
    let outlived = until(slot.needed(), patience(&context, &slot));
    let done = until(outlived, TlsStream::accept_at(stream, &tls, Some(&slot))).await;
    drop(slot);
    match done {
        Some(Ok(stream)) => {
            context.count(|share| &share.handshakes);
            return context.open(Transport::Tls(Box::new(stream)));
        }
        Some(Err(error)) => log(|| tracing::debug!(%error, "a TLS handshake failed")),
        None => log(|| tracing::debug!("a TLS handshake was abandoned")),
    }
    context.count(|share| &share.handshake_errors);
}

/// Waits until a handshake should be abandoned: when the server aborts, or some time after it
/// begins to drain. A client that has not sent anything by then gets
/// [`FIRST_BYTES_WAIT`](limits::FIRST_BYTES_WAIT) from its accept. The handshake's own time limit
/// applies besides.
async fn patience(context: &CoreContext, slot: &HandshakeSlot<'_>) {
    let began = now();
    let drained = async {
        context.draining.cancelled().await;
        let asked = now();
        if !slot.is_heard() {
            sleep_until(began + limits::FIRST_BYTES_WAIT).await;
        }
        if slot.is_heard() {
            sleep_until(asked + limits::HANDSHAKE_DRAIN_WAIT).await;
        }
    };
    until(context.aborting.cancelled(), drained).await;
}
