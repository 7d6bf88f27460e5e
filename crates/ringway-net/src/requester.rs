//! Requests and replies over the frames of a connection.
//!
//! Code of the program (the codec, `write_id` and `read_id`, wakers, values of the session) may
//! call back into the requester or panic. So it runs and is dropped while nothing is borrowed: the
//! driver owns the receiving half, and a request takes the sending half out of its cell.

mod driver;
mod failure;
mod waiting;
mod writing;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::task::Waker;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringway_runtime::io::Pressure;
use ringway_runtime::sync::{Notify, oneshot};
use ringway_runtime::{self as runtime, contain};
use ringway_wire::{Codec, RequestId};

use crate::connection::Peer;
use crate::error::{Error, Kind, Result};
use crate::framed::{Framed, Payload, Scratch};
use driver::Driver;
use failure::Failure;
use waiting::{ReadId, ReplyTo, Unanswered, Waiting};
use writing::Writing;

/// Sends requests over one connection and returns to every caller the reply to its own.
///
/// Clones share the connection, so any number of tasks of a core may have requests under way at the
/// same time; the requests of one turn leave in one send. A task of the core reads the replies,
/// even while the peer does not read the requests. Late replies, to requests that timed out or were
/// dropped, are discarded. The connection is aborted when it fails, and finished in order when the
/// last clone is dropped: a request is sent whole or not at all.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use ringway_net::{Client, Framed, Requester, Result};
/// use ringway_wire::LengthField;
///
/// # async fn ask() -> Result {
/// let connection = Client::connect("tcp://127.0.0.1:7001").await?;
/// let server = Requester::in_order(Framed::new(connection, LengthField::u32_be()), 64);
/// let version = server.request(b"version", Duration::from_secs(1)).await?;
/// assert_eq!(version, "1");
/// # Ok(())
/// # }
/// ```
pub struct Requester<C> {
    shared: Rc<RequesterShared<C>>,
}

struct RequesterShared<C> {
    /// `None` while a request is being written.
    writing: Cell<Option<Writing<C>>>,
    state: RefCell<RequesterState>,
    /// Notified when the send queue has room again, and when the connection has ended.
    changed: Notify,
}

struct RequesterState {
    /// The connection, or why it has ended.
    peer: std::result::Result<Peer, Failure>,
    waiting: Waiting,
    /// The time from which deadlines count.
    origin: Instant,
    /// The deadline for which the driver's timer is set.
    armed: Option<Duration>,
    /// Whether the send queue was at its high-water mark after the last request.
    is_congested: bool,
    driver: Option<Waker>,
}

impl<C> Requester<C>
where
    C: Codec + 'static,
    for<'a> C::Item<'a>: Payload,
{
    /// Makes a requester for a protocol without request ids: replies come in the order of the
    /// requests.
    ///
    /// At most `in_flight_max` requests may wait for their replies. A request that timed out counts
    /// until its reply has arrived, because the reply must be skipped.
    ///
    /// # Panics
    /// Panics outside of a runtime's thread.
    pub fn in_order(framed: Framed<C>, in_flight_max: usize) -> Self {
        Self::start(framed, Waiting::in_order(in_flight_max), None, None)
    }

    /// Makes a requester for a protocol whose payload carries a request id: replies come in any
    /// order.
    ///
    /// `write_id` appends the payload for an id and a request to the buffer; ids fit into 32 bits.
    /// `read_id` splits the payload of a reply into the id and the rest; `None` ends the
    /// connection. At most `in_flight_max` requests may wait for their replies.
    ///
    /// # Examples
    ///
    /// Every request and reply begins with an id of four bytes:
    ///
    /// ```no_run
    /// # use ringway_net::{Connection, Framed, Requester};
    /// # use ringway_wire::LengthField;
    /// # fn start(connection: Connection) {
    /// let framed = Framed::new(connection, LengthField::u32_be());
    /// let server = Requester::by_id(
    ///     framed,
    ///     1024,
    ///     |id, request, payload| {
    ///         payload.extend_from_slice(&id.to_u32().unwrap_or_default().to_be_bytes());
    ///         payload.extend_from_slice(request);
    ///     },
    ///     |payload| {
    ///         let (id, reply) = payload.split_first_chunk()?;
    ///         Some((u32::from_be_bytes(*id).into(), reply))
    ///     },
    /// );
    /// # }
    /// ```
    ///
    /// # Panics
    /// Panics outside of a runtime's thread.
    pub fn by_id(
        framed: Framed<C>,
        in_flight_max: usize,
        write_id: impl FnMut(RequestId, &[u8], &mut Vec<u8>) + 'static,
        read_id: impl for<'a> FnMut(&'a [u8]) -> Option<(RequestId, &'a [u8])> + 'static,
    ) -> Self {
        let waiting = Waiting::by_id(in_flight_max);
        Self::start(framed, waiting, Some(Box::new(write_id)), Some(Box::new(read_id)))
    }

    /// Sends a request and waits for its reply, for at most `timeout` from now.
    ///
    /// While the connection's send queue is above its high-water mark, this waits before it sends.
    /// Dropping the future abandons the request.
    ///
    /// # Errors
    /// - [`is_timeout`](Error::is_timeout): no reply in time. The connection stays open.
    /// - [`is_limit`](Error::is_limit): `in_flight_max` requests already wait, or no frame of the
    ///   codec can carry the request. Nothing was sent.
    /// - [`is_closed`](Error::is_closed) and others: the connection ended before the request or
    ///   while it waited. All further requests get the same error.
    pub async fn request(&self, request: &[u8], timeout: Duration) -> Result<Bytes> {
        let begun = runtime::now();
        if self.shared.is_congested() {
            let room = runtime::timeout(timeout, self.shared.has_room()).await;
            room.map_err(|_| no_reply(timeout))?;
        }
        let (reply_to, reply) = oneshot::channel();
        let _given_up_when_dropped = self.shared.begin(request, begun, timeout, reply_to)?;
        match reply.await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(Unanswered::TimedOut)) => Err(no_reply(timeout)),
            Ok(Err(Unanswered::Failed(failure))) => Err(failure.to_error()),
            Err(_lost) => Err(Failure::driver_ended().to_error()),
        }
    }

    /// Returns the number of requests whose reply may still arrive.
    pub fn in_flight(&self) -> usize {
        self.shared.state.borrow().waiting.in_flight()
    }

    /// Whether the connection has ended, so that every further request fails.
    pub fn is_closed(&self) -> bool {
        self.shared.state.borrow().peer.is_err()
    }

    fn start(
        framed: Framed<C>,
        waiting: Waiting,
        write_id: Option<waiting::WriteId>,
        read_id: Option<ReadId>,
    ) -> Self {
        let (frames, encoder) = framed.into_halves();
        // Replies are always read: a peer may not read requests until its replies are read.
        frames.connection().set_paced(false);
        let state = RequesterState {
            peer: Ok(Peer::of_inner(Rc::clone(frames.connection().inner()))),
            waiting,
            origin: runtime::now(),
            armed: None,
            is_congested: false,
            driver: None,
        };
        let shared = Rc::new(RequesterShared {
            writing: Cell::new(Some(Writing::new(encoder, write_id))),
            state: RefCell::new(state),
            changed: Notify::new(),
        });
        runtime::spawn_named("requester", Driver::new(Rc::downgrade(&shared), frames, read_id));
        Self { shared }
    }
}

impl<C> Clone for Requester<C> {
    fn clone(&self) -> Self {
        Self { shared: Rc::clone(&self.shared) }
    }
}

impl<C> fmt::Debug for Requester<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.state.borrow();
        f.debug_struct("Requester")
            .field("peer", &state.peer)
            .field("waiting", &state.waiting)
            .finish_non_exhaustive()
    }
}

impl<C> RequesterShared<C> {
    fn is_congested(&self) -> bool {
        self.state.borrow().is_congested
    }

    async fn has_room(&self) {
        while self.is_congested() {
            self.changed.notified().await;
        }
    }

    /// Registers who waits for the reply to a request that is about to be sent.
    fn note(&self, begun: Instant, timeout: Duration, reply_to: ReplyTo) -> Result<Noted<'_, C>> {
        let mut state = self.state.borrow_mut();
        if let Err(failure) = &state.peer {
            return Err(failure.to_error());
        }
        let now = begun.saturating_duration_since(state.origin);
        let id = state.waiting.begin(now, timeout, reply_to)?;
        Ok(Noted { shared: self, id })
    }

    /// Queues a registered request.
    fn send(&self, encoded: Scratch) {
        let peer = match &self.state.borrow().peer {
            Ok(peer) => Peer::of_inner(Rc::clone(peer.inner())),
            // The connection has failed meanwhile, and all requests with it.
            Err(_) => return,
        };
        let pressure = encoded.queue_on(&peer).pressure();
        let mut state = self.state.borrow_mut();
        state.is_congested = pressure == Pressure::High;
        let is_first_due =
            state.armed.is_none_or(|armed| state.waiting.next_deadline() < Some(armed));
        let driver = state.driver.as_ref().filter(|_| is_first_due || pressure != Pressure::Low);
        let driver = driver.cloned();
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// Ends all requests and drops the connection. Only the first failure counts.
    fn fail(&self, failure: &Failure) {
        let mut state = self.state.borrow_mut();
        if state.peer.is_err() {
            return;
        }
        let peer = std::mem::replace(&mut state.peer, Err(failure.clone()));
        let waiting = state.waiting.fail_all();
        state.is_congested = false;
        drop(state);
        for reply_to in waiting {
            answer(reply_to, Err(Unanswered::Failed(failure.clone())));
        }
        self.changed.notify_waiters();
        drop(peer);
    }
}

impl<C: Codec> RequesterShared<C> {
    fn begin(
        &self,
        request: &[u8],
        begun: Instant,
        timeout: Duration,
        reply_to: ReplyTo,
    ) -> Result<Noted<'_, C>> {
        let mut writing = Writing::lend(&self.writing)?;
        let (noted, encoded) = match writing.has_ids() {
            true => {
                let noted = self.note(begun, timeout, reply_to)?;
                let encoded = writing.encode_with_id(noted.id, request)?;
                (noted, encoded)
            }
            // Encoding may fail, and a registered request in order cannot be taken back: so encode
            // first.
            false => {
                let encoded = writing.encode(request)?;
                (self.note(begun, timeout, reply_to)?, encoded)
            }
        };
        drop(writing);
        self.send(encoded);
        Ok(noted)
    }
}

impl<C> Drop for RequesterShared<C> {
    /// Finishes sending, because the last requester is gone, and wakes the driver, which holds no
    /// strong reference.
    fn drop(&mut self) {
        let state = self.state.get_mut();
        if let Ok(peer) = &state.peer {
            peer.shutdown();
        }
        if let Some(driver) = state.driver.take() {
            driver.wake();
        }
    }
}

/// A request that waits for its reply; dropping it cancels the wait.
struct Noted<'a, C> {
    shared: &'a RequesterShared<C>,
    id: RequestId,
}

impl<C> Drop for Noted<'_, C> {
    fn drop(&mut self) {
        let reply_to = self.shared.state.borrow_mut().waiting.cancel(self.id);
        drop(reply_to);
    }
}

/// Passes a reply to its caller. The caller's waker may be foreign code: its panic must not affect
/// other callers.
fn answer(reply_to: ReplyTo, reply: std::result::Result<Bytes, Unanswered>) {
    // The send fails only if the caller has gone.
    let _logged = contain("a waker", || drop(reply_to.send(reply)));
}

fn no_reply(timeout: Duration) -> Error {
    let text = format!("no reply within {timeout:?}: the peer is slow or gone; try again or close");
    Error::new(Kind::Timeout, text)
}
