//! The faces by which a program serves connections: a task each.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};

use ringway_runtime::{panic_message, spawn_named};
use tracing::Instrument;

use super::context::CoreContext;
use super::launch::Serve;
use super::log::log;
use super::shared::CoreShare;
use crate::connection::{Connection, Link, WeakLink};
use crate::error::{Error, Result};
use crate::session::ConnectionId;
use crate::spans;

/// Every connection gets a task that runs `handler`.
pub(crate) fn tasks<F>(handler: F) -> Serve
where
    F: AsyncFn(Connection) -> Result + 'static,
{
    let handler = Rc::new(handler);
    Box::new(move |connection| {
        let handler = Rc::clone(&handler);
        let span = spans::of_connection(&connection);
        spawn_named("connection", serve(handler, connection).instrument(span));
    })
}

async fn serve(handler: Rc<impl AsyncFn(Connection) -> Result>, connection: Connection) {
    let id = connection.id();
    let link = Rc::downgrade(connection.link());
    // Within a future of its own, so that a handler that panics before it has made one is contained
    // as well.
    let served = pin!(async { handler(connection).await });
    match (Serving { link: &link, served }).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => report_error(id, &error),
        Err(panic) => report_panic(id, panic),
    }
}

/// A handler whose panic is an outcome, so that only its own connection ends, and whose outcome
/// decides how the connection ends that it was given: in order, plainly, or by a reset.
struct Serving<'a, F> {
    link: &'a WeakLink,
    served: Pin<&'a mut F>,
}

impl<F: Future<Output = Result>> Future for Serving<'_, F> {
    type Output = Result<Result, Box<dyn Any + Send>>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // The handler drops its connection when it ends. It is kept for that long, since what is to
        // be said at its end is known only then.
        let link = self.link.upgrade();
        let polled = catch_unwind(AssertUnwindSafe(|| self.served.as_mut().poll(cx)));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(outcome)) => {
                if outcome.is_ok() {
                    only_left(link).inspect(|link| link.finish());
                }
                Poll::Ready(Ok(outcome))
            }
            Err(panic) => {
                only_left(link).inspect(|link| link.abort());
                Poll::Ready(Err(panic))
            }
        }
    }
}

/// The connection, if its handler has ended with it and has not given it to somebody else.
fn only_left(link: Option<Rc<Link>>) -> Option<Rc<Link>> {
    link.filter(|link| Rc::strong_count(link) == 1)
}

/// Counts and logs that a connection's handler has failed.
pub(crate) fn report_error(id: ConnectionId, error: &Error) {
    count(|share| &share.handler_errors);
    log(|| tracing::debug!(%id, %error, "a connection's handler ended with an error"));
}

/// Counts and logs the panic of a connection's handler.
pub(crate) fn report_panic(id: ConnectionId, panic: Box<dyn Any + Send>) {
    count(|share| &share.handler_panics);
    let panic = panic_message(panic);
    log(
        || tracing::error!(%id, panic, "a connection's handler panicked; its connection is closed"),
    );
}

/// The same for a datagram's. The error may be the program's own, and panic when it is told or dropped.
pub(crate) fn report_datagram_error(error: Error) {
    count(|share| &share.handler_errors);
    log(move || tracing::debug!(%error, "a datagram's handler ended with an error"));
}

pub(crate) fn report_datagram_panic(panic: Box<dyn Any + Send>) {
    count(|share| &share.handler_panics);
    let panic = panic_message(panic);
    log(|| tracing::error!(panic, "a datagram's handler panicked; the next one is handled"));
}

fn count(which: impl FnOnce(&CoreShare) -> &std::sync::atomic::AtomicU64) {
    if let Some(context) = CoreContext::current() {
        context.count(which);
    }
}
