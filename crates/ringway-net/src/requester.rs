//! Requests and replies over the frames of a connection.

mod waiting;

use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringway_runtime::io::Pressure;
use ringway_runtime::sync::{Notify, oneshot};
use ringway_runtime::{self as runtime, Sleep};
use ringway_wire::{Codec, IdMatcher, RequestId, SequentialMatcher};

use crate::error::{Error, Kind, Result};
use crate::framed::{Framed, Payload};
use waiting::{Unanswered, Waiting};

/// Sends requests over one connection and gives every caller the reply to its own.
///
/// Clones share the connection, so any number of tasks of a core may have requests under way at
/// the same time; those of one turn leave in one send. A task of the core reads the replies.
/// Replies to requests that timed out or whose callers went away are thrown away when they come.
/// The connection is closed when the last clone is dropped, or when it fails.
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
    shared: Rc<Shared<C>>,
}

struct Shared<C> {
    state: RefCell<State<C>>,
    /// Told when the send queue has room again, and when the connection has ended.
    changed: Notify,
}

struct State<C> {
    /// The connection, or why there is none any more.
    link: std::result::Result<Framed<C>, Failure>,
    waiting: Waiting,
    /// Deadlines count from here.
    origin: Instant,
    /// The deadline at which the driver will look next.
    armed: Option<Duration>,
    /// The send queue was at its high-water mark after the last request.
    is_congested: bool,
    driver: Option<Waker>,
}

impl<C> Requester<C>
where
    C: Codec + 'static,
    for<'a> C::Item<'a>: Payload,
{
    /// For protocols without request ids, whose replies come in the order of the requests.
    ///
    /// At most `in_flight_max` requests may wait for their replies; those that timed out count
    /// until their reply has come, because it has to be skipped.
    ///
    /// # Panics
    /// Outside of a runtime's thread.
    pub fn in_order(framed: Framed<C>, in_flight_max: usize) -> Self {
        Self::start(framed, Waiting::InOrder(SequentialMatcher::new(in_flight_max)))
    }

    /// For protocols whose payload carries a request id, and whose replies come in any order.
    ///
    /// `write_id` appends the payload made of id and request; ids fit into 32 bits. `read_id`
    /// finds the id in the payload of a reply and returns it with the rest; a payload in which it
    /// finds none ends the connection. At most `in_flight_max` requests may wait.
    ///
    /// # Examples
    ///
    /// Four bytes of id in front of every request and reply:
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
    /// Outside of a runtime's thread.
    pub fn by_id(
        framed: Framed<C>,
        in_flight_max: usize,
        write_id: impl FnMut(RequestId, &[u8], &mut Vec<u8>) + 'static,
        read_id: impl for<'a> FnMut(&'a [u8]) -> Option<(RequestId, &'a [u8])> + 'static,
    ) -> Self {
        let waiting = Waiting::ById {
            matcher: IdMatcher::with_u32_ids(in_flight_max),
            write_id: Box::new(write_id),
            read_id: Box::new(read_id),
            payload: Vec::new(),
        };
        Self::start(framed, waiting)
    }

    /// Sends a request and waits for its reply, but not longer than `timeout`, counted from now.
    ///
    /// Waits with sending while the connection's send queue is above its high-water mark.
    /// Dropping the future gives the request up.
    ///
    /// # Errors
    /// - [`is_timeout`](Error::is_timeout): no reply in time. The connection stays open.
    /// - [`is_limit`](Error::is_limit): `in_flight_max` requests wait already; or no frame of the
    ///   codec can carry the request. Nothing was sent.
    /// - [`is_closed`](Error::is_closed) and others: the connection has ended, be it before or
    ///   while the request waited. All further requests get the same error.
    pub async fn request(&self, request: &[u8], timeout: Duration) -> Result<Bytes> {
        let begun = runtime::now();
        if self.shared.is_congested() {
            let room = runtime::timeout(timeout, self.shared.has_room()).await;
            room.map_err(|_| no_reply(timeout))?;
        }
        let (reply_to, reply) = oneshot::channel();
        let id = self.shared.state.borrow_mut().begin(request, begun, timeout, reply_to)?;
        let _give_up = GiveUp { shared: &self.shared, id };
        match reply.await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(Unanswered::TimedOut)) => Err(no_reply(timeout)),
            Ok(Err(Unanswered::Failed(failure))) => Err(failure.to_error()),
            Err(_) => unreachable!("the matcher gives every request an end"),
        }
    }

    /// Requests whose reply may still come.
    pub fn in_flight(&self) -> usize {
        self.shared.state.borrow().waiting.in_flight()
    }

    /// Whether the connection has ended: every further request fails.
    pub fn is_closed(&self) -> bool {
        self.shared.state.borrow().link.is_err()
    }

    fn start(framed: Framed<C>, waiting: Waiting) -> Self {
        let state = State {
            link: Ok(framed),
            waiting,
            origin: runtime::now(),
            armed: None,
            is_congested: false,
            driver: None,
        };
        let shared = Rc::new(Shared { state: RefCell::new(state), changed: Notify::new() });
        runtime::spawn_named("requester", drive(Rc::downgrade(&shared)));
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
            .field("link", &state.link)
            .field("waiting", &state.waiting)
            .finish_non_exhaustive()
    }
}

/// Reads replies and watches deadlines until the connection or the last requester is gone.
async fn drive<C>(shared: Weak<Shared<C>>)
where
    C: Codec,
    for<'a> C::Item<'a>: Payload,
{
    let _fail_rest = DriverEnds(shared.clone());
    let mut timer = runtime::sleep(Duration::ZERO);
    poll_fn(|cx| match shared.upgrade() {
        Some(shared) => shared.poll_drive(cx, &mut timer),
        None => Poll::Ready(()),
    })
    .await;
}

/// Fails what still waits when the driver ends by a panic of the codec's or of `read_id`.
struct DriverEnds<C>(Weak<Shared<C>>);

impl<C> Drop for DriverEnds<C> {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.state.borrow_mut().fail(Failure::driver_ended());
            shared.changed.notify_waiters();
        }
    }
}

impl<C> Shared<C>
where
    C: Codec,
    for<'a> C::Item<'a>: Payload,
{
    fn poll_drive(&self, cx: &mut Context<'_>, timer: &mut Sleep) -> Poll<()> {
        let mut state = self.state.borrow_mut();
        let ended = state.poll_replies(cx);
        if ended.is_pending() {
            state.poll_deadlines(cx, timer);
            state.driver = Some(cx.waker().clone());
        }
        let has_changed = state.poll_room(cx).is_ready() || ended.is_ready();
        drop(state);
        if has_changed {
            self.changed.notify_waiters();
        }
        ended
    }
}

impl<C> Shared<C> {
    fn is_congested(&self) -> bool {
        self.state.borrow().is_congested
    }

    async fn has_room(&self) {
        while self.is_congested() {
            self.changed.notified().await;
        }
    }
}

impl<C> Drop for Shared<C> {
    /// The driver holds no strong reference; it has to be told that it is over.
    fn drop(&mut self) {
        if let Some(driver) = self.state.get_mut().driver.take() {
            driver.wake();
        }
    }
}

impl<C> State<C> {
    /// Ends all requests and closes the connection. A connection fails once.
    fn fail(&mut self, failure: Failure) {
        if self.link.is_ok() {
            self.waiting.fail_all(&failure);
            self.link = Err(failure);
            self.is_congested = false;
        }
    }
}

impl<C: Codec> State<C> {
    fn begin(
        &mut self,
        request: &[u8],
        begun: Instant,
        timeout: Duration,
        reply_to: waiting::ReplyTo,
    ) -> Result<RequestId> {
        let framed = self.link.as_mut().map_err(|failure| failure.to_error())?;
        let now = begun.saturating_duration_since(self.origin);
        let (id, encoded) = self.waiting.begin(framed, request, now, timeout, reply_to)?;
        let pressure = encoded.queue_on(framed.connection()).pressure();
        self.is_congested = pressure == Pressure::High;
        let is_first_due =
            self.armed.is_none_or(|armed| self.waiting.next_deadline() < Some(armed));
        if (is_first_due || pressure != Pressure::Low)
            && let Some(driver) = &self.driver
        {
            driver.wake_by_ref();
        }
        Ok(id)
    }
}

impl<C> State<C>
where
    C: Codec,
    for<'a> C::Item<'a>: Payload,
{
    /// Takes what has been received; ready when the connection has ended.
    fn poll_replies(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Ok(framed) = &mut self.link else {
            return Poll::Ready(());
        };
        let waiting = &mut self.waiting;
        let failure = loop {
            let received = framed.poll_frames(cx, |frame, _| {
                waiting.complete(frame.payload()).map(ControlFlow::Continue)
            });
            match ready!(received) {
                Ok(Some(_)) => {}
                Ok(None) => break Failure::closed_by_peer(),
                Err(error) => break Failure::of(&error),
            }
        };
        self.fail(failure);
        Poll::Ready(())
    }

    /// Ends requests that are due and sets the timer for the next. A timer that is set too early,
    /// because its request was answered, is left alone: it fires once a timeout, not once a reply.
    fn poll_deadlines(&mut self, cx: &mut Context<'_>, timer: &mut Sleep) {
        self.waiting.expire(runtime::now().saturating_duration_since(self.origin));
        while let Some(deadline) = self.waiting.next_deadline() {
            if self.armed.is_none_or(|armed| deadline < armed) {
                let Some(at) = self.origin.checked_add(deadline) else {
                    return;
                };
                timer.reset(at);
                self.armed = Some(deadline);
            }
            if Pin::new(&mut *timer).poll(cx).is_pending() {
                return;
            }
            self.waiting.expire(self.armed.take().unwrap_or(deadline));
        }
    }

    /// Ready when the send queue, having been full, has room again.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.link {
            Ok(framed) if self.is_congested => {
                let drained = ready!(framed.connection().poll_drained(cx));
                self.is_congested = false;
                if let Err(error) = drained {
                    self.fail(Failure::of(&error));
                }
                Poll::Ready(())
            }
            _ => Poll::Pending,
        }
    }
}

/// Takes a request back whose caller does not wait any more.
struct GiveUp<'a, C> {
    shared: &'a Shared<C>,
    id: RequestId,
}

impl<C> Drop for GiveUp<'_, C> {
    fn drop(&mut self) {
        self.shared.state.borrow_mut().waiting.cancel(self.id);
    }
}

/// Why a connection ended, to be told to many.
#[derive(Clone, Debug)]
struct Failure {
    kind: Kind,
    text: Rc<str>,
}

impl Failure {
    fn closed_by_peer() -> Self {
        let text = "peer closed the connection: connect again to send further requests";
        Self { kind: Kind::Closed, text: text.into() }
    }

    fn driver_ended() -> Self {
        let text = "the task that reads the replies has ended: see the log for its panic";
        Self { kind: Kind::Other, text: text.into() }
    }

    fn of(error: &Error) -> Self {
        let kind = match () {
            () if error.is_closed() => Kind::Closed,
            () if error.is_timeout() => Kind::Timeout,
            () if error.is_limit() => Kind::Limit,
            () if error.is_protocol() => Kind::Protocol,
            () if error.is_tls() => Kind::Tls,
            () => Kind::Other,
        };
        Self { kind, text: format!("the connection has failed: {error}").into() }
    }

    fn to_error(&self) -> Error {
        Error::new(self.kind, &*self.text)
    }
}

fn no_reply(timeout: Duration) -> Error {
    let text = format!("no reply within {timeout:?}: the peer is slow or gone; try again or close");
    Error::new(Kind::Timeout, text)
}
