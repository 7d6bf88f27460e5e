//! Calls with streams, up to the moment at which they are open.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_core::Stream;
use ringway_runtime as runtime;
use ringway_wire::native::Open;

use super::Life;
use super::carry::stream_at;
use super::hub::{self, Hub};
use super::intercepted::Running;
use super::interceptor::Inner;
use super::line::Ticket;
use super::link::{self, NEVER};
use super::options::CallOptions;
use super::outcome::{Reply, ReplyMeta};
use super::pool::{Demand, NotSent};
use super::registry::{self, ClientId};
use super::stream_lives::Watcher;
use super::tally::{Ended, Tally};
use crate::call::codec::Codec;
use crate::call::metadata::Metadata;
use crate::call::method::Method;
use crate::call::status::{Code, Status};
use crate::connection::table::Handles;
use crate::limits;
use crate::remote::mailbox;
use crate::stream::pending::Opener;
use crate::stream::remote::StreamAt;
use crate::stream::sink::Sink;
use crate::stream::streaming::Streaming;

/// What a stream is opened with.
pub(super) struct StreamCall {
    pub(super) client: ClientId,
    pub(super) is_intercepted: bool,
    pub(super) method: &'static Method,
    pub(super) codec: u8,
    pub(super) options: CallOptions,
    pub(super) handles: Handles,
    /// The one request, where there is no stream of them.
    pub(super) request: Option<Bytes>,
}

impl StreamCall {
    /// Opens a stream of replies.
    pub(super) fn open_reader<T>(self, life: &Arc<Life>, codec: Codec<T>) -> Streaming<T> {
        self.open(life, |at| Streaming::replies(at, codec), |opener| opener.streaming(codec))
    }

    /// Opens a stream of requests and one of replies.
    pub(super) fn open_both<Q, P>(
        self,
        life: &Arc<Life>,
        out: Codec<Q>,
        back: Codec<P>,
    ) -> (Sink<Q>, Streaming<P>) {
        self.open(
            life,
            |at| (Sink::new(at, out), Streaming::replies(at, back)),
            |opener| (opener.sink(out), opener.streaming(back)),
        )
    }

    /// Opens the stream at once if a connection of this core has room, else promises it; the client
    /// then lives until the promise is kept.
    fn open<H>(
        self,
        life: &Arc<Life>,
        handles_of: impl FnOnce(StreamAt) -> H,
        promise: impl FnOnce(&Opener) -> H,
    ) -> H {
        if self.is_intercepted {
            let opener = Opener::new();
            let handles = promise(&opener);
            let life = Arc::clone(life);
            on_a_core(opener, |opener| keeping(life, intercept(opener, self)));
            return handles;
        }
        let mut opening = Opening::new(self);
        let polled = hub::try_with(|hub| {
            hub.core()?;
            Some(opening.poll(hub, &mut Context::from_waker(Waker::noop()), &mut None))
        })
        .flatten();
        if let Some(Poll::Ready(Ok(at))) = polled {
            return handles_of(at);
        }
        let opener = Opener::new();
        let handles = promise(&opener);
        match polled {
            Some(Poll::Ready(outcome)) => opener.complete(outcome),
            _ => {
                let (life, method) = (Arc::clone(life), opening.call.method);
                let open =
                    move |cx: &mut Context<'_>| hub::with(|hub| opening.poll(hub, cx, &mut None));
                on_a_core(opener, |opener| keeping(life, fulfil(opener, method, open)));
            }
        }
        handles
    }
}

/// Has a promise fulfilled by a task of this core, or of the background core if this thread is none.
fn on_a_core<F>(opener: Opener, fulfil: impl FnOnce(Opener) -> F + Send + 'static)
where
    F: Future<Output = ()> + 'static,
{
    let start = |opener| drop(runtime::spawn_named("rpc stream to be opened", fulfil(opener)));
    if hub::is_here() {
        return start(opener);
    }
    match registry::background_core() {
        Ok(core) => mailbox::place(core, Box::new(move || start(opener))),
        Err(status) => opener.complete(Err(status)),
    }
}

/// Whoever drops the client meanwhile does not end it.
async fn keeping(life: Arc<Life>, opening: impl Future<Output = ()>) {
    opening.await;
    drop(life);
}

/// Opens a stream from inside of the client's interceptors.
async fn intercept(opener: Opener, call: StreamCall) {
    match hub::with(|hub| Running::start(hub, Inner::Stream(Box::new(call)))) {
        Ok(running) => running.see_stream(opener).await,
        Err(status) => opener.complete(Err(status)),
    }
}

/// Tells the handles where their stream is, or why there is none; gives up when they are gone.
async fn fulfil(
    opener: Opener,
    method: &'static Method,
    mut poll_open: impl FnMut(&mut Context<'_>) -> Poll<Result<StreamAt, Status>>,
) {
    let outcome = poll_fn(|cx| match opener.poll_abandoned(cx) {
        Poll::Ready(reason) => {
            let cancelled = Status::cancelled(reason.unwrap_or_default());
            Poll::Ready(Err(cancelled.of_call(method)))
        }
        Poll::Pending => poll_open(cx),
    })
    .await;
    opener.complete(outcome);
}

/// A stream on its way to a connection with room.
pub(super) struct Opening {
    call: StreamCall,
    place: Option<Ticket>,
    /// From its first poll on.
    span: Option<Span>,
    /// Whose line the place is in.
    core: u32,
}

#[derive(Clone, Copy)]
struct Span {
    begun: Instant,
    deadline: Option<Instant>,
    /// It was counted as begun, and neither opened nor counted as ended.
    is_counted: bool,
}

impl Opening {
    pub(super) fn new(call: StreamCall) -> Self {
        Self { call, span: None, place: None, core: 0 }
    }

    /// On a core, always the same. Once it is open, the watcher is taken and told how it ends.
    pub(super) fn poll(
        &mut self,
        hub: &Hub,
        cx: &mut Context<'_>,
        watcher: &mut Option<Watcher>,
    ) -> Poll<Result<StreamAt, Status>> {
        self.poll_open(hub, cx, watcher).map_err(|failure| failure.of_call(self.call.method))
    }

    fn poll_open(
        &mut self,
        hub: &Hub,
        cx: &mut Context<'_>,
        watcher: &mut Option<Watcher>,
    ) -> Poll<Result<StreamAt, Status>> {
        let call = &mut self.call;
        if let Some(failure) = call.options.take_failure() {
            return Poll::Ready(Err(failure));
        }
        self.core = hub.core().unwrap_or_default();
        let pool = hub.pool(call.client)?;
        let (now, mut span) = match self.span {
            Some(span) => (runtime::now(), span),
            None => {
                let bytes = call.request.as_ref().map_or(0, Bytes::len);
                pool.tally.call_began(call.method, bytes);
                let (begun, deadline) = call.options.stream_span(call.method);
                (begun, Span { begun, deadline, is_counted: true })
            }
        };
        let (deadline, waited) = (span.deadline, now.saturating_duration_since(span.begun));
        let waits_for_ready = call.options.waits_for_ready;
        let key = call.options.key();
        let demand = Demand { now, deadline, waits_for_ready, avoid: None, key, tried: None };
        let meta = call.options.encode_meta(hub);
        let until = deadline.map_or(NEVER, |deadline| hub.since_origin(deadline));
        let timeout = deadline.map(|deadline| deadline.saturating_duration_since(now));
        let sent = pool.send(&demand, self.place.take(), cx.waker(), |link| {
            let open = Open {
                method: call.method.number(),
                name: call.method.name(),
                timeout,
                codec: call.codec,
                attempt: 0,
                priority: call.options.priority,
                initial_credit: limits::REPLY_CREDIT,
                meta: &meta,
                message: call.request.as_ref().map(link::body),
                end: call.request.is_some(),
            };
            let since_origin = hub.since_origin(now);
            let opened =
                link.open_stream(call.method, open, until, call.handles, since_origin, waited)?;
            if let Some(watcher) = watcher.take() {
                link.watch_stream(opened, watcher);
            }
            Ok(stream_at(link, opened))
        });
        hub.return_scratch(meta);
        span.is_counted = matches!(sent, Err(NotSent::Waits(_)));
        self.span = Some(span);
        match sent {
            Ok(at) => Poll::Ready(Ok(at)),
            Err(NotSent::Failed(status)) => {
                count_unopened(&pool.tally, call.method, status.code(), waited);
                Poll::Ready(Err(status))
            }
            Err(NotSent::Waits(place)) => {
                self.place = Some(place);
                Poll::Pending
            }
        }
    }
}

/// Counts a call as ended whose stream was never open.
fn count_unopened(tally: &Tally, method: &'static Method, code: Code, waited: Duration) {
    tally.call_ended(method, Ended { code, bytes: 0, waited, service: None });
}

impl Drop for Opening {
    fn drop(&mut self) {
        let Some(span) = self.span.filter(|span| span.is_counted) else {
            return;
        };
        let (client, method, place) = (self.call.client, self.call.method, self.place.take());
        hub::on_core(self.core, move |hub| {
            if let Some(pool) = hub.known_pool(client) {
                pool.leave(place);
                let waited = runtime::now().saturating_duration_since(span.begun);
                count_unopened(&pool.tally, method, Code::Cancelled, waited);
            }
        });
    }
}

/// The one message of a stream of replies.
pub(super) struct OneReply {
    stream: Streaming<Bytes>,
    initial: Option<Metadata>,
    message: Option<Bytes>,
    /// Why it is not even waited for.
    refused: Option<Status>,
}

impl OneReply {
    pub(super) fn new(stream: Streaming<Bytes>) -> Self {
        Self { stream, initial: None, message: None, refused: None }
    }

    /// The stream of requests is open before its reply is awaited: then it is too late for options.
    pub(super) fn refuse_options(&mut self) {
        let why = "a call with a stream of requests takes its options from `Client::with`";
        self.refused = Some(Status::failed_precondition(why));
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Reply, Status>> {
        if let Some(status) = &self.refused {
            return Poll::Ready(Err(status.clone()));
        }
        if self.initial.is_none() {
            self.initial = Some(ready!(self.stream.poll_metadata(cx))?);
        }
        while let Some(message) = ready!(Pin::new(&mut self.stream).poll_next(cx)).transpose()? {
            if self.message.replace(message).is_some() {
                let why = "the reply has more than one message";
                return Poll::Ready(Err(Status::unimplemented(why)));
            }
        }
        let Some(message) = self.message.take() else {
            return Poll::Ready(Err(Status::unimplemented("the reply has no message")));
        };
        let initial = self.initial.take().unwrap_or_default();
        let trailers = self.stream.trailers().cloned().unwrap_or_default();
        let is_silent = initial.is_empty() && trailers.is_empty();
        let meta = (!is_silent).then(|| Box::new(ReplyMeta { initial, trailers }));
        Poll::Ready(Ok(Reply { message, meta }))
    }
}
