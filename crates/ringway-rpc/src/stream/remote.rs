//! Stream handles on other threads than their core's: tokio's tasks, plain threads, other cores.
//!
//! If a handle does not find its carrier on the calling thread, it posts a task to the carrier's
//! core, through the core's [mailbox](crate::remote::mailbox), and keeps the other end of a bounded
//! [pipe](crate::remote::pipe). Messages cross as bytes; they are encoded and decoded on the user's
//! thread.
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

/// The location of a stream: its connection, and its key there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct StreamAt {
    pub(crate) carrier: CarrierId,
    pub(crate) key: StreamKey,
    pub(crate) held_by: HeldBy,
}

/// The side that holds the handles of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum HeldBy {
    Client,
    /// The server's handler: its return ends the stream, whatever happened to its handles.
    Server,
}

/// The two handles of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HandleSide {
    Reader,
    Writer,
}

/// How a handle leaves its stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum HandleEnd {
    Finished,
    Dropped,
    Cancelled(String),
}

impl StreamAt {
    /// Gives up one handle, on any thread. It has no effect if the connection is gone.
    pub(crate) fn leave(self, side: HandleSide, how: HandleEnd) {
        let part = move || {
            carrier::with(self.carrier, |carrier| part(carrier, self.key, side, &how));
        };
        if carrier::is_here(self.carrier) {
            part();
        } else {
            mailbox::post(self.carrier.core(), Box::new(part));
        }
    }

    /// Cancels the call at once if the handle has cancelled. The handle's task would do the same,
    /// but perhaps after the handler's return has ended the call differently.
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

/// A stream of a call whose handles were not made yet. Dropping it gives up both handles: then
/// nothing of its connection may be borrowed.
pub(crate) struct OpenedStream(StreamAt);

impl OpenedStream {
    /// Takes charge of a stream that was just opened.
    pub(crate) fn new(at: StreamAt) -> Self {
        Self(at)
    }

    /// Returns the location for handles, which give themselves up from now on.
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

fn part(carrier: &dyn Carrier, key: StreamKey, side: HandleSide, how: &HandleEnd) {
    match how {
        HandleEnd::Finished => carrier.finish(key),
        HandleEnd::Cancelled(reason) => carrier.cancel(key, Code::Cancelled, reason),
        HandleEnd::Dropped => {}
    }
    match side {
        HandleSide::Reader => carrier.drop_reader(key),
        HandleSide::Writer => carrier.drop_writer(key),
    }
}

/// Makes the status for handles whose connection is gone and left no reason.
pub(crate) fn unreachable() -> Status {
    Status::unavailable("the connection of this stream has been closed")
}

/// Items that cross from the core to a reader.
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
    /// Posts a task for the stream to its core. The reader holds `in_hand` messages that were not
    /// reported to the connection as taken.
    pub(crate) fn start(at: StreamAt, in_hand: usize) -> Self {
        let (sender, receiver) = pipe();
        let pump = ReaderTask { at, pipe: Some(sender), initial: false, in_hand };
        let start = move || drop(ringway_runtime::spawn_named("reader from elsewhere", pump));
        mailbox::post(at.carrier.core(), Box::new(start));
        Self { at, pipe: receiver, taken: VecDeque::new() }
    }

    /// Polls like [`Carrier::poll_messages`].
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

    /// Polls like [`Carrier::poll_initial`].
    pub(crate) fn poll_initial(&mut self, cx: &mut Context<'_>) -> Poll<Metadata> {
        if self.taken.is_empty() {
            // The end is not consumed here: the next call for messages gets it.
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

/// Moves received messages to the reader's pipe.
struct ReaderTask {
    at: StreamAt,
    /// `None` after the pipe was ended.
    pipe: Option<Sender<Inbound, End, HandleEnd>>,
    /// Whether the initial metadata was passed on.
    initial: bool,
    /// Messages taken before the move, which are reported first.
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
            // If the reader is gone, the next round notices.
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
