//! The server connection as the handles of its streams use it.

use std::task::{Context, Poll};

use ringway_runtime::drop_contained;
use ringway_wire::native::{Body, Side};

use super::answer::lent;
use super::connection::ServerConnection;
use super::machine::Machine;
use crate::call::metadata::Metadata;
use crate::call::status::{Code, Status};
use crate::connection::batch::Batch;
use crate::connection::carrier::{Carrier, Received};
use crate::connection::driver::MESSAGE;
use crate::connection::table::{Sending, StreamKey};
use crate::waiters;

impl<M: Machine> Carrier for ServerConnection<M> {
    #[inline]
    fn poll_messages(
        &self,
        key: StreamKey,
        cx: &mut Context<'_>,
        batch: &mut Batch,
    ) -> Poll<Received> {
        waiters::poll_with(cx.waker(), |waker| self.streams().poll_messages(key, waker, batch))
    }

    #[inline]
    fn taken(&self, key: StreamKey, messages: usize) {
        let Some(stream) = self.known_streams().stream(key) else { return };
        let mut machine = self.machine();
        machine.taken(stream, messages);
        let (has_output, unread) = (machine.has_output(), machine.kept_len(Side::Unread));
        drop(machine);
        self.update_usage_after_read(unread);
        if has_output {
            self.wake();
        }
    }

    fn poll_initial(&self, key: StreamKey, cx: &mut Context<'_>) -> Poll<Metadata> {
        waiters::poll_with(cx.waker(), |waker| self.streams().poll_initial(key, waker))
    }

    #[inline]
    fn poll_ready(&self, key: StreamKey, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        waiters::poll_with(cx.waker(), |waker| {
            let mut streams = self.streams();
            let Some(stream) = streams.stream(key) else {
                let gone = || Status::cancelled("the call is over");
                return Poll::Ready(Err(streams.failure(key).unwrap_or_else(gone)));
            };
            if self.machine().has_room(stream) {
                return Poll::Ready(Ok(()));
            }
            streams.wait_writable(key, waker);
            Poll::Pending
        })
    }

    #[inline]
    fn send(&self, key: StreamKey, body: Body<'_>) -> Result<bool, Status> {
        let Body::Shared(bytes) = body else { return self.put(key, body) };
        let sent = self.put(key, lent(&bytes));
        drop_contained(MESSAGE, bytes);
        sent
    }

    /// Marks the stream's writer as finished. The call ends when the handler returns, with its status.
    fn finish(&self, key: StreamKey) {
        self.streams().finish_writer(key);
    }

    fn cancel(&self, key: StreamKey, code: Code, reason: &str) {
        let stream = self.known_streams().stream(key);
        if let Some(stream) = stream {
            self.end_call(stream, &Status::new(code, reason.to_owned()));
        }
    }

    fn drop_reader(&self, key: StreamKey) {
        let stream = self.known_streams().stream(key);
        if let Some(stream) = stream {
            self.machine().ignore(stream);
            self.update_usage();
            if self.machine().has_output() {
                self.wake(); // whoever waited for the reader
            }
        }
        self.streams().drop_reader(key);
        self.leave_registry();
    }

    fn drop_writer(&self, key: StreamKey) {
        let _the_handler_goes_on = self.streams().drop_writer(key);
        self.leave_registry();
    }
}

impl<M: Machine> ServerConnection<M> {
    #[inline]
    fn put(&self, key: StreamKey, body: Body<'_>) -> Result<bool, Status> {
        let mut streams = self.quiet_streams();
        let (gone, len) = (|| Status::cancelled("the call is over"), body.len());
        let Some(Sending { stream, is_first }) = streams.begin_send(key) else {
            return Err(streams.failure(key).unwrap_or_else(gone));
        };
        let meta = if is_first { self.initial_meta(stream) } else { Vec::new() };
        let sent = self.machine().send(stream, &meta, body);
        if sent.is_ok() {
            streams.sent(key, len);
        }
        drop(streams);
        self.wake(); // a message that is too long for the client has ended the call
        sent.map_err(|_gone| self.failure(stream).unwrap_or_else(gone))
    }
}
