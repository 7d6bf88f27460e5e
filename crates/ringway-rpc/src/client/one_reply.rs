//! The reply to a stream of requests: a stream of replies with exactly one message.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;

use super::outcome::{CallOutcome, RawReply, ReplyMeta};
use crate::call::metadata::Metadata;
use crate::call::status::Status;
use crate::stream::streaming::Streaming;

pub(super) struct OneReply {
    stream: Streaming<Bytes>,
    initial: Option<Metadata>,
    message: Option<Bytes>,
    /// The failure, if an option was set too late.
    refused: Option<Status>,
}

impl OneReply {
    pub(super) fn new(stream: Streaming<Bytes>) -> Self {
        Self { stream, initial: None, message: None, refused: None }
    }

    /// Makes the call fail because an option was set: the stream was opened before its reply is awaited.
    pub(super) fn refuse_options(&mut self) {
        let why = "a call with a stream of requests takes its options from `Client::with`";
        self.refused = Some(Status::failed_precondition(why));
    }

    fn with_initial(&mut self, status: Status) -> Status {
        status.with_initial(self.initial.take().unwrap_or_default())
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<CallOutcome> {
        if let Some(status) = &self.refused {
            return Poll::Ready(Err(status.clone()));
        }
        if self.initial.is_none() {
            self.initial = Some(ready!(self.stream.poll_metadata(cx))?);
        }
        while let Some(message) = ready!(Pin::new(&mut self.stream).poll_next(cx)) {
            let message = message.map_err(|status| self.with_initial(status))?;
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
        Poll::Ready(Ok(RawReply { message, meta }))
    }
}
