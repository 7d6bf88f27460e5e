//! Serving datagrams.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use super::context::CoreContext;
use super::failures::{report_datagram_error, report_datagram_panic};
use super::log::log;
use super::log_throttle::LogThrottle;
use super::until::{at_once, until};
use crate::error::Result;
use crate::limits;
use crate::udp::{Datagram, Responder, UdpSocket};

/// Serves one socket. It is made on the thread that starts the server and runs on a core. Its last
/// argument holds the datagrams that arrived before.
pub(crate) type ServeDatagrams = Box<
    dyn FnOnce(Rc<CoreContext>, UdpSocket, Vec<Datagram>) -> Pin<Box<dyn Future<Output = ()>>>
        + Send,
>;

/// Makes a `ServeDatagrams` for each socket.
pub(crate) type MakeServeDatagrams = Box<dyn Fn() -> ServeDatagrams + Send>;

/// Makes the server of datagrams that calls `handler` for one datagram after another on each core.
pub(crate) fn one_by_one<F>(handler: F) -> MakeServeDatagrams
where
    F: AsyncFn(Datagram, Responder) -> Result + Clone + Send + 'static,
{
    Box::new(move || {
        let handler = handler.clone();
        Box::new(move |context, socket, early| Box::pin(serve(context, socket, early, handler)))
    })
}

async fn serve<F>(context: Rc<CoreContext>, socket: UdpSocket, early: Vec<Datagram>, handler: F)
where
    F: AsyncFn(Datagram, Responder) -> Result,
{
    let _until_closed = context.datagrams.begin();
    for datagram in early {
        handle(&context, &socket, datagram, &handler).await;
    }
    let throttle = LogThrottle::default();
    while let Some(received) = until(context.stopping.cancelled(), socket.recv()).await {
        take(&context, &socket, received, &handler, &throttle).await;
    }
    // Received datagrams are answered, up to a bound.
    for _ in 0..limits::LAST_DATAGRAMS_MAX {
        let Some(received) = at_once(socket.recv()).await else { break };
        take(&context, &socket, received, &handler, &throttle).await;
    }
}

async fn take<F>(
    context: &CoreContext,
    socket: &UdpSocket,
    received: Result<Datagram>,
    handler: &F,
    throttle: &LogThrottle,
) where
    F: AsyncFn(Datagram, Responder) -> Result,
{
    match received {
        Ok(datagram) => handle(context, socket, datagram, handler).await,
        Err(error) => {
            if let Some(before) = throttle.admit() {
                log(|| tracing::debug!(%error, before, "a datagram socket reported an error"));
            }
        }
    }
}

async fn handle<F>(context: &CoreContext, socket: &UdpSocket, datagram: Datagram, handler: &F)
where
    F: AsyncFn(Datagram, Responder) -> Result,
{
    let responder = Responder::new(socket.clone(), datagram.from());
    // The async block also contains a handler that panics before it returns its future.
    match contained(async { handler(datagram, responder).await }).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => report_datagram_error(context, error),
        Err(panic) => report_datagram_panic(context, panic),
    }
}

async fn contained<T>(work: impl Future<Output = T>) -> Result<T, Box<dyn Any + Send>> {
    let mut work = pin!(work);
    std::future::poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}
