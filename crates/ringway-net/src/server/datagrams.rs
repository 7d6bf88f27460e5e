//! Serving datagrams.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use super::context::CoreContext;
use super::failures::{report_datagram_error, report_datagram_panic};
use super::log::log;
use super::seldom::Seldom;
use super::until::{at_once, until};
use crate::error::Result;
use crate::limits;
use crate::udp::{Datagram, Responder, UdpSocket};

/// Serves one socket, made on the thread that starts the server and run on a core. The datagrams
/// are those that came before.
pub(crate) type ServeDatagrams = Box<
    dyn FnOnce(Rc<CoreContext>, UdpSocket, Vec<Datagram>) -> Pin<Box<dyn Future<Output = ()>>>
        + Send,
>;

/// Makes one of these for every socket.
pub(crate) type MakeServeDatagrams = Box<dyn Fn() -> ServeDatagrams + Send>;

/// Datagrams are handled by `handler`, one after another on each core.
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
    let troubles = Seldom::default();
    while let Some(received) = until(context.stopping.cancelled(), socket.recv()).await {
        take(&context, &socket, received, &handler, &troubles).await;
    }
    // What has arrived is answered, however much may follow it.
    for _ in 0..limits::LAST_DATAGRAMS_MAX {
        let Some(received) = at_once(socket.recv()).await else { break };
        take(&context, &socket, received, &handler, &troubles).await;
    }
}

async fn take<F>(
    context: &CoreContext,
    socket: &UdpSocket,
    received: Result<Datagram>,
    handler: &F,
    troubles: &Seldom,
) where
    F: AsyncFn(Datagram, Responder) -> Result,
{
    match received {
        Ok(datagram) => handle(context, socket, datagram, handler).await,
        Err(error) => {
            if let Some(before) = troubles.says() {
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
    // Within a future of its own, so that a handler that panics before it has made one is contained
    // as well.
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
