//! The task of one request: it runs the handler, gives credit for what that reads, and sends what it answers.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use ringway_http::http::Method;
use ringway_http::{Error, Request, Response, http2_response};
use ringway_wire::grpc::GrpcServer;
use ringway_wire::http2::{Body, ErrorCode, Gone, Line};
use ringway_wire::native::Side;

use super::{GuestExchange, Table};
use crate::server::connection::ServerConnection;
use crate::server::http::Doors;

/// Answers a request, or says why there is none.
pub(super) async fn answer(
    connection: Rc<ServerConnection<GrpcServer>>,
    table: Rc<Table>,
    exchange: Rc<GuestExchange>,
    request: Result<Request, Error>,
) {
    let answering = Answering { connection, table, exchange };
    let doors = answering.table.doors(&answering.connection);
    let (of, stream) = (Rc::downgrade(&answering.connection), answering.exchange.stream);
    doors.calls().tell_of_begin(move || {
        let Some(connection) = of.upgrade() else { return };
        connection.machine().guest_begun(stream);
        connection.update_usage();
    });
    let is_sent = {
        let mut answered = pin!(doors.calls().carry(answering.run(&doors, request)));
        poll_fn(|cx| {
            let polled = answered.as_mut().poll(cx);
            answering.give_credit(cx);
            polled
        })
        .await
    };
    if is_sent.is_ok() {
        answering.table.keep(doors);
    }
}

/// A request until it is answered. Dropped before that, it is cut off.
struct Answering {
    connection: Rc<ServerConnection<GrpcServer>>,
    table: Rc<Table>,
    exchange: Rc<GuestExchange>,
}

impl Answering {
    async fn run(&self, doors: &Doors, request: Result<Request, Error>) -> Result<(), Gone> {
        let (method, mut response) = match request {
            Ok(request) => (request.method().clone(), doors.answer(request).await),
            Err(error) => (Method::GET, error.into()),
        };
        let has_body = http2_response(&mut response, &method);
        self.send_head(&response, has_body)?;
        if has_body { self.send_body(response).await } else { Ok(()) }
    }

    /// Sends the head. The caller drops the response, whose body may be user code: the machine is borrowed
    /// here.
    fn send_head(&self, response: &Response, has_body: bool) -> Result<(), Gone> {
        let stream = self.exchange.stream;
        let mut machine = self.connection.machine();
        let size_max = machine.guest_head_max() as usize;
        let (status, headers) = (response.status(), response.headers());
        // Each field counts with 32 bytes more (RFC 9113, section 6.5.2).
        let sizes = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 32);
        if sizes.sum::<usize>() + 42 > size_max {
            let line = Line::Once { name: b":status", value: b"500" };
            machine.guest_head(stream, &[line], true)?;
            return Err(Gone);
        }
        let lines = headers.iter().map(|(name, value)| {
            let (name, value) = (name.as_str().as_bytes(), value.as_bytes());
            match is_secret(name) {
                true => Line::Secret { name, value },
                false => Line::Once { name, value },
            }
        });
        let status = Line::Once { name: b":status", value: status.as_str().as_bytes() };
        let lines: Vec<Line<'_>> = std::iter::once(status).chain(lines).collect();
        machine.guest_head(stream, &lines, !has_body)?;
        drop(machine);
        self.connection.wake();
        Ok(())
    }

    async fn send_body(&self, mut response: Response) -> Result<(), Gone> {
        let body = response.body_mut();
        loop {
            poll_fn(|cx| self.poll_room(cx)).await;
            let (chunk, end) = match poll_fn(|cx| body.poll_chunk(cx)).await {
                None => (Bytes::new(), true),
                Some(Ok(chunk)) => (chunk, body.is_over()),
                // The client notices that the end is missing.
                Some(Err(_)) => return Err(Gone),
            };
            if !chunk.is_empty() || end {
                let body = Body::Shared(chunk.clone()); // the last handle is dropped outside
                let sent = self.connection.machine().guest_send(self.exchange.stream, body, end);
                let _room_is_waited_for = sent?;
                self.connection.wake();
            }
            if end {
                return Ok(());
            }
        }
    }

    fn poll_room(&self, cx: &Context<'_>) -> Poll<()> {
        if self.connection.machine().guest_has_room(self.exchange.stream) {
            return Poll::Ready(());
        }
        self.exchange.sender.set(Some(cx.waker().clone()));
        Poll::Pending
    }

    /// Lets the client send as much more as was read of its request.
    fn give_credit(&self, cx: &mut Context<'_>) {
        let Some(feed) = &self.exchange.feed else { return };
        if feed.takes_asking()
            && self.connection.machine().guest_continue(self.exchange.stream).is_ok()
        {
            self.connection.wake();
        }
        let mut is_changed = false;
        while let Poll::Ready(read) = feed.poll_read(cx) {
            self.connection.machine().guest_taken(self.exchange.stream, read);
            is_changed = true;
        }
        if is_changed {
            let machine = self.connection.machine();
            let (has_output, unread) = (machine.has_output(), machine.kept_len(Side::Unread));
            drop(machine);
            self.connection.update_usage_after_read(unread);
            if has_output {
                self.connection.wake();
            }
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let stream = self.exchange.stream;
        let _this_task = self.table.remove(stream);
        // Nothing happens if it was answered, or its client has gone.
        self.connection.machine().guest_reset(stream, ErrorCode::INTERNAL_ERROR);
        self.connection.wake();
    }
}

/// Whether no intermediary may add a field to a table (RFC 7541, section 7.1.3).
fn is_secret(name: &[u8]) -> bool {
    matches!(name, b"set-cookie" | b"authorization" | b"www-authenticate")
}
