//! A fake connection for tests: a stream table, and a record of what handles did.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use ringway_wire::native::{Body, Piece, StreamId};

use crate::call::codec::Codec;
use crate::call::metadata::Metadata;
use crate::call::status::{Code, Status};
use crate::connection::batch::Batch;
use crate::connection::carrier::{Carrier, CarrierId, Received, register, unregister};
use crate::connection::table::{Handles, StreamKey, StreamTable};
use crate::stream::remote::{HeldBy, StreamAt};
use crate::waiters::{self, Borrowed};

/// An action of a handle on a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    Sent(Vec<u8>),
    Finished,
    Cancelled(String),
    DroppedReader,
    /// Whether the writer left an open stream unfinished.
    DroppedWriter(bool),
}

/// A connection with streams numbered by slot that counts credit like a machine.
pub(crate) struct FakeConnection {
    table: RefCell<StreamTable>,
    pub(crate) did: RefCell<Vec<(StreamId, Action)>>,
    /// The number of messages reported as taken.
    pub(crate) taken: Cell<usize>,
    /// How many messages may still be sent before the writer is above its mark.
    pub(crate) room: Cell<usize>,
    /// The streams by key, including those that are over.
    streams: RefCell<Vec<(StreamKey, StreamId)>>,
    pub(crate) id: Cell<Option<CarrierId>>,
    /// The holder of the streams that are opened from now on.
    pub(crate) held_by: Cell<HeldBy>,
    /// Woken by every action.
    watcher: Cell<Option<Waker>>,
}

impl FakeConnection {
    /// Makes and registers a fake connection.
    pub(crate) fn new() -> Rc<Self> {
        let fake = Rc::new(Self {
            table: RefCell::default(),
            did: RefCell::default(),
            taken: Cell::new(0),
            room: Cell::new(usize::MAX),
            streams: RefCell::default(),
            id: Cell::new(None),
            held_by: Cell::new(HeldBy::Client),
            watcher: Cell::new(None),
        });
        fake.id.set(Some(register(fake.clone())));
        fake
    }

    /// Borrows the table. When the borrow ends, handles are woken.
    pub(crate) fn table(&self) -> Borrowed<'_, StreamTable> {
        Borrowed::of(&self.table)
    }

    pub(crate) fn open(&self, stream: StreamId, handles: Handles) -> StreamAt {
        let key = self.table().insert(stream, handles);
        self.streams.borrow_mut().push((key, stream));
        let carrier = self.id.get().expect("registered by `new`");
        StreamAt { carrier, key, held_by: self.held_by.get() }
    }

    pub(crate) fn push(&self, stream: StreamId, message: &[u8]) {
        let pushed = self.table().push(stream, Piece::Borrowed(message));
        pushed.expect("a reader with room");
    }

    /// Lets the writer send `room` messages.
    pub(crate) fn grant(&self, stream: StreamId, room: usize) {
        self.room.set(room);
        self.table().writable(stream);
    }

    /// Returns the actions on one stream.
    pub(crate) fn did(&self, stream: StreamId) -> Vec<Action> {
        let did = self.did.borrow();
        did.iter().filter(|(of, _)| *of == stream).map(|(_, did)| did.clone()).collect()
    }

    pub(crate) fn forget(&self) {
        unregister(self.id.get().expect("registered by `new`"));
    }

    /// Waits for an action on a stream.
    pub(crate) async fn happened(&self, stream: StreamId, what: Action) {
        let seen = poll_fn(|cx| {
            self.watcher.set(Some(cx.waker().clone()));
            if self.did(stream).contains(&what) { Poll::Ready(()) } else { Poll::Pending }
        });
        let in_time = ringway_runtime::timeout(Duration::from_secs(10), seen).await;
        in_time.unwrap_or_else(|_| panic!("{what:?} did not happen to {stream}"));
    }

    fn note(&self, key: StreamKey, did: Action) {
        let of = self.streams.borrow().iter().find(|(of, _)| *of == key).expect("opened here").1;
        self.did.borrow_mut().push((of, did));
        if let Some(watcher) = self.watcher.take() {
            watcher.wake();
        }
    }
}

impl Carrier for FakeConnection {
    fn poll_messages(
        &self,
        key: StreamKey,
        cx: &mut Context<'_>,
        batch: &mut Batch,
    ) -> Poll<Received> {
        waiters::poll_with(cx.waker(), |waker| self.table().poll_messages(key, waker, batch))
    }

    fn taken(&self, _key: StreamKey, messages: usize) {
        self.taken.set(self.taken.get() + messages);
    }

    fn poll_initial(&self, key: StreamKey, cx: &mut Context<'_>) -> Poll<Metadata> {
        waiters::poll_with(cx.waker(), |waker| self.table().poll_initial(key, waker))
    }

    fn poll_ready(&self, key: StreamKey, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        waiters::poll_with(cx.waker(), |waker| {
            let mut table = self.table();
            match table.failure(key) {
                Some(status) => Poll::Ready(Err(status)),
                None if self.room.get() > 0 => Poll::Ready(Ok(())),
                None => {
                    table.wait_writable(key, waker);
                    Poll::Pending
                }
            }
        })
    }

    fn send(&self, key: StreamKey, body: Body<'_>) -> Result<bool, Status> {
        self.room.set(self.room.get() - 1);
        let bytes = match body {
            Body::Copy(bytes) => bytes.to_vec(),
            Body::Shared(bytes) => bytes.to_vec(),
        };
        self.note(key, Action::Sent(bytes));
        Ok(self.room.get() > 0)
    }

    fn finish(&self, key: StreamKey) {
        if self.table().finish_writer(key) {
            self.note(key, Action::Finished);
        }
    }

    fn cancel(&self, key: StreamKey, code: Code, reason: &str) {
        assert_eq!(code, Code::Cancelled);
        self.note(key, Action::Cancelled(reason.to_owned()));
    }

    fn drop_reader(&self, key: StreamKey) {
        self.note(key, Action::DroppedReader);
        self.table().drop_reader(key);
    }

    fn drop_writer(&self, key: StreamKey) {
        let unfinished = self.table().drop_writer(key);
        self.note(key, Action::DroppedWriter(unfinished));
    }
}

/// Makes a codec of raw bytes.
pub(crate) fn raw() -> Codec<Bytes> {
    Codec { decode: |piece| Ok(piece.into_bytes()), ..Codec::raw() }
}

/// Makes a codec of numbers as digits, encoded into the scratch buffer; other text cannot be
/// decoded.
pub(crate) fn digits() -> Codec<u64> {
    Codec {
        id: 128,
        encode: |number, scratch| {
            scratch.extend_from_slice(number.to_string().as_bytes());
            Ok(None)
        },
        decode: |piece| {
            let text = std::str::from_utf8(&piece).ok();
            text.and_then(|text| text.parse().ok()).ok_or_else(|| Status::internal("no number"))
        },
        json: None,
    }
}
