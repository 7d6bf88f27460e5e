//! Replies that follow each other without being asked for: exhaust, in MongoDB's words.

use std::task::{Context, Poll};

use super::{Answer, OwnedAnswer, Sent, ServerConnection, check};
use crate::error::Result;

/// One of the replies to a command that allows several.
pub(crate) struct StreamedReply {
    pub(crate) answer: Result<OwnedAnswer>,
    /// Whether another one follows.
    pub(crate) has_more: bool,
}

impl ServerConnection {
    /// Sends a command that the server may answer with several replies.
    ///
    /// Until the last of them is taken, the connection counts as broken: nothing but its end keeps the server from sending
    /// on, so who gives the replies up has it closed.
    pub(crate) fn begin_streamed(
        &mut self,
        sent: &Sent,
        write: impl FnOnce(i32, &mut Vec<u8>) -> Result,
    ) -> Result {
        self.begin(sent, write)?;
        self.is_broken = true;
        Ok(())
    }

    /// Takes the next reply. `ahead` has the bytes that came with the one before, and gets those behind this one.
    ///
    /// An error outside of the reply is that of the connection.
    pub(crate) fn poll_streamed(
        &mut self,
        cx: &mut Context<'_>,
        ahead: &mut Vec<u8>,
    ) -> Poll<Result<StreamedReply>> {
        loop {
            let kept = std::mem::take(ahead);
            let view;
            let mut input = match kept.is_empty() {
                false => &kept[..],
                true => match self.connection.poll_recv(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(Some(received))) => {
                        view = received;
                        &view[..]
                    }
                    Poll::Ready(ended) => return Poll::Ready(Err(self.broke(ended.err()))),
                },
            };
            let reply = match self.replies.next(&mut input) {
                Ok(None) => continue,
                Ok(Some(reply)) => reply,
                Err(fault) => return Poll::Ready(Err(self.faulty(fault))),
            };
            let has_more = reply.has_more_to_come();
            let (message, body) = reply.into_parts();
            let answer = check(Answer { message, body }).map(Answer::into_owned);
            match has_more {
                true => ahead.extend_from_slice(input),
                false => self.is_broken = !self.passes_over(input),
            }
            return Poll::Ready(Ok(StreamedReply { answer, has_more }));
        }
    }
}
