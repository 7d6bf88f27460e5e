//! Requests over HTTP/2 that are no calls of gRPC: each runs in a task of its own, and is answered by what
//! answers requests over HTTP/1.1.
//!
//! ```text
//! machine ─ Head ─────► task ─ Doors ─► response ─► machine
//!         ─ Data ─────► feed of its body ─ read ─► credit
//!         ─ Writable ─► wakes it
//!         ─ Gone ─────► ends it
//! ```

mod answering;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::task::Waker;

use ringway_http::http::StatusCode;
use ringway_http::{BodyFeed, Error, Request, http2_request};
use ringway_runtime::{JoinHandle, spawn_named};
use ringway_wire::grpc::{GrpcServer, GuestEvent};
use ringway_wire::http2::StreamHandle;

use self::answering::answer;
use super::connection::ServerConnection;
use super::direct::DirectCalls;
use super::http::{Doors, body_bytes_max};
use crate::limits;

/// The requests of one connection that are no calls, and what is kept for the next ones.
#[derive(Default)]
pub(super) struct Guests(RefCell<Option<Box<Table>>>);

#[derive(Default)]
struct Table {
    open: HashMap<StreamHandle, Open>,
    spare: Vec<Doors>,
}

/// A request that is being answered.
struct Open {
    exchange: Rc<Exchange>,
    task: JoinHandle<()>,
}

/// What a request's task and its connection tell each other.
struct Exchange {
    stream: StreamHandle,
    /// Its content; `None` if it is refused.
    feed: Option<BodyFeed>,
    /// The task, if it waits for room to send.
    sender: Cell<Option<Waker>>,
}

impl Exchange {
    fn push(&self, data: &[u8], end: bool) {
        let Some(feed) = &self.feed else { return };
        if !data.is_empty() {
            feed.push(data);
        }
        if end {
            feed.end();
        }
    }
}

impl Guests {
    /// The doors for one more request.
    fn doors(&self, connection: &Rc<ServerConnection<GrpcServer>>) -> Doors {
        let spare = self.0.borrow_mut().as_mut().and_then(|table| table.spare.pop());
        spare.unwrap_or_else(|| {
            let (core, site) = (connection.core(), connection.site());
            Doors::of(DirectCalls::of_site(Rc::clone(core), Rc::clone(site)), Rc::clone(core))
        })
    }

    /// Keeps doors for the next request, unless their age is over.
    fn keep(&self, doors: Doors) {
        let is_over = doors.calls().is_over();
        let mut table = self.0.borrow_mut();
        let room = table.as_mut().filter(|table| table.spare.len() < limits::GUEST_DOORS_KEPT);
        let unwanted = match room {
            Some(table) if !is_over => {
                table.spare.push(doors);
                None
            }
            _ => Some(doors),
        };
        drop(table);
        drop(unwanted);
    }

    fn insert(&self, open: Open) {
        let stream = open.exchange.stream;
        self.0.borrow_mut().get_or_insert_default().open.insert(stream, open);
    }

    fn get(&self, stream: StreamHandle) -> Option<Rc<Exchange>> {
        let table = self.0.borrow();
        table.as_ref()?.open.get(&stream).map(|open| Rc::clone(&open.exchange))
    }

    fn remove(&self, stream: StreamHandle) -> Option<Open> {
        self.0.borrow_mut().as_mut()?.open.remove(&stream)
    }

    /// Ends all requests of a connection that has ended.
    pub(super) fn end_all(&self) {
        let Some(table) = self.0.take() else { return };
        table.open.into_values().for_each(|open| open.task.abort());
    }

    /// Frees what is kept for the next requests.
    pub(super) fn drop_spare(&self) {
        let spare = self.0.borrow_mut().as_mut().map(|table| std::mem::take(&mut table.spare));
        drop(spare); // outside of the borrow
    }
}

/// Handles what the machine tells of a request.
pub(super) fn on_event(
    connection: &Rc<ServerConnection<GrpcServer>>,
    stream: StreamHandle,
    event: GuestEvent<'_>,
) {
    let guests = &connection.guests;
    match event {
        GuestEvent::Head { texts, is_cut, data, end } => {
            let request = match is_cut {
                true => Err(too_large()),
                false => http2_request(texts.iter(), body_bytes_max(connection.core())),
            };
            begin(connection, stream, request, &data, end);
        }
        GuestEvent::Data { data, end } => {
            guests.get(stream).into_iter().for_each(|exchange| exchange.push(&data, end));
        }
        GuestEvent::Writable => {
            let sender = guests.get(stream).and_then(|exchange| exchange.sender.take());
            sender.into_iter().for_each(Waker::wake);
        }
        // What it has called is cancelled with its task.
        GuestEvent::Gone => {
            guests.remove(stream).into_iter().for_each(|open| open.task.abort());
        }
    }
}

fn begin(
    connection: &Rc<ServerConnection<GrpcServer>>,
    stream: StreamHandle,
    request: ringway_http::Result<(Request, BodyFeed)>,
    data: &[u8],
    end: bool,
) {
    let (request, feed) = match request {
        Ok((request, feed)) => (Ok(request), Some(feed)),
        Err(error) => (Err(error), None),
    };
    let exchange = Rc::new(Exchange { stream, feed, sender: Cell::default() });
    exchange.push(data, end);
    let answering = answer(Rc::clone(connection), Rc::clone(&exchange), request);
    let task = spawn_named("a request over HTTP/2", answering);
    connection.guests.insert(Open { exchange, task });
}

/// RFC 6585, section 5.
fn too_large() -> Error {
    let message = "the header fields are longer than the server accepts";
    Error::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, message)
}
