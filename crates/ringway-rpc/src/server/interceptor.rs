//! Server interceptors: code that runs around handlers.

use std::any::Any;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll, Waker};

use bytes::Bytes;
use ringway_wire::native::Piece;

use crate::call::context::Context;
use crate::call::method::Method;
use crate::call::status::Status;
use crate::service::{Begin, Encoded, Handler, Started, Waiting};
use crate::stream::remote::OpenedStream;

/// The encoded reply of a call, as interceptors see it on the way back. A method that answers with a
/// stream has no message here.
#[derive(Debug)]
pub struct Reply {
    message: Option<Bytes>,
}

impl Reply {
    /// Bytes of the encoded message.
    pub fn len(&self) -> usize {
        self.message.as_ref().map_or(0, Bytes::len)
    }

    /// Whether there is no message, or an empty one.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The rest of a call: the remaining interceptors, then the handler.
///
/// Dropping it ends the call early, with what the interceptor returns instead.
pub struct Next {
    core: Rc<dyn Handlers>,
    method_index: usize,
    /// The number of interceptors that the call has passed.
    passed: usize,
    message: Option<Bytes>,
    stream: Option<OpenedStream>,
    held: Option<Box<dyn Any>>,
    /// Messages are JSON, whatever the method's own form is.
    is_json: bool,
}

pub(crate) type Intercepting = Pin<Box<dyn Future<Output = Result<Reply, Status>>>>;

/// An interceptor, as one core has it.
pub(crate) type Intercept = Rc<dyn Fn(Context, Next) -> Intercepting>;

/// The interceptors and handlers of a core, or of one method.
pub(crate) trait Handlers {
    /// The interceptor that follows the first `passed` ones.
    fn interceptor(&self, passed: usize) -> Option<&Intercept>;

    fn handler(&self, method_index: usize) -> &dyn Handler;

    fn method(&self, method_index: usize) -> &'static Method;
}

/// Makes an interceptor for each core.
pub(crate) type MakeIntercept = Box<dyn Fn() -> Intercept + Send + Sync>;

/// Wraps an interceptor so that each core gets its own clone.
pub(crate) fn make<F>(interceptor: F) -> MakeIntercept
where
    F: AsyncFn(Context, Next) -> Result<Reply, Status> + Clone + Send + Sync + 'static,
{
    Box::new(move || {
        let interceptor = Rc::new(interceptor.clone());
        Rc::new(move |context, next| {
            let interceptor = Rc::clone(&interceptor);
            Box::pin(async move { interceptor(context, next).await })
        })
    })
}

impl Next {
    /// Runs the rest of the call.
    ///
    /// # Errors
    /// The status of the handler or of a later interceptor. It never says that the call was not executed,
    /// because this interceptor has already seen it.
    pub async fn run(mut self, context: Context) -> Result<Reply, Status> {
        let core = Rc::clone(&self.core);
        if let Some(intercept) = core.interceptor(self.passed) {
            self.passed += 1;
            return intercept(context, self).await.map_err(Status::maybe_executed);
        }
        let message = self.message.map(Piece::Owned);
        let Self { method_index, stream, held, is_json, .. } = self;
        let begin = Begin { context, message, stream, held, is_json };
        let mut out = Vec::new();
        let encoded = match core.handler(method_index).start(begin, &mut out) {
            Started::Done(outcome) => outcome,
            Started::Refused(why) => Err(Status::resource_exhausted(why)),
            Started::Waiting(mut handler) => {
                std::future::poll_fn(|cx| handler.as_mut().poll(cx, &mut out)).await
            }
        };
        let encoded = encoded.map_err(Status::maybe_executed)?;
        let message = match encoded {
            Encoded::InScratch => Some(Bytes::from(out)),
            Encoded::Shared(bytes) => Some(bytes),
            Encoded::Nothing => None,
        };
        Ok(Reply { message })
    }
}

/// Passes a call through the interceptors, if there are any, to its handler.
pub(super) fn start(
    core: Rc<dyn Handlers>,
    method_index: usize,
    begin: Begin<'_>,
    out: &mut Vec<u8>,
) -> Started {
    let Some(first) = core.interceptor(0).map(Rc::clone) else {
        return core.handler(method_index).start(begin, out);
    };
    let Begin { context, message, stream, held, is_json } = begin;
    let message = message.map(Piece::into_bytes);
    let next = Next { core, method_index, passed: 1, message, stream, held, is_json };
    let mut handler: Pin<Box<dyn Waiting>> = Box::pin(RunningInterceptor(first(context, next)));
    let mut cx = TaskContext::from_waker(Waker::noop());
    match handler.as_mut().poll(&mut cx, out) {
        Poll::Ready(outcome) => Started::Done(outcome),
        Poll::Pending => Started::Waiting(handler),
    }
}

struct RunningInterceptor(Intercepting);

impl Waiting for RunningInterceptor {
    fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        _out: &mut Vec<u8>,
    ) -> Poll<Result<Encoded, Status>> {
        self.0.as_mut().poll(cx).map_ok(|reply| match reply.message {
            Some(bytes) => Encoded::Shared(bytes),
            None => Encoded::Nothing,
        })
    }
}

impl std::fmt::Debug for Next {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Next").field("method", &self.core.method(self.method_index).name).finish()
    }
}
