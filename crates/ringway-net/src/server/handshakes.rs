//! From an accepted stream to an open connection under TLS.

use std::rc::Rc;

use ringway_runtime::io::Stream;
use ringway_runtime::{now, sleep_until};

use super::context::CoreContext;
use super::log::log;
use super::until::until;
use crate::limits;
use crate::tls::{Place, ServerTls, TlsStream};
use crate::transport::Transport;

/// Opens a connection once its handshake is done.
pub(crate) async fn shake_hands(context: Rc<CoreContext>, stream: Stream, tls: ServerTls) {
    let place = context.handshakes.begin();
    let outlived = until(place.needed(), patience(&context, &place));
    let done = until(outlived, TlsStream::accept_at(stream, &tls, Some(&place))).await;
    drop(place);
    match done {
        Some(Ok(stream)) => {
            context.count(|share| &share.handshakes);
            return context.open(Transport::Tls(Box::new(stream)));
        }
        Some(Err(error)) => log(|| tracing::debug!(%error, "a TLS handshake failed")),
        None => log(|| tracing::debug!("a TLS handshake was given up")),
    }
    context.count(|share| &share.handshake_errors);
}

/// Waits until a handshake is not worth its place any more, but for its own time limit: at the abort
/// of the server, and a while after the beginning of its drain. A client that has said nothing by then
/// gets the time in which its first bytes may still be on their way, counted from now.
async fn patience(context: &CoreContext, place: &Place<'_>) {
    let began = now();
    let drained = async {
        context.draining.cancelled().await;
        let asked = now();
        if !place.is_heard() {
            sleep_until(began + limits::FIRST_BYTES_WAIT).await;
        }
        if place.is_heard() {
            sleep_until(asked + limits::HANDSHAKE_DRAIN_WAIT).await;
        }
    };
    until(context.aborting.cancelled(), drained).await;
}
