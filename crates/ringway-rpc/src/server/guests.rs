//! Requests over HTTP/2 that are no calls of gRPC: each runs in a task of its own, and is answered by what
//! answers requests over HTTP/1.1.
//!
//! ```text
//! machine ─ Head ─► line ─► task ─ Doors ─► response ─► machine
//!         ─ Data ─────► feed of its body ─ read ─► credit
//!         ─ Writable ─► wakes it
//!         ─ Gone ─────► ends it
//! ```

mod answering;
pub(super) mod host;
mod line;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::{Rc, Weak};
use std::task::Waker;

use ringway_http::http::StatusCode;
use ringway_http::{BodyFeed, Error, http2_request};
use ringway_runtime::{JoinHandle, spawn_named};
use ringway_wire::grpc::{GrpcServer, GuestEvent};
use ringway_wire::http2::{StreamHandle, Texts};

use self::answering::answer;
use self::host::GuestHost;
use super::connection::ServerConnection;
use super::direct::DirectCalls;
use super::guest_endings::Endings;
use super::http::{Doors, body_bytes_max};
use crate::limits;

/// Answers the requests of one connection that are no calls.
pub(super) struct Guests {
    connection: Weak<ServerConnection<GrpcServer>>,
    endings: Rc<Endings>,
    /// Made for the first request: most connections carry calls alone.
    table: OnceCell<Rc<Table>>,
}

/// The requests of a connection, and what is kept for the next ones.
#[derive(Default)]
struct Table {
    open: RefCell<HashMap<StreamHandle, Guest>>,
    /// Those that wait to be begun, and some that have ended meanwhile.
    waiting: RefCell<VecDeque<StreamHandle>>,
    spare: RefCell<Vec<Doors>>,
    is_over: Cell<bool>,
}

/// A request that is not answered.
enum Guest {
    Waits(Box<Unbegun>),
    Open(Open),
}

/// A request that waits to be begun, as it was received.
struct Unbegun {
    texts: Box<Texts>,
    is_cut: bool,
    data: Vec<u8>,
    end: bool,
}

/// A request that is being answered.
struct Open {
    exchange: Rc<GuestExchange>,
    task: JoinHandle<()>,
}

/// What a request's task and its connection tell each other.
struct GuestExchange {
    stream: StreamHandle,
    /// Its content; `None` if it is refused.
    feed: Option<BodyFeed>,
    /// The task, if it waits for room to send.
    sender: Cell<Option<Waker>>,
}

impl GuestExchange {
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

impl Table {
    /// The doors for one more request.
    fn doors(&self, connection: &Rc<ServerConnection<GrpcServer>>) -> Doors {
        let spare = self.spare.borrow_mut().pop();
        spare.unwrap_or_else(|| {
            let (core, site) = (connection.core(), connection.site());
            Doors::of(DirectCalls::of_site(Rc::clone(core), Rc::clone(site)), Rc::clone(core))
        })
    }

    /// Keeps doors for the next request, unless their age or the connection is over.
    fn keep(&self, doors: Doors) {
        let has_room = self.spare.borrow().len() < limits::GUEST_DOORS_KEPT;
        if has_room && !self.is_over.get() && !doors.calls().is_over() {
            self.spare.borrow_mut().push(doors);
        }
    }

    fn get(&self, stream: StreamHandle) -> Option<Rc<GuestExchange>> {
        match self.open.borrow().get(&stream)? {
            Guest::Open(open) => Some(Rc::clone(&open.exchange)),
            Guest::Waits(_) => None,
        }
    }

    fn remove(&self, stream: StreamHandle) -> Option<Guest> {
        self.open.borrow_mut().remove(&stream)
    }

    /// Takes out the request that waits longest to be begun.
    fn next_waiting(&self) -> Option<(StreamHandle, Box<Unbegun>)> {
        let mut open = self.open.borrow_mut();
        loop {
            let stream = self.waiting.borrow_mut().pop_front()?;
            if matches!(open.get(&stream), Some(Guest::Waits(_)))
                && let Some(Guest::Waits(waits)) = open.remove(&stream)
            {
                return Some((stream, waits));
            }
        }
    }

    /// Adds content to a request that waits. False if it does not wait.
    fn add_content(&self, stream: StreamHandle, data: &[u8], end: bool) -> bool {
        match self.open.borrow_mut().get_mut(&stream) {
            Some(Guest::Waits(waits)) => {
                waits.data.extend_from_slice(data);
                waits.end |= end;
                true
            }
            _ => false,
        }
    }
}

impl Guest {
    /// Ends its task, which cancels what that has called.
    fn end(self) {
        if let Self::Open(open) = self {
            open.task.abort();
        }
    }
}

impl Guests {
    /// Has the requests of this connection answered that are no calls.
    pub(super) fn host(connection: &Rc<ServerConnection<GrpcServer>>) {
        let endings = Rc::clone(&connection.core().guest_line().endings);
        let (own, table) = (Rc::downgrade(connection), OnceCell::new());
        let guests = Self { connection: own, endings, table };
        let is_new = connection.guest_host.set(Box::new(guests)).is_ok();
        debug_assert!(is_new, "a connection is opened once");
        connection.machine().host_guests(limits::GUEST_COST);
    }

    /// Begins a request, or has it wait for its turn, or refuses it for lack of room.
    fn take(&self, stream: StreamHandle, waits: Unbegun) {
        let Some(connection) = self.connection.upgrade() else { return };
        connection.note_work(limits::GUEST_INTAKE_BYTES);
        connection.update_usage(); // this request counts, and so do those that came with it
        let core = connection.core();
        if core.shared().is_overfull() || !core.budget().has_room_for(0) {
            connection.machine().guest_refuse(stream);
            return;
        }
        if core.guest_line().lets_in(core.now()) {
            return self.begin(&connection, stream, waits);
        }
        let table = self.table.get_or_init(Rc::default);
        table.open.borrow_mut().insert(stream, Guest::Waits(Box::new(waits)));
        let mut waiting = table.waiting.borrow_mut();
        let is_in_line = !waiting.is_empty();
        waiting.push_back(stream);
        drop(waiting);
        if !is_in_line {
            core.line_up_guests(&connection);
        }
    }

    fn begin(
        &self,
        connection: &Rc<ServerConnection<GrpcServer>>,
        stream: StreamHandle,
        waits: Unbegun,
    ) {
        let Unbegun { texts, is_cut, data, end } = waits;
        let request = match is_cut {
            true => Err(too_large()),
            false => http2_request(texts.iter(), body_bytes_max(connection.core())),
        };
        let (request, feed) = match request {
            Ok((request, feed)) => (Ok(request), Some(feed)),
            Err(error) => (Err(error), None),
        };
        let exchange = Rc::new(GuestExchange { stream, feed, sender: Cell::default() });
        exchange.push(&data, end);
        let table = self.table.get_or_init(Rc::default);
        let of = Rc::clone(connection);
        let answering = answer(of, Rc::clone(table), Rc::clone(&exchange), request);
        let task = spawn_named("a request over HTTP/2", answering);
        table.open.borrow_mut().insert(stream, Guest::Open(Open { exchange, task }));
    }

    fn exchange(&self, stream: StreamHandle) -> Option<Rc<GuestExchange>> {
        self.table.get()?.get(stream)
    }
}

impl GuestHost for Guests {
    fn on_event(&self, stream: StreamHandle, event: GuestEvent<'_>) {
        match event {
            GuestEvent::Head { texts, is_cut, data, end } => {
                self.take(stream, Unbegun { texts, is_cut, data: data.to_vec(), end });
            }
            GuestEvent::Data { data, end } => {
                let Some(table) = self.table.get() else { return };
                if !table.add_content(stream, &data, end) {
                    let exchange = table.get(stream);
                    exchange.into_iter().for_each(|exchange| exchange.push(&data, end));
                }
            }
            GuestEvent::Writable => {
                let sender = self.exchange(stream).and_then(|exchange| exchange.sender.take());
                sender.into_iter().for_each(Waker::wake);
            }
            // What it has called is cancelled with its task.
            GuestEvent::Gone => {
                let open = self.table.get().and_then(|table| table.remove(stream));
                open.into_iter().for_each(Guest::end);
            }
        }
    }

    fn begin_next(&self) -> bool {
        let (Some(connection), Some(table)) = (self.connection.upgrade(), self.table.get()) else {
            return false;
        };
        if let Some((stream, waits)) = table.next_waiting() {
            self.begin(&connection, stream, *waits);
        }
        !table.waiting.borrow().is_empty()
    }

    fn drop_spare(&self) {
        let spare = self.table.get().map(|table| table.spare.take());
        drop(spare); // outside of the borrow
    }

    fn end_all(&self) {
        let Some(table) = self.table.get() else { return };
        table.is_over.set(true);
        let tasks = table.open.take().into_values().filter_map(|guest| match guest {
            Guest::Open(open) => Some(open.task),
            Guest::Waits(_) => None,
        });
        self.endings.end(tasks);
        table.waiting.take();
        self.drop_spare();
    }
}

/// RFC 6585, section 5.
fn too_large() -> Error {
    let message = "the header fields are longer than the server accepts";
    Error::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, message)
}
