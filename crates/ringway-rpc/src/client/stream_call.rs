//! Streaming calls, until their stream is open.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringway_runtime::{self as runtime, sync::oneshot};
use ringway_wire::native::Open;

use super::background;
use super::call_metrics::FinishedCall;
use super::connection_state::body;
use super::endpoints::PickArgs;
use super::interception::Interception;
use super::interceptor::{IncomingReply, InnerCall, Scope};
use super::local_clients::{self, LocalClients};
use super::options::CallOptions;
use super::pool::{NotSent, Pool};
use super::registration::Registration;
use super::stream_carrier::stream_at;
use super::stream_timers::Watcher;
use super::wait_queue::WaiterKey;
use crate::call::codec::Codec;
use crate::call::metadata::Metadata;
use crate::call::method::Method;
use crate::call::status::{Code, Status};
use crate::call::trace::TraceContext;
use crate::connection::table::Handles;
use crate::limits;
use crate::remote::mailbox;
use crate::stream::pending::PendingStream;
use crate::stream::remote::{self, OpenedStream, StreamAt};
use crate::stream::sink::Sink;
use crate::stream::streaming::Streaming;

/// A streaming call that has not begun.
pub(super) struct StreamCall {
    /// The client. This reference keeps it until the stream is open or refused, even if the user drops
    /// it.
    pub(super) registration: Arc<Registration>,
    pub(super) method: &'static Method,
    pub(super) codec: u8,
    pub(super) options: CallOptions,
    pub(super) handles: Handles,
    /// The request, if the method does not take a stream.
    pub(super) request: Option<Bytes>,
}

/// Opens a stream of replies.
pub(super) fn open_reader<T>(call: StreamCall, codec: Codec<T>) -> Streaming<T> {
    open(call, |at| Streaming::replies(at, codec), |pending| pending.streaming(codec))
}

/// Opens a stream of requests and one of replies.
pub(super) fn open_both<Q, P>(
    call: StreamCall,
    out: Codec<Q>,
    back: Codec<P>,
) -> (Sink<Q>, Streaming<P>) {
    open(
        call,
        |at| (Sink::new(at, out), Streaming::replies(at, back)),
        |pending| (pending.sink(out), pending.streaming(back)),
    )
}

/// Opens the stream at once if a connection of this core has room; otherwise the handles wait for it.
fn open<H>(
    mut call: StreamCall,
    handles_of: impl FnOnce(StreamAt) -> H,
    promise: impl FnOnce(&PendingStream) -> H,
) -> H {
    if call.registration.is_intercepted {
        if !local_clients::is_here() {
            call.options.begin_stream_elsewhere(call.method);
        }
        let pending = PendingStream::new();
        let handles = promise(&pending);
        on_a_core(pending, |pending| intercept(pending, call));
        return handles;
    }
    let mut opening = StreamOpen::new(call);
    let polled = local_clients::try_with(|local| {
        local.core()?;
        Some(opening.poll(local, &mut Context::from_waker(Waker::noop()), &mut None))
    })
    .flatten();
    if let Some(Poll::Ready(Ok(at))) = polled {
        return handles_of(at);
    }
    let pending = PendingStream::new();
    let handles = promise(&pending);
    match polled {
        // Its caller may repeat it at once, and must let others run in between.
        Some(Poll::Ready(failed)) => {
            on_a_core(pending, |pending| async move { pending.complete(failed) });
        }
        Some(Poll::Pending) => on_a_core(pending, |pending| fulfil(pending, opening)),
        None => {
            let call = &mut opening.call;
            call.options.begin_stream_elsewhere(call.method);
            on_a_core(pending, |pending| fulfil(pending, opening));
        }
    }
    handles
}

/// Opens the stream in a task of this core, or of the background core if this thread is not a core.
fn on_a_core<F>(pending: PendingStream, fulfil: impl FnOnce(PendingStream) -> F + Send + 'static)
where
    F: Future<Output = ()> + 'static,
{
    let start = |pending| drop(runtime::spawn_named("rpc stream to be opened", fulfil(pending)));
    if local_clients::is_here() {
        return start(pending);
    }
    match background::core() {
        Ok(core) => mailbox::post(core, Box::new(move || start(pending))),
        Err(status) => pending.complete(Err(status)),
    }
}

/// Opens a stream inside the client's interceptors.
async fn intercept(pending: PendingStream, call: StreamCall) {
    // The client lives until the stream is over, because its interceptors do.
    let registration = Arc::clone(&call.registration);
    match local_clients::with(|local| local.pool(registration.id)) {
        Ok(pool) => {
            let deadline = call.options.stream_span(call.method, pool.context().clock).1.instant();
            let inner = Box::new(InterceptedStream::new(call));
            let interception = Interception::start(pool.interceptors(), inner, deadline);
            drop(pool);
            interception.see_stream(pending).await;
        }
        Err(status) => pending.complete(Err(status)),
    }
    drop(registration);
}

/// Completes a pending stream with the opened one or with a failure. Gives up when all its handles are
/// gone.
async fn fulfil(pending: PendingStream, mut opening: StreamOpen) {
    let outcome = poll_fn(|cx| match pending.poll_abandoned(cx) {
        Poll::Ready(reason) => {
            let cancelled = Status::cancelled(reason.unwrap_or_default());
            Poll::Ready(Err(cancelled.of_call(opening.call.method)))
        }
        Poll::Pending => local_clients::with(|local| opening.poll(local, cx, &mut None)),
    })
    .await;
    pending.complete(outcome);
}

/// A stream that is being opened.
struct StreamOpen {
    call: StreamCall,
    waiter: Option<WaiterKey>,
    /// The call's time, from the first poll on.
    span: Option<Span>,
    /// The core in whose queue the stream waits.
    core: u32,
}

#[derive(Clone, Copy)]
struct Span {
    begun: Duration,
    until: Duration,
    /// Whether the call was counted as begun, but its stream is not open and the call not counted as
    /// ended.
    is_counted: bool,
}

impl StreamOpen {
    fn new(call: StreamCall) -> Self {
        Self { call, span: None, waiter: None, core: 0 }
    }

    /// Polls on the call's core. Once the stream is open, the watcher is taken and notified of its end.
    fn poll(
        &mut self,
        local: &LocalClients,
        cx: &mut Context<'_>,
        watcher: &mut Option<Watcher>,
    ) -> Poll<Result<StreamAt, Status>> {
        self.poll_open(local, cx, watcher).map_err(|failure| failure.of_call(self.call.method))
    }

    fn poll_open(
        &mut self,
        local: &LocalClients,
        cx: &mut Context<'_>,
        watcher: &mut Option<Watcher>,
    ) -> Poll<Result<StreamAt, Status>> {
        let call = &mut self.call;
        if let Some(failure) = call.options.take_failure() {
            return Poll::Ready(Err(failure));
        }
        self.core = local.core().unwrap_or_default();
        let pool = local.pool(call.registration.id)?;
        let (now, mut span) = match self.span {
            Some(span) => (runtime::uptime(), span),
            None => {
                let bytes = call.request.as_ref().map_or(0, Bytes::len);
                pool.context().metrics.call_began(call.method, bytes);
                let (begun, deadline) = call.options.stream_span(call.method, pool.context().clock);
                (begun, Span { begun, until: deadline.at, is_counted: true })
            }
        };
        let (until, waited) = (span.until, now.saturating_sub(span.begun));
        let waits_for_ready = call.options.waits_for_ready;
        let key = call.options.key();
        let args = PickArgs { now, until, waits_for_ready, avoid: None, key, tried: None };
        let meta = call.options.encode_meta(&local.scratch);
        let timeout = args.timeout();
        let sent = pool.send(&args, self.waiter.take(), cx.waker(), |connection| {
            let open = Open {
                method: call.method.number(),
                name: call.method.name(),
                timeout,
                codec: call.codec,
                attempt: 0,
                priority: call.options.priority,
                initial_credit: limits::REPLY_CREDIT,
                meta: &meta,
                message: call.request.as_ref().map(body),
                end: call.request.is_some(),
            };
            let opened =
                connection.open_stream(call.method, open, until, call.handles, now, waited)?;
            if let Some(watcher) = watcher.take() {
                connection.watch_stream(opened, watcher);
            }
            Ok(stream_at(connection, opened))
        });
        local.scratch.give_back(meta);
        span.is_counted = matches!(sent, Err(NotSent::Waits(_)));
        self.span = Some(span);
        match sent {
            Ok(at) => Poll::Ready(Ok(at)),
            Err(NotSent::Failed(status)) => {
                count_unopened(&pool, call.method, status.code(), waited);
                Poll::Ready(Err(status))
            }
            Err(NotSent::Waits(waiter)) => {
                self.waiter = Some(waiter);
                Poll::Pending
            }
        }
    }
}

/// Counts the end of a call whose stream was never open.
fn count_unopened(pool: &Pool, method: &'static Method, code: Code, waited: Duration) {
    pool.context()
        .metrics
        .call_ended(method, FinishedCall { code, bytes: 0, waited, service: None });
}

impl Drop for StreamOpen {
    fn drop(&mut self) {
        let Some(span) = self.span.filter(|span| span.is_counted) else {
            return;
        };
        let (client, method, waiter) =
            (self.call.registration.id, self.call.method, self.waiter.take());
        local_clients::on_core(self.core, move |local| {
            if let Some(pool) = local.known_pool(client) {
                pool.stop_waiting(waiter);
                let waited = runtime::uptime().saturating_sub(span.begun);
                count_unopened(&pool, method, Code::Cancelled, waited);
            }
        });
    }
}

/// The innermost part of an intercepted streaming call: opens the stream and waits for its end.
struct InterceptedStream {
    opening: StreamOpen,
    is_open: bool,
    /// Notified of the stream's end, once it is open.
    watcher: Option<Watcher>,
    end: oneshot::Receiver<Result<(), Status>>,
}

impl InterceptedStream {
    fn new(call: StreamCall) -> Self {
        let (watcher, end) = oneshot::channel();
        Self { opening: StreamOpen::new(call), is_open: false, watcher: Some(watcher), end }
    }

    fn open(&mut self, scope: &Scope, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        let Self { opening, watcher, .. } = self;
        let at = ready!(local_clients::with(|local| opening.poll(local, cx, watcher)))?;
        self.is_open = true;
        let opened = OpenedStream::new(at);
        match scope.pending.take() {
            Some(pending) => pending.complete(Ok(opened.take())),
            // An interceptor has answered meanwhile, so the handles are gone.
            None => drop(opened),
        }
        Poll::Ready(Ok(()))
    }
}

impl InnerCall for InterceptedStream {
    fn method(&self) -> &'static Method {
        self.opening.call.method
    }

    fn take_metadata(&mut self) -> Metadata {
        self.opening.call.options.take_metadata()
    }

    fn trace(&self) -> Option<TraceContext> {
        self.opening.call.options.said_trace()
    }

    fn begin(
        &mut self,
        metadata: Metadata,
        trace: Option<TraceContext>,
        deadline: Option<Instant>,
    ) {
        let options = std::mem::take(&mut self.opening.call.options);
        self.opening.call.options = options.settled(metadata, trace, deadline);
    }

    fn poll(&mut self, scope: &Scope, cx: &mut Context<'_>) -> Poll<Result<IncomingReply, Status>> {
        if !self.is_open {
            ready!(self.open(scope, cx))?;
        }
        let end = ready!(Pin::new(&mut self.end).poll(cx));
        end.unwrap_or_else(|_| Err(remote::unreachable()))?;
        Poll::Ready(Ok(IncomingReply::of_streams()))
    }
}
