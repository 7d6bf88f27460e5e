//! The end of a server on one core: no new connections, time to finish, then none left.

use ringway_runtime::yield_now;

use super::context::CoreContext;
use crate::limits;

/// Stops accepting, tells the connections, and waits until the last of them has ended. The
/// supervisor has the deadline.
pub(crate) async fn drain() {
    let Some(context) = CoreContext::current() else { return };
    context.stopping.cancel();
    context.draining.cancel();
    for link in context.links() {
        link.begin_drain();
    }
    while !context.is_empty() && !context.aborting.is_cancelled() {
        context.emptied.notified().await;
    }
}

/// Cuts off whoever is left, and lets the handlers see it.
pub(crate) async fn abort() {
    let Some(context) = CoreContext::uninstall() else { return };
    context.stopping.cancel();
    context.draining.cancel();
    context.aborting.cancel();
    context.emptied.notify_waiters();
    for link in context.links() {
        link.abort();
    }
    for _ in 0..limits::ABORTED_TURNS {
        if context.is_empty() {
            break;
        }
        yield_now().await;
    }
}
