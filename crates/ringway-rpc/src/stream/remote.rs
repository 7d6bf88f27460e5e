//! The same handles on threads that are no core of theirs: tokio's tasks, plain threads, other
//! cores.
//!
//! A handle that is used where its carrier is not found sends a pump to the carrier's core, by the
//! core's [desk](crate::remote::mailbox), and keeps the other end of a bounded [pipe](crate::remote::pipe). Messages
//! cross as bytes and are encoded and decoded at the user's side.
//!
//! ```text
//!   user's thread                         core
//!   Streaming ── RemoteReader ◄── pipe ◄── ReaderTask ── carrier ── stream
//!   Sink ─────── RemoteWriter ──► pipe ──► WriterTask ──► carrier ──► stream
//! ```

#[cfg(test)]
mod tests;
mod writer;

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use crate::call::metadata::Metadata;
use crate::call::status::{Code, Status};
use crate::connection::batch::Batch;
use crate::connection::carrier::{self, Carrier, CarrierId, Received};
use crate::connection::table::StreamKey;
use crate::remote::mailbox;
use crate::remote::pipe::{Receiver, Sender, Weigh, pipe};

pub(crate) use writer::{RemoteWriter, pass_on};

/// Where a stream is: its connection, and its place there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct StreamAt {
    pub(crate) carrier: CarrierId,
    pub(crate) key: StreamKey,
    pub(crate) held_by: HeldBy,
}

/// Who has the handles of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum HeldBy {
    Client,
    /// Here the handler's return ends the stream, whatever has become of its handles.
    Server,
}

/// The two ends of a stream that a user may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HandleSide {
    Reader,
    Writer,
}

/// How a handle parts from its stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum HandleEnd {
    Finished,
    Dropped,
    Cancelled(String),
}

impl StreamAt {
    /// Gives up one half, from any thread. Nothing happens if its connection is gone.
    pub(crate) fn leave(self, half: HandleSide, how: HandleEnd) {
        let part = move || {
            carrier::with(self.carrier, |carrier| part(carrier, self.key, half, &how));
        };
        if carrier::is_here(self.carrier) {
            part();
        } else {
            mailbox::post(self.carrier.core(), Box::new(part));
        }
    }

    /// Ends the call from another thread, if that is how a handle parts from it. Its pump does the same
    /// in its own time, which may be after the handler's return has ended the call as another.
    fn cancel_if(self, how: &HandleEnd) {
        if let HandleEnd::Cancelled(reason) = how {
            let reason = reason.clone();
            let cancel = move || {
                let cancel = |carrier: &dyn Carrier| {
                    carrier.cancel(self.key, Code::Cancelled, &reason);
                };
                carrier::with(self.carrier, cancel);
            };
            mailbox::post(self.carrier.core(), Box::new(cancel));
        }
    }
}

/// A stream of a call whose handler has not got its handles yet. Where nobody comes to take hold of
/// them, both are left when this is dropped: nothing of its connection may be borrowed then.
pub(crate) struct OpenedStream(StreamAt);

impl OpenedStream {
    /// Takes charge of a stream that has just been opened.
    pub(crate) fn new(at: StreamAt) -> Self {
        Self(at)
    }

    /// For handles, which leave by themselves from now on.
    pub(crate) fn take(self) -> StreamAt {
        let Self(at) = self;
        std::mem::forget(self);
        at
    }
}

impl Drop for OpenedStream {
    fn drop(&mut self) {
        self.0.leave(HandleSide::Reader, HandleEnd::Dropped);
        self.0.leave(HandleSide::Writer, HandleEnd::Dropped);
    }
}

fn part(carrier: &dyn Carrier, key: StreamKey, half: HandleSide, how: &HandleEnd) {
    match how {
        HandleEnd::Finished => carrier.finish(key),
        HandleEnd::Cancelled(reason) => carrier.cancel(key, Code::Cancelled, reason),
        HandleEnd::Dropped => {}
    }
    match half {
        HandleSide::Reader => carrier.drop_reader(key),
        HandleSide::Writer => carrier.drop_writer(key),
    }
}

/// What handles get when the connection is not there any more, not even to say why it ended.
pub(crate) fn unreachable() -> Status {
    Status::unavailable("the connection of this stream has been closed")
}

/// What crosses from the core to a reader.
enum Inbound {
    Initial(Metadata),
    Messages(Batch),
}

impl Weigh for Inbound {
    fn bytes(&self) -> usize {
        match self {
            Self::Initial(_) => 0,
            Self::Messages(batch) => batch.bytes(),
        }
    }
}

impl Weigh for Bytes {
    fn bytes(&self) -> usize {
        self.len()
    }
}

type End = Result<Metadata, Status>;

/// A reader on another thread than its core's.
pub(crate) struct RemoteReader {
    at: StreamAt,
    pipe: Receiver<Inbound, End, HandleEnd>,
    taken: VecDeque<Inbound>,
}

impl RemoteReader {
    /// Has a pump started for the stream, of which the reader has got `in_hand` messages that its
    /// connection does not know to be taken.
    pub(crate) fn start(at: StreamAt, in_hand: usize) -> Self {
        let (sender, receiver) = pipe();
        let pump = ReaderTask { at, pipe: Some(sender), initial: false, in_hand };
        let start = move || drop(ringway_runtime::spawn_named("reader from elsewhere", pump));
        mailbox::post(at.carrier.core(), Box::new(start));
        Self { at, pipe: receiver, taken: VecDeque::new() }
    }

    /// As [`Carrier::poll_messages`].
    pub(crate) fn poll_messages(
        &mut self,
        cx: &mut Context<'_>,
        batch: &mut Batch,
    ) -> Poll<Received> {
        loop {
            match self.taken.pop_front() {
                Some(Inbound::Messages(messages)) => {
                    *batch = messages;
                    return Poll::Ready(Received::Messages);
                }
                Some(Inbound::Initial(_)) => {}
                None => match ready!(self.pipe.poll_take(cx, &mut self.taken)) {
                    Ok(()) => {}
                    Err(Some(Ok(trailers))) => return Poll::Ready(Received::End(trailers)),
                    Err(Some(Err(status))) => return Poll::Ready(Received::Failed(status)),
                    Err(None) => return Poll::Ready(Received::Failed(unreachable())),
                },
            }
        }
    }

    /// As [`Carrier::poll_initial`].
    pub(crate) fn poll_initial(&mut self, cx: &mut Context<'_>) -> Poll<Metadata> {
        if self.taken.is_empty() {
            // At the end there is nothing, and the end itself is for whoever asks for messages.
            ready!(self.pipe.poll_some(cx, &mut self.taken));
        }
        match self.taken.pop_front() {
            Some(Inbound::Initial(metadata)) => Poll::Ready(metadata),
            Some(message) => {
                self.taken.push_front(message);
                Poll::Ready(Metadata::default())
            }
            None => Poll::Ready(Metadata::default()),
        }
    }

    pub(crate) fn leave(self, how: HandleEnd) {
        self.at.cancel_if(&how);
        self.pipe.close(how);
    }
}

/// Moves what arrives for a reader to its pipe.
struct ReaderTask {
    at: StreamAt,
    /// `None` once it has ended the pipe.
    pipe: Option<Sender<Inbound, End, HandleEnd>>,
    /// Whether what comes before the first message has been passed on.
    initial: bool,
    /// Messages that were taken before, and are to be counted first of all.
    in_hand: usize,
}

impl Future for ReaderTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let at = self.at;
        let pumped = carrier::with(at.carrier, |carrier| self.pump(carrier, cx));
        match pumped {
            Some(Poll::Pending) => return Poll::Pending,
            Some(Poll::Ready(how)) => at.leave(HandleSide::Reader, how),
            None => self.end(Err(unreachable())),
        }
        Poll::Ready(())
    }
}

impl ReaderTask {
    fn pump(&mut self, carrier: &dyn Carrier, cx: &mut Context<'_>) -> Poll<HandleEnd> {
        if self.in_hand > 0 {
            carrier.taken(self.at.key, std::mem::take(&mut self.in_hand));
        }
        while let Some(pipe) = &self.pipe {
            if let Err(how) = ready!(pipe.poll_room(cx)) {
                self.pipe = None;
                return Poll::Ready(how.unwrap_or(HandleEnd::Dropped));
            }
            // Where the reader has gone meanwhile, the next round tells.
            if !self.initial {
                let initial = ready!(carrier.poll_initial(self.at.key, cx));
                let _gone = pipe.push(Inbound::Initial(initial));
                self.initial = true;
            }
            let mut batch = Batch::default();
            match ready!(carrier.poll_messages(self.at.key, cx, &mut batch)) {
                Received::Messages => {
                    carrier.taken(self.at.key, batch.len());
                    let _gone = pipe.push(Inbound::Messages(batch));
                }
                Received::End(trailers) => self.end(Ok(trailers)),
                Received::Failed(status) => self.end(Err(status)),
            }
        }
        Poll::Ready(HandleEnd::Dropped)
    }

    fn end(&mut self, end: End) {
        if let Some(pipe) = self.pipe.take() {
            pipe.end(end);
        }
    }
}
