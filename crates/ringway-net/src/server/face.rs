//! The faces by which a program serves connections: a task each.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use ringway_runtime::spawn_named;
use tracing::Instrument;

use super::context::CoreContext;
use super::launch::Serve;
use crate::connection::Connection;
use crate::error::Result;
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
        let serving = async move {
            let id = connection.id();
            let served = pin!(handler(connection));
            match Contained(served).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    count(|share| &share.handler_errors);
                    tracing::debug!(%id, %error, "a connection's handler ended with an error");
                }
                Err(panic) => report_panic(id, &*panic),
            }
        };
        spawn_named("connection", serving.instrument(span));
    })
}

/// A handler whose panic is an outcome, so that only its own connection ends.
struct Contained<'a, F>(Pin<&'a mut F>);

impl<F: Future> Future for Contained<'_, F> {
    type Output = Result<F::Output, Box<dyn Any + Send>>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(cx))) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}

/// Counts and logs the panic of a connection's handler.
pub(crate) fn report_panic(id: ConnectionId, panic: &(dyn Any + Send)) {
    count(|share| &share.handler_panics);
    let panic = panic_text(panic);
    tracing::error!(%id, panic, "a connection's handler panicked; its connection is closed");
}

/// The same for a datagram's.
pub(crate) fn report_datagram_panic(panic: &(dyn Any + Send)) {
    count(|share| &share.handler_panics);
    tracing::error!(
        panic = panic_text(panic),
        "a datagram's handler panicked; the next one is handled"
    );
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or(panic.downcast_ref::<String>().map(|text| &**text)).unwrap_or("a value that is no text")
}

fn count(which: impl FnOnce(&super::shared::CoreShare) -> &std::sync::atomic::AtomicU64) {
    if let Some(context) = CoreContext::current() {
        let share = context.shared.core(context.number);
        which(share).fetch_add(1, Ordering::Relaxed);
    }
}
