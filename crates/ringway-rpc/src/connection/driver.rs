//! The task of a connection, for both ends and every protocol: the one place that receives, sends
//! and runs its timer.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringway_net::{Connection, Error, View};
use ringway_runtime::io::Pressure;
use ringway_runtime::{self as runtime, Deadline, Sleep, drop_each};
use ringway_wire::native::Outgoing;

use crate::limits;

/// One end of a connection as its driver uses it: a protocol machine and the state of its calls.
pub(crate) trait Endpoint {
    /// The machine's error.
    type Violation: Unpin;

    /// Begins a turn of the task: until [`end_turn`](Self::end_turn) nothing needs to wake it.
    fn begin_turn(&self, waker: &Waker);

    /// Handles received bytes; without bytes, the events that sending and timeouts have caused.
    ///
    /// # Errors
    /// Fails when the peer has violated the protocol or leaves at once; then no more input is
    /// handled.
    fn handle_input(&mut self, view: Option<&View>, now: Duration) -> Result<(), Self::Violation>;

    /// Whether [`handle_input`](Self::handle_input) has events to handle without input.
    fn has_events(&self) -> bool;

    /// Takes received bytes that were handled in part, for their share of the core's time was used up.
    fn take_put_off(&mut self) -> Option<View> {
        None
    }

    /// Whether there are such.
    fn has_put_off(&self) -> bool {
        false
    }

    /// Whether receiving must wait.
    fn is_full(&self) -> bool {
        false
    }

    /// Whether receiving waits for handlers alone: there is nothing to send either, so nothing tells of a peer that
    /// has gone.
    fn waits_for_handlers(&self) -> bool {
        false
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is due.
    fn next_timeout(&self) -> Option<Duration>;

    /// Handles what is due at `now`.
    ///
    /// # Errors
    /// Fails when the peer missed a deadline, so that the connection has to end.
    fn handle_timeout(&mut self, now: Duration) -> Result<(), Self::Violation>;

    /// Passes about `room` bytes of output to `out`.
    fn poll_transmit(&mut self, room: usize, out: &mut dyn FnMut(Outgoing<'_>));

    fn has_output(&self) -> bool;

    /// Returns the length of the socket's queue up to which the machine passes output.
    fn send_mark(&self) -> usize;

    /// Runs after each round: all input was handled, and output was sent as far as there was room.
    fn after_round(&mut self, now: Duration) -> Flow;

    /// Ends a turn of the task. Wakers run only now, because they may be user code that comes back;
    /// that begins another turn.
    fn end_turn(&mut self);

    /// Takes the bodies that the machine has discarded, to be dropped outside of it.
    fn take_discarded(&mut self) -> Vec<Bytes>;

    /// The peer says nothing more. Whether it may still read, so that the output is to leave.
    fn on_end_of_input(&mut self) -> bool {
        false
    }

    /// Whether the end is clean and this side has to announce it: then nothing is truncated.
    fn announces_its_end(&self) -> bool {
        false
    }
}

/// The next step that an end asks for.
pub(crate) enum Flow {
    /// Wait, at most until this time.
    Wait(Option<Duration>),
    /// Poll again after the other tasks of the core.
    Again,
    /// Close at once.
    Close,
    /// Close when all output has left.
    CloseWhenSent,
}

/// Why a connection has ended.
#[derive(Debug)]
pub(crate) enum Closed<V> {
    /// The peer has closed it.
    ByPeer,
    /// It was lost.
    Lost(Error),
    /// The peer has violated the protocol, or leaves at once.
    Violated(V),
    /// The peer has missed a deadline.
    GivenUp(V),
    /// This end has closed it.
    Wanted,
}

/// Converts between instants and the times of a connection, which count from its core's origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    /// Makes the clock of this core.
    pub(crate) fn of_core() -> Self {
        Self(runtime::origin())
    }

    /// Makes a clock with another origin, for tests without a core.
    #[cfg(test)]
    pub(crate) fn since(origin: Instant) -> Self {
        Self(origin)
    }

    /// Returns when this turn of the core began.
    #[inline]
    pub(crate) fn now(self) -> Duration {
        runtime::uptime()
    }

    /// Converts an instant to a time since the origin.
    #[inline]
    pub(crate) fn at(self, moment: Instant) -> Duration {
        moment.saturating_duration_since(self.0)
    }

    /// Converts a time since the origin to an instant.
    #[inline]
    pub(crate) fn instant(self, time: Duration) -> Instant {
        self.0.checked_add(time).unwrap_or(self.0)
    }

    /// Converts a deadline to an instant; `None` if it is never.
    pub(crate) fn deadline(self, time: Duration) -> Option<Instant> {
        self.0.checked_add(time)
    }

    fn sleep_until(self, time: Duration) -> Sleep {
        runtime::sleep_until(Deadline::after(self.0, time))
    }
}

/// Drives a connection until its end.
pub(crate) struct Driver<E: Endpoint> {
    end: E,
    connection: Connection,
    alarm: Option<Alarm>,
    /// Why the connection ends once its output has left; from then on no input is handled.
    leaving: Option<Closed<E::Violation>>,
    /// Bodies that the socket has copied or refused.
    spent: Vec<Bytes>,
}

/// The description of bodies for logs of their panics.
pub(crate) const MESSAGE: &str = "the memory of a message";

/// The timer that wakes the task at its next deadline, or earlier if that deadline has moved since.
struct Alarm {
    at: Duration,
    /// Dropping it stops the timer.
    _sleep: Sleep,
}

/// The result of receiving.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Intake {
    /// Nothing is left; more input wakes the task.
    All,
    /// This end has no room for the rest.
    Full,
    /// The rest comes after the other tasks of the core.
    Share,
}

impl<E: Endpoint> Driver<E> {
    pub(crate) fn new(connection: Connection, end: E) -> Self {
        Self { end, connection, alarm: None, leaving: None, spent: Vec::new() }
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(crate) fn end(&self) -> &E {
        &self.end
    }

    pub(crate) fn end_mut(&mut self) -> &mut E {
        &mut self.end
    }

    /// Handles received bytes; without bytes, the events that sending and timeouts have caused.
    pub(crate) fn take_in(&mut self, view: Option<View>, now: Duration) {
        let outcome = self.end.handle_input(view.as_ref(), now);
        drop(view); // returns its buffer to the pool before the next receive
        if let Err(violation) = outcome {
            self.leaving = Some(Closed::Violated(violation));
        }
    }

    fn turn(&mut self, cx: &mut Context<'_>) -> Poll<Closed<E::Violation>> {
        let now = runtime::uptime();
        for _ in 0..limits::ROUNDS_PER_TURN {
            let received = match self.receive(now, cx) {
                Ok(received) => received,
                Err(ended) => return Poll::Ready(ended),
            };
            self.keep_time(now);
            let may_send_more = self.flush();
            let next = self.end.after_round(now);
            if let Flow::Close = next {
                return Poll::Ready(self.leaving.take().unwrap_or(Closed::Wanted));
            }
            if self.end.has_events() && self.leaving.is_none() {
                self.take_in(None, now);
                continue;
            }
            if self.end.has_output() {
                // A connection that is ending does not receive, so it learns only here that the
                // peer is gone.
                match self.connection.poll_drained(cx) {
                    Poll::Ready(Err(error)) => return Poll::Ready(Closed::Lost(error)),
                    Poll::Ready(Ok(())) if may_send_more => continue,
                    Poll::Ready(Ok(())) | Poll::Pending => {}
                }
            }
            if !self.end.has_output() {
                if let Some(ended) = self.leaving.take() {
                    return Poll::Ready(ended);
                }
                if let Flow::CloseWhenSent = next {
                    return Poll::Ready(Closed::Wanted);
                }
            }
            if matches!(next, Flow::Again) || received == Intake::Share {
                break;
            }
            if received == Intake::Full && self.has_lost_its_peer(now) {
                return Poll::Ready(Closed::ByPeer);
            }
            if received == Intake::All || self.end.is_full() {
                self.set_alarm(&next, received, now, cx);
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref(); // the other tasks of the core come first
        Poll::Pending
    }

    fn receive(
        &mut self,
        now: Duration,
        cx: &mut Context<'_>,
    ) -> Result<Intake, Closed<E::Violation>> {
        let mut taken = 0;
        for _ in 0..limits::VIEWS_PER_TURN {
            if taken >= limits::INTAKE_BYTES_PER_TURN {
                break;
            }
            if self.leaving.is_some() {
                return Ok(Intake::All);
            }
            if self.end.is_full() {
                return Ok(Intake::Full);
            }
            let next = match self.end.take_put_off() {
                Some(rest) => Poll::Ready(Ok(Some(rest))),
                None => self.connection.poll_recv(cx),
            };
            match next {
                Poll::Ready(Ok(Some(view))) => {
                    taken += view.len();
                    self.take_in(Some(view), now);
                    if self.end.has_put_off() {
                        return Ok(Intake::Share);
                    }
                }
                Poll::Ready(Ok(None)) if self.end.on_end_of_input() => {
                    self.leaving = Some(Closed::ByPeer);
                    return Ok(Intake::All);
                }
                Poll::Ready(Ok(None)) => return Err(Closed::ByPeer),
                Poll::Ready(Err(error)) => return Err(Closed::Lost(error)),
                Poll::Pending => return Ok(Intake::All),
            }
        }
        Ok(Intake::Share)
    }

    /// Handles timeouts that are due.
    fn keep_time(&mut self, now: Duration) {
        let is_due = || self.end.next_timeout().is_some_and(|due| due <= now);
        if self.leaving.is_none()
            && is_due()
            && let Err(violation) = self.end.handle_timeout(now)
        {
            self.leaving = Some(Closed::GivenUp(violation));
        }
    }

    /// Whether the peer has gone while nothing is received and nothing is to be sent. The kernel is asked when the timer
    /// has fired.
    #[cold]
    fn has_lost_its_peer(&self, now: Duration) -> bool {
        self.end.waits_for_handlers()
            && self.alarm.as_ref().is_some_and(|alarm| alarm.at <= now)
            && self.connection.has_peer_ended()
    }

    /// Arms the timer for the next deadline. Deadlines mostly move later, so re-arming a timer that
    /// fires early costs less than moving it each time.
    fn set_alarm(&mut self, next: &Flow, received: Intake, now: Duration, cx: &mut Context<'_>) {
        let until = match next {
            Flow::Wait(until) => *until,
            _ => None,
        };
        // Timeouts are not handled any more while the last output leaves: one that has come would wake the task for ever.
        let own = self.leaving.is_none().then(|| self.end.next_timeout()).flatten();
        let is_looked_for = received == Intake::Full && self.end.waits_for_handlers();
        let look = is_looked_for.then(|| now + limits::PEER_LOOK_PAUSE);
        let Some(due) = own.into_iter().chain(until).chain(look).min() else { return };
        if self.alarm.as_ref().is_some_and(|alarm| alarm.at <= due && alarm.at > now) {
            return;
        }
        let at = due.max(now + limits::ALARM_STEP);
        let mut sleep = Clock::of_core().sleep_until(at);
        // One poll is enough, because the task's waker does not change.
        if Pin::new(&mut sleep).poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        self.alarm = Some(Alarm { at, _sleep: sleep });
    }

    /// Drops bodies that are not sent any more. Their memory may belong to user code, which may
    /// come back.
    #[inline]
    fn drop_bodies(&mut self) {
        let discarded = self.end.take_discarded();
        if !(discarded.is_empty() && self.spent.is_empty()) {
            drop_each(MESSAGE, self.spent.drain(..).chain(discarded));
        }
    }

    /// Queues the machine's output, a bounded number of bytes ahead of the kernel, so that a small
    /// message does not wait behind megabytes. Returns false if there was room but no output.
    fn flush(&mut self) -> bool {
        let (connection, spent) = (&self.connection, &mut self.spent);
        let queued = connection.queued_bytes();
        let room = self.end.send_mark().saturating_sub(queued);
        if room == 0 {
            return true;
        }
        self.end.poll_transmit(room, &mut |outgoing| {
            match outgoing {
                Outgoing::Copy(bytes) => _ = connection.write(bytes),
                // The connection would drop the bytes at once, while the machine is borrowed.
                Outgoing::Shared(bytes) if !keeps_sent(connection) => {
                    let _queued = connection.write(&bytes);
                    spent.push(bytes);
                }
                Outgoing::Shared(bytes) => _ = connection.send(bytes),
            }
        });
        connection.queued_bytes() != queued
    }
}

/// Whether the connection keeps sent bytes until they have left. TLS copies them, and an ended
/// connection refuses them.
fn keeps_sent(connection: &Connection) -> bool {
    !connection.is_tls() && connection.write(&[]).pressure() != Pressure::Closed
}

impl<E: Endpoint + Unpin> Future for Driver<E> {
    type Output = Closed<E::Violation>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Closed<E::Violation>> {
        self.end.begin_turn(cx.waker());
        let polled = self.turn(cx);
        self.end.end_turn();
        self.drop_bodies();
        polled
    }
}

impl<E: Endpoint> Drop for Driver<E> {
    fn drop(&mut self) {
        if self.end.announces_its_end() {
            self.connection.shutdown();
        }
    }
}
