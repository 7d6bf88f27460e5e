//! One connection to a server: a command, then its reply.

mod asking;
mod authentication;
mod external;
mod handshake;
mod keys;
mod metadata;
mod pipelined;
mod secrets;
mod streamed;

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bson::oid::ObjectId;
use bson::{RawDocument, RawDocumentBuf, rawdoc};
use ringway_net::Connection;
use ringway_runtime::now;
use ringway_wire::mongo::{
    CommandReply, Cut, MongoCompressor, MongoFault, MongoReplies, REPLY_LEN_MAX_DEFAULT, ServerKind,
};

pub(crate) use self::asking::AskingConnection;
pub(crate) use self::handshake::{Greeting, connect};
pub(crate) use self::metadata::HandshakeMetadata;
pub(crate) use self::pipelined::{
    CommandSource, Next, NextCommand, PipelinedCommand, unanswered, write as write_pipelined,
};
pub(crate) use self::secrets::may_be_shown;
pub(crate) use self::streamed::StreamedReply;
use crate::error::{Error, Fate, Kind, Result};
use crate::limits::{BUFFER_KEPT, COPIED_MAX, SESSION_TIMEOUT_DEFAULT, WIRE_VERSION_LABELS};

/// A connection that has been greeted and authenticated, or is about to be.
///
/// ```text
///   idle ──begin──► waits for a reply ──reply──► idle
///                        └──abandon──► drains the late reply ──► idle
///   any ──failure──► broken, closed when it is dropped
/// ```
pub(crate) struct ServerConnection {
    connection: Connection,
    replies: MongoReplies,
    /// The command that is being written; without content between two.
    buffer: Vec<u8>,
    facts: Box<ServerFacts>,
    is_broken: bool,
    /// When it was last given back, or made.
    idle_since: Instant,
    /// The number of the connection in its pool; 0 for one of a monitor.
    number: u64,
    service: Option<Service>,
}

/// One of the services behind a load balancer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Service {
    pub(crate) id: ObjectId,
    /// It grows when connections to the service may have broken together.
    pub(crate) generation: u64,
}

/// What the server was when the connection was made.
struct ServerFacts {
    compressor: Option<MongoCompressor>,
    server: ServerKind,
    /// The highest version of the protocol that it speaks.
    wire_version: i32,
    limits: ServerLimits,
    /// Fields of each command that declare a version of the server's interface.
    api: Option<Arc<RawDocumentBuf>>,
}

/// What a server takes.
#[derive(Clone, Copy)]
pub(crate) struct ServerLimits {
    /// Bytes of a message.
    pub(crate) message_len_max: usize,
    /// Writes of one command.
    pub(crate) writes_max: usize,
    /// Whether it knows sessions.
    pub(crate) has_sessions: bool,
    /// How long it keeps one that is not used.
    pub(crate) session_timeout: Duration,
}

/// Whether a command was sent. It outlives the future of an operation, which a deadline drops.
pub(crate) type Sent = Cell<bool>;

/// A reply whose `ok` is 1, as long as it is read.
pub(crate) struct Answer<'a> {
    message: Cut<'a>,
    body: Range<usize>,
}

impl Answer<'static> {
    /// What stands for the answer to a command that has none.
    pub(crate) fn none() -> Self {
        /// `{ ok: 1, value: null }`
        const OK: &[u8; 20] = b"\x14\0\0\0\x10ok\0\x01\0\0\0\x0avalue\0\0";
        Self { message: Cut::Whole(OK), body: 0..OK.len() }
    }
}

impl Answer<'_> {
    pub(crate) fn body(&self) -> &RawDocument {
        document(&self.message, &self.body)
    }

    /// Keeps the reply. It is copied only if it lies in a buffer of the core, which others need.
    pub(crate) fn into_owned(self) -> OwnedAnswer {
        match self.message {
            Cut::Whole(bytes) => {
                let bytes = bytes[self.body].to_vec();
                OwnedAnswer { body: 0..bytes.len(), bytes }
            }
            Cut::Gathered(bytes) => OwnedAnswer { bytes, body: self.body },
        }
    }
}

/// A reply that is kept.
#[derive(Clone)]
pub(crate) struct OwnedAnswer {
    bytes: Vec<u8>,
    body: Range<usize>,
}

impl OwnedAnswer {
    /// What stands for the answer to a list of what is not there.
    pub(crate) fn no_batch() -> Self {
        let body = rawdoc! { "cursor": { "id": 0_i64, "ns": "", "firstBatch": [] } }.into_bytes();
        Self { body: 0..body.len(), bytes: body }
    }

    pub(crate) fn body(&self) -> &RawDocument {
        document(&self.bytes, &self.body)
    }

    pub(crate) fn body_bytes(&self) -> &[u8] {
        &self.bytes[self.body.clone()]
    }
}

fn document<'a>(bytes: &'a [u8], range: &Range<usize>) -> &'a RawDocument {
    RawDocument::from_bytes(&bytes[range.clone()]).expect("checked when the reply was taken")
}

impl ServerConnection {
    /// Replies have at most `reply_len_max` bytes, and each command the fields of `api`.
    fn new(connection: Connection, reply_len_max: usize, api: Option<Arc<RawDocumentBuf>>) -> Self {
        Self {
            connection,
            replies: MongoReplies::new(1, reply_len_max),
            buffer: Vec::new(),
            facts: Box::new(ServerFacts {
                compressor: None,
                server: ServerKind::Standalone,
                wire_version: 0,
                limits: ServerLimits {
                    message_len_max: REPLY_LEN_MAX_DEFAULT,
                    writes_max: 1,
                    has_sessions: false,
                    session_timeout: SESSION_TIMEOUT_DEFAULT,
                },
                api,
            }),
            is_broken: false,
            idle_since: now(),
            number: 0,
            service: None,
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn set_number(&mut self, number: u64) {
        self.number = number;
    }

    /// Where it leads to behind a load balancer.
    pub(crate) fn service(&self) -> Option<Service> {
        self.service
    }

    pub(crate) fn set_service(&mut self, service: Option<Service>) {
        self.service = service;
    }

    pub(crate) fn has_sessions(&self) -> bool {
        self.facts.limits.has_sessions
    }

    /// What the server was when the connection was made.
    pub(crate) fn server(&self) -> ServerKind {
        self.facts.server
    }

    /// Specification: Retryable Writes, "Determining Retryable Write Support".
    pub(crate) fn numbers_writes(&self) -> bool {
        self.has_sessions() && self.facts.server != ServerKind::Standalone
    }

    /// Whether the server says itself which errors allow a write to be sent again, as those since MongoDB 4.4 do.
    pub(crate) fn labels_errors(&self) -> bool {
        self.facts.wire_version >= WIRE_VERSION_LABELS
    }

    pub(crate) fn limits(&self) -> ServerLimits {
        self.facts.limits
    }

    /// What each command has in addition.
    pub(crate) fn api(&self) -> Option<Arc<RawDocumentBuf>> {
        self.facts.api.clone()
    }

    /// The highest version of the protocol that the server speaks.
    pub(crate) fn wire_version(&self) -> i32 {
        self.facts.wire_version
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Whether it waits for nothing, so that it may be used again.
    pub(crate) fn is_idle(&self) -> bool {
        !self.is_broken && self.replies.is_idle()
    }

    pub(crate) fn idle_since(&self) -> Instant {
        self.idle_since
    }

    /// Notes that no operation has it any more.
    pub(crate) fn rest(&mut self) {
        self.idle_since = now();
    }

    /// Sends a command and reads its reply. `write` appends it under the number that it is given; `read`
    /// gets a reply whose `ok` is 1, and may run code of the user.
    pub(crate) async fn run<R>(
        &mut self,
        sent: &Sent,
        write: impl FnOnce(i32, &mut Vec<u8>) -> Result,
        read: impl FnOnce(Answer<'_>) -> Result<R>,
    ) -> Result<R> {
        self.begin(sent, write)?;
        let mut read = Some(read);
        std::future::poll_fn(|cx| self.poll_reply(cx, &mut read)).await
    }

    /// Writes a command and queues it.
    fn begin(&mut self, sent: &Sent, write: impl FnOnce(i32, &mut Vec<u8>) -> Result) -> Result {
        let Some(id) = self.replies.begin() else {
            let what = "a connection that waits for a reply was used again";
            return Err(Error::new(Kind::Protocol, Fate::NotSent, what));
        };
        // Code of the user may write, and panic: then nothing was sent.
        self.buffer.clear();
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut unsent = Unsent { replies: &mut self.replies, id, is_sent: false };
        write(id, &mut buffer)?;
        unsent.is_sent = true;
        drop(unsent);
        self.queue(sent, buffer);
        Ok(())
    }

    /// Sends a command that is not answered, and waits until the kernel has it.
    pub(crate) async fn send_only(
        &mut self,
        sent: &Sent,
        write: impl FnOnce(i32, &mut Vec<u8>) -> Result,
    ) -> Result {
        self.buffer.clear();
        let mut buffer = std::mem::take(&mut self.buffer);
        write(self.replies.begin_unanswered(), &mut buffer)?;
        self.queue(sent, buffer);
        let flushed = std::future::poll_fn(|cx| self.connection.poll_flushed(cx)).await;
        flushed.map_err(|error| self.broke(Some(error)))
    }

    fn queue(&mut self, sent: &Sent, mut buffer: Vec<u8>) {
        if let Some(compressor) = self.facts.compressor.filter(|_| !secrets::is_secret(&buffer)) {
            compressor.compress(0, &mut buffer);
        }
        sent.set(true);
        match buffer.len() <= COPIED_MAX {
            true => drop(self.connection.write(&buffer)),
            false => drop(self.connection.send(std::mem::take(&mut buffer))),
        }
        buffer.clear();
        buffer.shrink_to(BUFFER_KEPT);
        self.buffer = buffer;
    }

    fn poll_reply<R>(
        &mut self,
        cx: &mut Context<'_>,
        read: &mut Option<impl FnOnce(Answer<'_>) -> Result<R>>,
    ) -> Poll<Result<R>> {
        loop {
            let view = match self.connection.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(received) => received,
            };
            let view = match view {
                Ok(Some(view)) => view,
                ended => return Poll::Ready(Err(self.broke(ended.err()))),
            };
            let mut input = &view[..];
            // A panic of the reader leaves the connection broken, unless nothing is behind the reply.
            let reply = match self.replies.next(&mut input) {
                Ok(None) => continue,
                Ok(Some(reply)) => reply,
                Err(fault) => return Poll::Ready(Err(self.faulty(fault))),
            };
            let is_last = !reply.has_more_to_come();
            self.is_broken = !is_last || !input.is_empty();
            let (message, body) = reply.into_parts();
            let answer = Answer { message, body };
            let read = read.take().expect("a command has one reply");
            let result = check(answer).and_then(read);
            if is_last && !input.is_empty() {
                self.is_broken = !self.passes_over(input);
            }
            return Poll::Ready(result);
        }
    }

    /// Reads on while nobody waits: ready when the connection is idle again, or broken.
    pub(crate) fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.is_idle() {
            if self.is_broken {
                return Poll::Ready(());
            }
            match self.connection.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(Some(view))) => self.is_broken = !self.passes_over(&view),
                Poll::Ready(_) => self.is_broken = true,
            }
        }
        Poll::Ready(())
    }

    /// Looks whether an idle connection has ended, or has received what nobody asked for.
    pub(crate) fn check_idle(&mut self, cx: &mut Context<'_>) {
        while !self.is_broken {
            match self.connection.poll_recv(cx) {
                Poll::Pending => return,
                Poll::Ready(Ok(Some(view))) => self.is_broken = !self.passes_over(&view),
                Poll::Ready(_) => self.is_broken = true,
            }
        }
    }

    /// Gives up the commands that wait, if any do.
    pub(crate) fn abandon(&mut self) {
        self.replies.abandon_all();
        self.replies.set_in_flight_max(1);
    }

    /// Takes bytes that belong to no command that waits. False if they are wrong.
    fn passes_over(&mut self, mut input: &[u8]) -> bool {
        while !input.is_empty() {
            match self.replies.next(&mut input) {
                Ok(Some(_)) => return false,
                Ok(None) => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Has it closed, whatever it waits for.
    pub(crate) fn distrust(&mut self) {
        self.is_broken = true;
    }

    fn faulty(&mut self, fault: MongoFault) -> Error {
        self.is_broken = true;
        Error::protocol(fault)
    }

    fn broke(&mut self, error: Option<ringway_net::Error>) -> Error {
        self.is_broken = true;
        let what = "the connection to the server broke before its reply came";
        match error {
            Some(error) => Error::network(Fate::Unknown, what, error),
            None => Error::new(Kind::Network, Fate::Unknown, what),
        }
    }
}

/// A command that is being written. Unless it is sent, it waits for no reply.
struct Unsent<'a> {
    replies: &'a mut MongoReplies,
    id: i32,
    is_sent: bool,
}

impl Drop for Unsent<'_> {
    fn drop(&mut self) {
        if !self.is_sent {
            self.replies.take_back(self.id);
        }
    }
}

fn check(answer: Answer<'_>) -> Result<Answer<'_>> {
    match CommandReply::of(answer.body()).map_err(Error::reply)? {
        CommandReply::Ok(_) => Ok(answer),
        CommandReply::Failed(failure) => Err(Error::command(failure)),
    }
}

/// The error of a command that is too long for any server.
pub(crate) fn unsendable(fault: MongoFault) -> Error {
    Error::new(Kind::Limit, Fate::NotSent, "the command cannot be sent").with_source(fault)
}
