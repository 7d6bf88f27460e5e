//! Serving connections by a task each.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};

use ringway_runtime::spawn_named;
use tracing::Instrument;

use super::context::{CoreContext, Serve};
use super::failures::{report_error, report_panic};
use crate::connection::{Connection, ConnectionInner, WeakConnection};
use crate::error::Result;
use crate::spans;

/// Every connection gets a task that runs `handler`.
pub(crate) fn one_each<F>(handler: F) -> Serve
where
    F: AsyncFn(Connection) -> Result + 'static,
{
    let handler = Rc::new(handler);
    Box::new(move |context, connection| {
        let (context, handler) = (Rc::clone(context), Rc::clone(&handler));
        let span = spans::of_connection(&connection);
        spawn_named("connection", serve(context, handler, connection).instrument(span));
    })
}

async fn serve(
    context: Rc<CoreContext>,
    handler: Rc<impl AsyncFn(Connection) -> Result>,
    connection: Connection,
) {
    let id = connection.id();
    let inner = Rc::downgrade(connection.inner());
    // Within a future of its own, so that a handler that panics before it has made one is contained
    // as well.
    let served = pin!(async { handler(connection).await });
    match (Ending { inner: &inner, served }).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => report_error(&context, id, &error),
        Err(panic) => report_panic(&context, id, panic),
    }
}

/// A handler whose panic is an outcome, so that only its own connection ends, and whose outcome
/// decides how the connection ends that it was given: in order, plainly, or by a reset.
struct Ending<'a, F> {
    inner: &'a WeakConnection,
    served: Pin<&'a mut F>,
}

impl<F: Future<Output = Result>> Future for Ending<'_, F> {
    type Output = Result<Result, Box<dyn Any + Send>>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // The handler drops its connection when it ends. It is kept for that long, since what is to
        // be said at its end is known only then.
        let inner = self.inner.upgrade();
        let polled = catch_unwind(AssertUnwindSafe(|| self.served.as_mut().poll(cx)));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(outcome)) => {
                if outcome.is_ok() {
                    only_left(inner).inspect(|inner| inner.finish());
                }
                Poll::Ready(Ok(outcome))
            }
            Err(panic) => {
                only_left(inner).inspect(|inner| inner.abort());
                Poll::Ready(Err(panic))
            }
        }
    }
}

/// The connection, if its handler has ended with it and has not given it to somebody else.
fn only_left(inner: Option<Rc<ConnectionInner>>) -> Option<Rc<ConnectionInner>> {
    inner.filter(|inner| Rc::strong_count(inner) == 1)
}
