//! The end of a server on one core: stop accepting, drain, abort.

use std::rc::Rc;

use ringway_runtime::io::abort_dropped_streams;
use ringway_runtime::yield_now;

use super::context::CoreContext;
use super::control::Phase;
use super::until::until;
use crate::limits;

/// Follows the phases of the server on this core.
pub(crate) async fn follow(context: Rc<CoreContext>) {
    let progress = Progress(&context);
    if reached(&context, Phase::Draining).await == Phase::Draining {
        let drained = async {
            drain(&context).await;
            progress.done(Phase::Draining);
            std::future::pending::<()>().await;
        };
        until(reached(&context, Phase::Aborting), drained).await;
    }
    abort(&context).await;
    progress.done(Phase::Aborting);
}

async fn reached(context: &CoreContext, phase: Phase) -> Phase {
    let control = &context.shared.control;
    std::future::poll_fn(|cx| control.poll_phase(context.number, phase, cx)).await
}

/// Stops accepting, takes the queued connections, and tells all connections to drain. The
/// supervisor waits for them and watches the deadline.
async fn drain(context: &CoreContext) {
    context.stopping.cancel();
    until(context.lacks_descriptors.cancelled(), context.listeners.ended()).await;
    context.draining.cancel();
    for inner in context.connections.owned() {
        inner.begin_drain();
    }
    context.listeners.ended().await;
    context.datagrams.ended().await;
}

/// Aborts the remaining connections, and gives their handlers a few turns to see it.
async fn abort(context: &CoreContext) {
    CoreContext::uninstall();
    context.stopping.cancel();
    context.draining.cancel();
    context.aborting.cancel();
    for inner in context.connections.owned() {
        inner.abort();
    }
    abort_dropped_streams();
    for _ in 0..limits::ABORTED_TURNS {
        if context.connections.is_deserted() {
            break;
        }
        yield_now().await;
    }
}

/// Reports the progress of a core to the supervisor. Dropping it reports the end of the core.
struct Progress<'a>(&'a CoreContext);

impl Progress<'_> {
    fn done(&self, phase: Phase) {
        self.0.shared.control.core_done(self.0.number, phase);
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        self.done(Phase::Ended);
    }
}
