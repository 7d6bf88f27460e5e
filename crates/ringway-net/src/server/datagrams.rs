//! Serving datagrams.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use super::context::CoreContext;
use super::face::report_datagram_panic;
use crate::error::Result;
use crate::udp::{Datagram, Responder, UdpSocket};

/// Serves one socket, made on the thread that starts the server and run on a core.
pub(crate) type ServeDatagrams =
    Box<dyn FnOnce(Rc<CoreContext>, UdpSocket) -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// Makes one of these for every socket.
pub(crate) type MakeServeDatagrams = Box<dyn Fn() -> ServeDatagrams + Send>;

/// Datagrams are handled by `handler`, one after another on each core.
pub(crate) fn one_by_one<F>(handler: F) -> MakeServeDatagrams
where
    F: AsyncFn(Datagram, Responder) -> Result + Clone + Send + 'static,
{
    Box::new(move || {
        let handler = handler.clone();
        Box::new(move |context, socket| Box::pin(serve(context, socket, handler)))
    })
}

async fn serve<F>(context: Rc<CoreContext>, socket: UdpSocket, handler: F)
where
    F: AsyncFn(Datagram, Responder) -> Result,
{
    while let Some(received) = next(&context, &socket).await {
        let datagram = match received {
            Ok(datagram) => datagram,
            Err(error) => {
                tracing::debug!(%error, "a datagram socket reported an error");
                continue;
            }
        };
        let responder = Responder::new(socket.clone(), datagram.from());
        let mut handled = pin!(handler(datagram, responder));
        let contained = std::future::poll_fn(|cx| {
            match catch_unwind(AssertUnwindSafe(|| handled.as_mut().poll(cx))) {
                Ok(poll) => poll.map(Ok),
                Err(panic) => Poll::Ready(Err(panic)),
            }
        });
        match contained.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a datagram's handler ended with an error"),
            Err(panic) => report_datagram_panic(&*panic),
        }
    }
}

/// The next datagram; `None` when the server stops.
async fn next(context: &CoreContext, socket: &UdpSocket) -> Option<Result<Datagram>> {
    let mut stopping = pin!(context.stopping.cancelled());
    let mut receiving = pin!(socket.recv());
    std::future::poll_fn(|cx| {
        if stopping.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        receiving.as_mut().poll(cx).map(Some)
    })
    .await
}
