//! Serving connections with a task for each.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use ringway_runtime::spawn_detached;
use tracing::Instrument;

use super::context::{CoreContext, Serve};
use super::failures::{report_error, report_panic};
use crate::connection::{Connection, ConnectionInner, WeakConnection};
use crate::error::Result;
use crate::session::ConnectionId;
use crate::spans;

/// Makes the `Serve` that runs `handler` in a task for every connection.
pub(crate) fn one_each<F>(handler: F) -> Serve
where
    F: AsyncFn(Connection) -> Result + 'static,
{
    let handler = Rc::new(handler);
    Box::new(move |context, connection| {
        let (context, handler) = (Rc::clone(context), Rc::clone(&handler));
        let span = spans::of_connection(&connection);
        spawn_detached("connection", serve(context, handler, connection).instrument(span));
    })
}

/// The task of a connection: its handler, whose panic is an outcome, so that only its own connection
/// ends. The outcome decides how the connection ends: in order, by a plain drop, or by a reset.
struct Serving<F> {
    context: Rc<CoreContext>,
    id: ConnectionId,
    inner: WeakConnection,
    served: Pin<Box<F>>,
}

fn serve(
    context: Rc<CoreContext>,
    handler: Rc<impl AsyncFn(Connection) -> Result>,
    connection: Connection,
) -> impl Future<Output = ()> {
    Serving {
        context,
        id: connection.id(),
        inner: Rc::downgrade(connection.inner()),
        // The async block also contains a handler that panics before it returns its future.
        served: Box::pin(async move { handler(connection).await }),
    }
}

impl<F: Future<Output = Result>> Future for Serving<F> {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // The handler drops its connection when it ends. This reference keeps it, because how to
        // end it is known only then.
        let inner = self.inner.upgrade();
        let polled = catch_unwind(AssertUnwindSafe(|| self.served.as_mut().poll(cx)));
        match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(outcome)) => {
                if outcome.is_ok() {
                    only_left(inner).inspect(|inner| inner.finish());
                }
                if let Err(error) = outcome {
                    report_error(&self.context, self.id, &error);
                }
            }
            Err(panic) => {
                only_left(inner).inspect(|inner| inner.abort());
                report_panic(&self.context, self.id, panic);
            }
        }
        Poll::Ready(())
    }
}

/// Returns the connection if the handler has dropped it and nobody else owns it.
fn only_left(inner: Option<Rc<ConnectionInner>>) -> Option<Rc<ConnectionInner>> {
    inner.filter(|inner| Rc::strong_count(inner) == 1)
}
