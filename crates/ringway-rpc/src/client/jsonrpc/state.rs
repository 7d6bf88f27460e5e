//! The state of a connection to a server of JSON-RPC.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use ringway_wire::jsonrpc::{
    CallContext, Incoming, Lines, NumberedId, Response, close, decode_responses, put_context,
    put_request,
};
use ringway_wire::native::{
    Body, ClientEvent, FailedBy, MetaReader, Open, OpenError, Piece, StreamId, Tag,
};

use super::carrier::TextCarrier;
use super::config::JsonClientConfig;
use super::failure::CallFailure;
use super::form::TextForm;
use super::post::{AwaitedAnswer, Post};
use super::slots::{AwaitedCall, JsonSlots};
use super::socket::{Socket, SocketNews};
use super::violation::JsonServerViolation;
use crate::call::status::Code;
use crate::call::trace::TraceContext;
use crate::limits;

/// The machine of a connection.
#[derive(Debug)]
pub(in crate::client) struct JsonClient {
    pub(super) config: JsonClientConfig,
    pub(super) now: Duration,
    pub(super) carrier: TextCarrier,
    pub(super) slots: JsonSlots,
    /// The subscriptions, by their ids as the server writes them.
    pub(super) subscriptions: HashMap<Box<str>, StreamId>,
    /// What is to be sent, of which the first `sent` bytes have been handed out.
    pub(super) out: Vec<u8>,
    pub(super) sent: usize,
    /// Events to report.
    pub(super) happened: VecDeque<Happened>,
    /// Whether the server is one of ours, which reads the member `ringway` and means statuses by its codes.
    pub(super) is_ours: bool,
    /// When something arrived last.
    heard: Duration,
    /// When the ping was sent since which nothing has arrived.
    asked: Option<Duration>,
    pub(super) ping: PingAnswers,
    pub(super) failed: Option<JsonServerViolation>,
}

/// An event to report.
#[derive(Debug)]
pub(super) enum Happened {
    Message(StreamId, Piece<'static>),
    Response {
        stream: StreamId,
        status: u8,
        meta: Vec<u8>,
        message: Option<Piece<'static>>,
    },
    /// A call has ended without an answer of its server's.
    Failed {
        stream: StreamId,
        code: Code,
        by: FailedBy,
        text: String,
    },
    /// The server takes no more calls, for this reason.
    Leaving(&'static str),
}

/// How pings are answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PingAnswers {
    /// One is not, and no former one was.
    Awaited,
    Named,
    /// By an error that names no request.
    Unnamed {
        is_awaited: bool,
    },
}

/// The id of pings.
pub(super) const PING: u64 = 0;

impl JsonClient {
    /// Speaks on lines.
    pub(in crate::client) fn on_lines(config: JsonClientConfig, now: Duration) -> Self {
        Self::new(config, TextCarrier::Lines(Lines::new(config.text_max)), now)
    }

    /// Speaks by POST to a path of an HTTP server.
    pub(in crate::client) fn by_post(
        config: JsonClientConfig,
        authority: &str,
        path: &str,
        now: Duration,
    ) -> Self {
        let post = Post::new(authority, path, config.text_max);
        Self::new(config, TextCarrier::Post(Box::new(post)), now)
    }

    /// Speaks over a WebSocket at a path of an HTTP server.
    pub(in crate::client) fn by_socket(
        config: JsonClientConfig,
        authority: &str,
        path: &str,
        now: Duration,
    ) -> Self {
        let socket = Socket::new(config.text_max);
        let ask = socket.request(authority, path);
        let mut client = Self::new(config, TextCarrier::Socket(Box::new(socket)), now);
        client.out.extend_from_slice(&ask);
        client
    }

    fn new(config: JsonClientConfig, carrier: TextCarrier, now: Duration) -> Self {
        let mut client = Self {
            carrier,
            config,
            now,
            slots: JsonSlots::default(),
            subscriptions: HashMap::new(),
            out: Vec::new(),
            sent: 0,
            happened: VecDeque::new(),
            is_ours: false,
            heard: now,
            asked: None,
            ping: PingAnswers::Named,
            failed: None,
        };
        if !matches!(client.carrier, TextCarrier::Post(_)) {
            client.ping = PingAnswers::Awaited;
            client.ping();
        }
        client
    }

    pub(super) fn ping(&mut self) {
        self.asked = Some(self.now);
        if let PingAnswers::Unnamed { is_awaited } = &mut self.ping {
            *is_awaited = true;
        }
        self.put_request(AwaitedAnswer::Ping, &Open::default(), |out| {
            put_request("rpc.ping", None, NumberedId::new(PING).id(), out);
        });
    }

    /// How many further calls it takes.
    #[inline]
    pub(super) fn room(&self) -> usize {
        match &self.carrier {
            TextCarrier::Post(post) => usize::from(post.is_free()),
            TextCarrier::Socket(socket) if !socket.takes_calls() => 0,
            _ if self.out.len() - self.sent >= limits::JSONRPC_UNSENT_MAX => 0,
            _ => limits::JSONRPC_CALLS_MAX.saturating_sub(self.slots.len()),
        }
    }

    /// Appends a text that is answered, with what belongs to its call where there is room for it.
    #[inline]
    fn put_request(
        &mut self,
        waits: AwaitedAnswer,
        call: &Open<'_>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let TextCarrier::Post(post) = &mut self.carrier else { return self.put_text(write) };
        let mut text = Vec::new();
        write(&mut text);
        post.waits = Some(waits);
        post.put(&text, call, &mut self.out);
    }

    /// Appends a line or message to the output.
    #[inline]
    pub(super) fn put_text(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if let TextCarrier::Socket(socket) = &mut self.carrier {
            return socket.put(write, &mut self.out);
        }
        let start = self.out.len();
        write(&mut self.out);
        // Within JSON a line feed can only be white space.
        if self.out[start..].contains(&b'\n') {
            self.out[start..].iter_mut().filter(|byte| **byte == b'\n').for_each(|it| *it = b' ');
        }
        self.out.push(b'\n');
    }

    /// Opens a call, whose message has one of the [forms](TextForm) of JSON-RPC.
    pub(in crate::client) fn open(&mut self, call: Open<'_>) -> Result<StreamId, OpenError> {
        if self.room() == 0 {
            return Err(OpenError::Full);
        }
        let text: &[u8] = match &call.message {
            Some(Body::Copy(bytes)) => bytes,
            Some(Body::Shared(bytes)) => bytes,
            None => &[],
        };
        match TextForm::of(call.codec).filter(|_| call.end) {
            Some(TextForm::Call) => Ok(self.open_call(&call, text, AwaitedCall::Unary)),
            Some(TextForm::Subscription) if matches!(self.carrier, TextCarrier::Post(_)) => {
                Ok(self.refuse("a POST has one answer: subscriptions need lines or a WebSocket"))
            }
            Some(TextForm::Subscription) => Ok(self.open_call(&call, text, AwaitedCall::Asked)),
            Some(TextForm::Notification) => {
                let (stream, _) = self.slots.insert(AwaitedCall::Notified);
                self.put_request(AwaitedAnswer::Call(stream), &call, |out| {
                    out.extend_from_slice(text)
                });
                if !matches!(self.carrier, TextCarrier::Post(_)) {
                    self.end(stream, Ok(Some(Bytes::new())));
                }
                Ok(stream)
            }
            Some(TextForm::Batch) => {
                let (number, text) = text.split_first_chunk().unwrap_or((&[0; 8], text));
                let batch = AwaitedCall::Batch(u64::from_le_bytes(*number));
                let (stream, _) = self.slots.insert(batch);
                self.put_request(AwaitedAnswer::Call(stream), &call, |out| {
                    out.extend_from_slice(text)
                });
                Ok(stream)
            }
            None => Ok(self.refuse("JSON-RPC does not carry a stream of requests")),
        }
    }

    /// Opens a call that fails at once.
    fn refuse(&mut self, why: &str) -> StreamId {
        let (stream, _) = self.slots.insert(AwaitedCall::Unary);
        self.end(stream, Err(CallFailure::here(Code::Unimplemented, why)));
        stream
    }

    fn open_call(&mut self, call: &Open<'_>, text: &[u8], of: AwaitedCall) -> StreamId {
        let (stream, number) = self.slots.insert(of);
        // By POST it is said in header fields.
        let is_read = self.is_ours && !matches!(self.carrier, TextCarrier::Post(_));
        let context = is_read.then(|| context_of(call)).flatten();
        self.put_request(AwaitedAnswer::Call(stream), call, |out| {
            out.extend_from_slice(text);
            if let Some(context) = context {
                put_context(&context, out);
            }
            close(NumberedId::new(number).id(), out);
        });
        stream
    }

    /// Decodes the next event. A result that lies whole in `input` costs no allocation.
    #[inline]
    pub(super) fn next_event<'i>(
        &mut self,
        input: &mut &'i [u8],
        now: Duration,
    ) -> Result<Option<ClientEvent<'i>>, JsonServerViolation> {
        self.now = now;
        loop {
            if let Some(happened) = self.happened.pop_front() {
                if let Happened::Response { stream, .. } | Happened::Failed { stream, .. } =
                    happened
                {
                    self.slots.free(stream);
                }
                return Ok(Some(happened.event()));
            }
            if let Some(violation) = self.failed.clone() {
                self.close_socket(violation.close_code());
                return Err(violation);
            }
            if input.is_empty() {
                return Ok(None);
            }
            self.heard = now;
            match &mut self.carrier {
                TextCarrier::Lines(lines) => {
                    self.asked = None;
                    match lines.next_whole(input) {
                        Some(line) => match self.plain(line) {
                            Some(event) => return Ok(Some(event)),
                            None => self.take_text(line),
                        },
                        None => self.take_cut_line(input),
                    }
                }
                TextCarrier::Post(post) => match post.next(input) {
                    Ok(Some(answer)) => {
                        self.asked = None; // a part of an answer may be all that comes
                        self.take_answer(&answer);
                    }
                    Ok(None) => {}
                    Err(violation) => self.failed = Some(violation),
                },
                TextCarrier::Socket(socket) => {
                    let news = socket.next(input);
                    // Before its first text, a server has shown nothing but that it opens WebSockets.
                    if socket.takes_calls() {
                        self.asked = None;
                    }
                    match news {
                        Ok(Some(SocketNews::Text(text))) => match self.plain(text.as_bytes()) {
                            Some(event) => return Ok(Some(event)),
                            None => self.take_text(text.as_bytes()),
                        },
                        Ok(Some(news)) => self.take_news(news),
                        Ok(None) => {}
                        Err(violation) => self.failed = Some(violation),
                    }
                }
            }
        }
    }

    /// Continues a line that is not whole in the input.
    fn take_cut_line(&mut self, input: &mut &[u8]) {
        let max = self.config.text_max;
        let TextCarrier::Lines(lines) = &mut self.carrier else { return };
        let mut lines = std::mem::replace(lines, Lines::new(max));
        match lines.next(input) {
            Ok(Some(line)) => self.take_text(line),
            Ok(None) => {}
            Err(_) => self.failed = Some(JsonServerViolation::TextTooLong { max }),
        }
        self.carrier = TextCarrier::Lines(lines);
    }

    /// Fast path: the result of a unary call.
    #[inline]
    fn plain<'i>(&mut self, text: &'i [u8]) -> Option<ClientEvent<'i>> {
        let incoming = decode_responses(text, 1).ok()?.next()?.ok()?;
        let Incoming::Response(Response { id, outcome: Ok(result) }) = incoming else {
            return None;
        };
        let (stream, AwaitedCall::Unary) = self.slots.find(id.number()?)? else { return None };
        self.slots.remove(stream);
        let message = Some(Piece::Borrowed(result.as_bytes()));
        Some(ClientEvent::Response { stream, status: 0, meta: Piece::EMPTY, message })
    }

    /// Ends a call from the server's side.
    pub(super) fn end(&mut self, stream: StreamId, outcome: Result<Option<Bytes>, CallFailure>) {
        let Some(ended) = self.slots.end(stream) else { return };
        self.forget_subscription(stream, &ended);
        self.happened.push_back(match outcome {
            Ok(message) => {
                let message = message.map(Piece::Owned);
                Happened::Response { stream, status: 0, meta: Vec::new(), message }
            }
            Err(CallFailure { code, instead: Some((by, text)), .. }) => {
                Happened::Failed { stream, code, by, text }
            }
            Err(CallFailure { code, meta, .. }) => {
                Happened::Response { stream, status: code.number(), meta, message: None }
            }
        });
    }

    /// Removes a call that nobody waits for.
    pub(super) fn forget(&mut self, stream: StreamId) {
        if let Some(removed) = self.slots.remove(stream) {
            self.forget_subscription(stream, &removed);
        }
    }

    fn forget_subscription(&mut self, stream: StreamId, call: &AwaitedCall) {
        if let AwaitedCall::Subscribed(unread) = call
            && self.subscriptions.get(&unread.id) == Some(&stream)
        {
            self.subscriptions.remove(&unread.id);
        }
    }

    /// Cancels a call from this side. The protocol has no word for it, except for subscriptions.
    pub(super) fn give_up(&mut self, stream: StreamId) {
        if !self.slots.give_up(stream) {
            self.unsubscribe(stream);
            self.forget(stream);
            self.leave("a call was given up"); // whose answer would keep the connection busy
        } else if self.slots.given_up() == limits::JSONRPC_GIVEN_UP_MAX {
            // A server that answers none of them would fill the connection for ever.
            let why = "it has not answered subscriptions that were given up";
            self.happened.push_back(Happened::Leaving(why));
        }
    }

    pub(super) fn next_deadline(&self) -> Duration {
        let next = match self.asked {
            Some(at) => at.saturating_add(self.config.ping_timeout),
            None if self.is_not_pinged() => Duration::MAX,
            None => self.heard.saturating_add(self.config.ping_after),
        };
        self.held_until().map_or(next, |at| at.min(next))
    }

    /// Whether silence needs no ping: the deadline of a call bounds its exchange, and servers of others need not know
    /// `rpc.ping`, or may ask for metadata of which nothing is known here.
    fn is_not_pinged(&self) -> bool {
        matches!(&self.carrier, TextCarrier::Post(post) if !post.is_free() || !self.is_ours)
    }

    fn held_until(&self) -> Option<Duration> {
        match &self.carrier {
            TextCarrier::Post(post) => post.held_until(),
            TextCarrier::Lines(_) | TextCarrier::Socket(_) => None,
        }
    }

    /// What may be sent, from `sent` on.
    pub(super) fn unsent(&self) -> &[u8] {
        match self.held_until() {
            Some(_) => &[],
            None => &self.out[self.sent..],
        }
    }

    /// Pings a server that has been silent, and gives one up that stays so.
    pub(in crate::client) fn handle_timeout(
        &mut self,
        now: Duration,
    ) -> Result<(), JsonServerViolation> {
        self.now = now;
        if let TextCarrier::Post(post) = &mut self.carrier {
            post.release(now);
        }
        if self.next_deadline() > now {
            return Ok(());
        }
        match self.asked {
            Some(_) => Err(JsonServerViolation::Silent),
            None => {
                self.ping();
                Ok(())
            }
        }
    }
}

impl Happened {
    fn event<'i>(self) -> ClientEvent<'i> {
        match self {
            Self::Message(stream, message) => ClientEvent::Message { stream, message },
            Self::Response { stream, status, meta, message } => {
                ClientEvent::Response { stream, status, meta: Piece::Owned(meta.into()), message }
            }
            Self::Failed { stream, code, by, text } => {
                ClientEvent::Failed { stream, status: code.number(), by, text: text.into() }
            }
            Self::Leaving(why) => ClientEvent::Leaving {
                code: 0,
                drain_ms: 0,
                accepted: u32::MAX,
                reason: Piece::Borrowed(why.as_bytes()),
            },
        }
    }
}

/// What a server of ours is told beside the call.
fn context_of<'a>(call: &Open<'_>) -> Option<CallContext<'a>> {
    let pieces = MetaReader::new(call.meta).map_while(Result::ok);
    let trace = pieces.filter(|(tag, _)| *tag == Tag::TraceParent).last();
    let trace = trace.and_then(|(_, value)| TraceContext::from_bytes(value));
    let traceparent = trace.map(|trace| Cow::Owned(trace.to_string()));
    // Rounded down, it would be none at all.
    let timeout = call.timeout.map(|timeout| timeout.max(Duration::from_millis(1)));
    (timeout.is_some() || traceparent.is_some()).then_some(CallContext { timeout, traceparent })
}
