//! Connections on which servers are asked how they are. Nobody logs in there, and no pool has them.
//!
//! Specification: Server Discovery and Monitoring, "Monitors ... MUST NOT authenticate".

use std::collections::VecDeque;
use std::task::{Context, Poll};
use std::time::Duration;

use ringway_runtime::{now_exact, timeout};
use ringway_wire::mongo::{AwaitedChange, HelloRequest};

use super::handshake::{Greeting, in_time, open, say, unanswered};
use super::{Answer, OwnedAnswer, ServerConnection, Unsent, check, unsendable};
use crate::error::{Error, Fate, Kind, Result};
use crate::limits::HELLO_LEN_MAX;
use crate::uri::HostAddress;

/// A connection on which a server is asked how it is.
///
/// ```text
///   idle ──ask──► idle
///   idle ──await_change──► streams ──await_change──► streams …
///            └─ an answer that none follows ─► idle ◄─┘
/// ```
pub(crate) struct AskingConnection {
    connection: ServerConnection,
    /// Answers that came together. They are of one received buffer, and none is read before these are taken.
    streamed: VecDeque<Streamed>,
    streams: bool,
    /// Whether the server knows no `hello`.
    is_legacy: bool,
}

struct Streamed {
    answer: Result<OwnedAnswer>,
    is_last: bool,
}

impl AskingConnection {
    /// Makes a connection, and asks on it. The time is that from the question to its answer.
    pub(crate) async fn open(
        greeting: &Greeting,
        address: &HostAddress,
    ) -> Result<(Self, OwnedAnswer, Duration)> {
        let connected = async {
            let mut connection = open(greeting, address, HELLO_LEN_MAX).await?;
            let asked_at = now_exact();
            let metadata = greeting.metadata.now();
            let metadata = Some(&*metadata);
            let is_legacy = greeting.options.greets_legacy();
            let request = HelloRequest { is_legacy, metadata, ..HelloRequest::default() };
            let answer = say(&mut connection, request).await;
            let answer = answer.map_err(|error| unanswered(&greeting.options, address, error))?;
            let time = now_exact().saturating_duration_since(asked_at);
            let is_legacy = is_legacy && !answer.body().get_bool("helloOk").unwrap_or(false);
            let streamed = VecDeque::new();
            Ok((Self { connection, streamed, streams: false, is_legacy }, answer, time))
        };
        in_time(greeting, address, connected).await
    }

    /// Asks once more. The time is that of the round trip.
    pub(crate) async fn ask(
        &mut self,
        greeting: &Greeting,
        address: &HostAddress,
    ) -> Result<(OwnedAnswer, Duration)> {
        let asked_at = now_exact();
        let request = HelloRequest { is_legacy: self.is_legacy, ..HelloRequest::default() };
        let said = say(&mut self.connection, request);
        let answer = in_time(greeting, address, said).await?;
        Ok((answer, now_exact().saturating_duration_since(asked_at)))
    }

    /// Whether the server goes on to answer without being asked.
    pub(crate) fn is_streaming(&self) -> bool {
        self.streams
    }

    /// Waits for the next answer of a server that tells by itself, and asks it to do so if it does not yet.
    ///
    /// # Errors
    /// Those of a command, and that the server was silent for longer than it may be. The connection is of no use then.
    pub(crate) async fn await_change(
        &mut self,
        greeting: &Greeting,
        awaited: AwaitedChange,
    ) -> Result<OwnedAnswer> {
        if !self.streams {
            let awaited = Some(awaited);
            let is_legacy = self.is_legacy;
            self.begin_stream(HelloRequest { is_legacy, awaited, ..HelloRequest::default() })?;
        }
        let limit = greeting.options.connect_timeout.saturating_add(awaited.time_max);
        let answer = std::future::poll_fn(|cx| self.poll_streamed(cx));
        let Streamed { answer, is_last } = timeout(limit, answer).await.unwrap_or_else(|_| {
            let what = format!("the server has not told within {limit:?} how it is");
            let error = Error::new(Kind::Timeout, Fate::NotSent, what);
            Streamed { answer: Err(error), is_last: true }
        });
        self.streams = !is_last;
        answer.map_err(|error| error.fate(Fate::NotSent))
    }

    fn begin_stream(&mut self, request: HelloRequest<'_>) -> Result {
        let connection = &mut self.connection;
        let Some(id) = connection.replies.begin() else {
            let what = "a connection that waits for a reply was used again";
            return Err(Error::new(Kind::Protocol, Fate::NotSent, what));
        };
        let mut buffer = Vec::new();
        let api = connection.facts.api.as_ref().map(|api| &***api);
        let request = HelloRequest { api, ..request };
        let mut unsent = Unsent { replies: &mut connection.replies, id, is_sent: false };
        request.begin(id, &mut buffer).finish().map_err(unsendable)?;
        unsent.is_sent = true;
        drop(unsent);
        let _queued = connection.connection.write(&buffer);
        Ok(())
    }

    fn poll_streamed(&mut self, cx: &mut Context<'_>) -> Poll<Streamed> {
        loop {
            if let Some(next) = self.streamed.pop_front() {
                return Poll::Ready(next);
            }
            let connection = &mut self.connection;
            let view = match connection.connection.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(Some(view))) => view,
                Poll::Ready(ended) => {
                    let answer = Err(connection.broke(ended.err()));
                    return Poll::Ready(Streamed { answer, is_last: true });
                }
            };
            let mut input = &view[..];
            while !input.is_empty() {
                match connection.replies.next(&mut input) {
                    Ok(None) => {}
                    Ok(Some(reply)) => {
                        let is_last = !reply.has_more_to_come();
                        let (message, body) = reply.into_parts();
                        let answer = check(Answer { message, body }).map(Answer::into_owned);
                        self.streamed.push_back(Streamed { answer, is_last });
                    }
                    Err(fault) => {
                        let answer = Err(connection.faulty(fault));
                        self.streamed.push_back(Streamed { answer, is_last: true });
                    }
                }
            }
        }
    }
}
