//! Handlers that block or compute for long: they run on the blocking pool, so that their core is
//! free.

use std::any::Any;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{self, Poll, ready};

use bytes::Bytes;
use ringway_net::remote::block_on;
use ringway_runtime::blocking::BlockingTask;
use ringway_runtime::{CoreHandle, drop_contained, spawn_blocking, spawn_named};
use ringway_wire::native::Piece;

use super::{Begin, Encoded, Handler, Outcome, Started, Waiting, decode_request};
use crate::call::codec::Codec;
use crate::call::context::{Context, Sendable};
use crate::call::metadata::Metadata;
use crate::call::status::{Code, Status};

/// A method whose calls run on the blocking pool, including decoding and encoding.
pub(super) struct Offloaded<Req, Rep, F> {
    codec_in: Codec<Req>,
    codec_out: Codec<Rep>,
    handler: Arc<F>,
}

impl<Req, Rep, F> Offloaded<Req, Rep, F> {
    pub(super) fn new(codec_in: Codec<Req>, codec_out: Codec<Rep>, handler: F) -> Self {
        Self { codec_in, codec_out, handler: Arc::new(handler) }
    }
}

impl<Req, Rep, F, Fut> Handler for Offloaded<Req, Rep, F>
where
    Req: 'static,
    Rep: 'static,
    F: Fn(Context, Req) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Rep, Status>>,
{
    fn start(&self, begin: Begin<'_>, _: &mut Vec<u8>) -> Started {
        let Begin { context, message, held, is_json, .. } = begin;
        let codec_in = self.codec_in.in_form(is_json);
        let codec_out = self.codec_out.in_form(is_json);
        let handler = Arc::clone(&self.handler);
        let message = message.map(Piece::into_bytes);
        let sendable = context.to_sendable();
        let work = move || {
            run(sendable, |context| async move {
                let request = decode_request(&codec_in, message.map(Piece::Owned))?;
                let reply = handler(context, request).await?;
                let mut out = Vec::new();
                let whole = (codec_out.encode)(reply, &mut out)?;
                Ok(whole.unwrap_or_else(|| Bytes::from(out)))
            })
        };
        match spawn_blocking(work) {
            Ok(task) => Started::Waiting(Box::pin(Offload { context, task: Some(task), held })),
            Err(_full) => Started::Refused("the server's blocking pool is full"),
        }
    }
}

/// The result of a call from the pool.
struct OffloadResult {
    reply: Result<Bytes, Status>,
    initial: Metadata,
    trailers: Metadata,
}

/// A call that runs on the pool.
struct Offload {
    context: Context,
    /// `Some` until the job is done.
    task: Option<BlockingTask<OffloadResult>>,
    /// Dropped when the job is done.
    held: Option<Box<dyn Any>>,
}

impl Waiting for Offload {
    fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        _: &mut Vec<u8>,
    ) -> Poll<Outcome> {
        let task = self.task.as_mut().expect("a call that is done is not polled");
        let answer = ready!(Pin::new(task).poll(cx));
        self.task = None;
        self.held = None;
        let OffloadResult { reply, initial, trailers } = match answer {
            Ok(answer) => answer,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        self.context.set_reply_metadata(initial, trailers);
        Poll::Ready(reply.map(Encoded::Shared))
    }
}

impl Drop for Offload {
    /// Cancels the context, because a running thread cannot be stopped.
    fn drop(&mut self) {
        let Some(task) = self.task.take() else { return };
        self.context.cancel(Code::Cancelled, "the call is over");
        if let Some(held) = self.held.take()
            && CoreHandle::is_here()
        {
            spawn_named("abandoned offloaded call", async move {
                if let Err(panic) = task.await {
                    drop_contained("an abandoned offloaded call", panic);
                }
                drop(held);
            });
        }
    }
}

/// Runs a handler on a thread of the pool, which sleeps while the handler waits.
fn run<Fut>(sendable: Sendable, handler: impl FnOnce(Context) -> Fut) -> OffloadResult
where
    Fut: Future<Output = Result<Bytes, Status>>,
{
    let context = sendable.into_context();
    if context.is_cancelled() {
        let why = context.cancel_reason().expect("a cancelled call has a reason");
        // The caller no longer waits.
        return OffloadResult {
            reply: Err(why),
            initial: Metadata::new(),
            trailers: Metadata::new(),
        };
    }
    let mut future = pin!(handler(context.clone()));
    let mut done = pin!(context.done());
    let reply = block_on(poll_fn(|cx| match context.enter(|| future.as_mut().poll(cx)) {
        Poll::Pending => {
            let reason = ready!(done.as_mut().poll(cx));
            Poll::Ready(Err(reason.unwrap_or_else(|| Status::cancelled("the call is over"))))
        }
        ready => ready,
    }));
    OffloadResult { reply, initial: context.take_initial(), trailers: context.take_trailers() }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::call::context::tests::sample;
    use crate::call::method::{Kind, Method};
    use crate::service::Methods;

    static METHOD: Method = Method::new("test.Test/Slow", Kind::Unary).offload();

    fn register<F, Fut>(handler: F) -> Box<dyn Handler>
    where
        F: Fn(Context, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, Status>> + 'static,
    {
        let mut methods = Methods::default();
        methods.unary_offloaded(&METHOD, Codec::json(), Codec::json(), handler);
        methods.into_entries().pop().expect("one was added").handler
    }

    fn start(handler: &dyn Handler, context: &Context) -> Pin<Box<dyn Waiting>> {
        let message = Some(Piece::Borrowed(b"\"a\""));
        let begin =
            Begin { context: context.clone(), message, stream: None, held: None, is_json: false };
        match handler.start(begin, &mut Vec::new()) {
            Started::Waiting(waiting) => waiting,
            Started::Done(outcome) => panic!("it ran on the core: {outcome:?}"),
            Started::Refused(why) => panic!("it was refused: {why}"),
        }
    }

    fn wait(mut waiting: Pin<Box<dyn Waiting>>) -> Outcome {
        block_on(poll_fn(|cx| waiting.as_mut().poll(cx, &mut Vec::new())))
    }

    #[test]
    fn handler_runs_on_another_thread_with_the_same_call() {
        let here = thread::current().id();
        let handler = register(move |context, request| async move {
            let local = Rc::new(request); // its future need not be `Send`
            assert_ne!(thread::current().id(), here);
            assert_eq!(Context::current().map(|it| it.attempt()), Some(context.attempt()));
            context.set_trailer("cost", "3")?;
            Ok(local.repeat(2))
        });
        let context = sample();
        let reply = wait(start(&*handler, &context)).expect("a reply");
        assert_eq!(reply, Encoded::Shared(Bytes::from_static(b"\"aa\"")));
        assert_eq!(context.take_trailers().get("cost"), Some("3"));
    }

    #[test]
    fn dropping_the_call_cancels_its_context_on_the_thread() {
        let (tell, told) = mpsc::channel();
        let handler = register(move |context, _| {
            let tell = tell.clone();
            async move {
                tell.send(None).expect("the test waits");
                while !context.is_cancelled() {
                    thread::yield_now();
                }
                tell.send(context.cancel_reason().map(|it| it.code())).expect("the test waits");
                Ok(String::new())
            }
        });
        let waiting = start(&*handler, &sample());
        let hear = || told.recv_timeout(Duration::from_secs(60)).expect("the thread is there");
        assert_eq!(hear(), None, "it runs");
        drop(waiting);
        assert_eq!(hear(), Some(Code::Cancelled));
    }

    #[test]
    fn waiting_handler_is_woken_by_the_cancellation() {
        let handler = register(|_, _| std::future::pending());
        let context = sample();
        let waiting = start(&*handler, &context);
        context.cancel(Code::DeadlineExceeded, "too late");
        assert!(wait(waiting).is_err_and(|status| status.is_deadline_exceeded()));
    }

    #[test]
    fn panic_is_resumed_where_the_call_is_polled() {
        let handler = register(|_, _| async { panic!("as handlers may") });
        let waiting = start(&*handler, &sample());
        let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| wait(waiting)));
        assert!(polled.is_err());
    }
}
