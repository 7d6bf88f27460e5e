//! The task of a connection, at both ends and for every protocol: the one place that receives, sends
//! and keeps its time.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringway_net::{Connection, Error, View};
use ringway_runtime::io::Pressure;
use ringway_runtime::{self as runtime, Deadline, Sleep, drop_each};
use ringway_wire::native::Outgoing;

use crate::limits;

/// One end of a connection, as its driver sees it: a machine, and what its calls are at this end.
pub(crate) trait Endpoint {
    /// Why its machine fails.
    type Violation: Unpin;

    /// The task is being polled: until [`end_turn`](Self::end_turn) nobody needs to wake it.
    fn begin_turn(&self, waker: &Waker);

    /// Takes in received bytes, or without any what sending and time have brought about.
    ///
    /// # Errors
    /// When the peer has broken the protocol, or said that it leaves at once: nothing more is taken in.
    fn handle_input(&mut self, view: Option<&View>, now: Duration) -> Result<(), Self::Violation>;

    /// Whether [`handle_input`](Self::handle_input) has something to do, whatever arrives.
    fn has_events(&self) -> bool;

    /// Whether what arrives has to wait.
    fn is_full(&self) -> bool {
        false
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    fn next_timeout(&self) -> Option<Duration>;

    /// Does what is due.
    ///
    /// # Errors
    /// When the peer is given up.
    fn handle_timeout(&mut self, now: Duration) -> Result<(), Self::Violation>;

    /// Gives out about so many bytes.
    fn poll_transmit(&mut self, room: usize, out: &mut dyn FnMut(Outgoing<'_>));

    fn has_output(&self) -> bool;

    /// Bytes in the socket's queue up to which the machine gives out more.
    fn send_mark(&self) -> usize;

    /// Everything that was received is taken in, and what there is room for is sent.
    fn after_round(&mut self, now: Duration) -> Flow;

    /// The task is no longer being polled. What is woken by it comes now, since it may be code of a user
    /// that comes back: then that begins another turn.
    fn end_turn(&mut self);

    /// Bodies that the machine has given up.
    fn take_discarded(&mut self) -> Vec<Bytes>;

    /// Whether the end is clean and to be said here: nothing is cut off by it.
    fn says_its_end(&self) -> bool {
        false
    }
}

/// What an end wants next.
pub(crate) enum Flow {
    /// To wait, until then at most.
    Wait(Option<Duration>),
    /// To be polled again after the other tasks of the core.
    Again,
    /// To be closed at once.
    Close,
    /// To be closed when what is queued has left.
    CloseWhenSent,
}

/// Why a connection has ended.
#[derive(Debug)]
pub(crate) enum Closed<V> {
    /// The peer has closed it.
    ByPeer,
    /// It was lost.
    Lost(Error),
    /// The peer has broken the protocol, or said that it leaves at once.
    Violated(V),
    /// The peer was given up: what it had to do in time was not done.
    GivenUp(V),
    /// This end wanted it.
    Wanted,
}

/// Moments of a connection are times since its core's origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    /// The clock of this core.
    pub(crate) fn of_core() -> Self {
        Self(runtime::origin())
    }

    /// A clock with another origin, for moments where no core is.
    #[cfg(test)]
    pub(crate) fn since(origin: Instant) -> Self {
        Self(origin)
    }

    /// When this turn of the core began.
    #[inline]
    pub(crate) fn now(self) -> Duration {
        runtime::uptime()
    }

    /// A moment as this clock counts it.
    #[inline]
    pub(crate) fn at(self, moment: Instant) -> Duration {
        moment.saturating_duration_since(self.0)
    }

    /// The moment that is `time` after the origin.
    #[inline]
    pub(crate) fn instant(self, time: Duration) -> Instant {
        self.0.checked_add(time).unwrap_or(self.0)
    }

    /// The same of a deadline; `None` if that never comes.
    pub(crate) fn deadline(self, time: Duration) -> Option<Instant> {
        self.0.checked_add(time)
    }

    fn sleep_until(self, time: Duration) -> Sleep {
        runtime::sleep_until(Deadline::after(self.0, time))
    }
}

/// Drives a connection to its end.
pub(crate) struct Driver<E: Endpoint> {
    end: E,
    connection: Connection,
    clock: Clock,
    alarm: Option<Alarm>,
    /// Nothing more is taken in: what is queued leaves, then the connection ends so.
    leaving: Option<Closed<E::Violation>>,
    /// Bodies that the socket has copied or refused.
    spent: Vec<Bytes>,
}

/// Whose panics end where it was dropped.
pub(crate) const MESSAGE: &str = "the memory of a message";

/// Wakes the task at its next deadline, or at an earlier one that has moved since.
struct Alarm {
    at: Duration,
    /// Dropping it stops the timer.
    _sleep: Sleep,
}

/// What became of receiving.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Intake {
    /// Nothing is left; more will wake the task.
    All,
    /// This end has no room for the rest.
    Full,
    /// The rest comes after the other tasks of the core.
    Share,
}

impl<E: Endpoint> Driver<E> {
    pub(crate) fn new(connection: Connection, end: E, clock: Clock) -> Self {
        Self { end, connection, clock, alarm: None, leaving: None, spent: Vec::new() }
    }

    pub(crate) fn end(&self) -> &E {
        &self.end
    }

    pub(crate) fn end_mut(&mut self) -> &mut E {
        &mut self.end
    }

    /// Takes in received bytes, or without any what sending and time have brought about.
    pub(crate) fn take_in(&mut self, view: Option<View>, now: Duration) {
        let outcome = self.end.handle_input(view.as_ref(), now);
        drop(view); // its buffer is on top of the pool again before the next receive
        if let Err(violation) = outcome {
            self.leaving = Some(Closed::Violated(violation));
        }
    }

    fn turn(&mut self, cx: &mut Context<'_>) -> Poll<Closed<E::Violation>> {
        let now = self.clock.now();
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
                // Who is leaving does not receive any more, and hears only here that nobody is left.
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
            if received == Intake::All || self.end.is_full() {
                self.set_alarm(&next, now, cx);
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
        for _ in 0..limits::VIEWS_PER_TURN {
            if self.leaving.is_some() {
                return Ok(Intake::All);
            }
            if self.end.is_full() {
                return Ok(Intake::Full);
            }
            match self.connection.poll_recv(cx) {
                Poll::Ready(Ok(Some(view))) => self.take_in(Some(view), now),
                Poll::Ready(Ok(None)) => return Err(Closed::ByPeer),
                Poll::Ready(Err(error)) => return Err(Closed::Lost(error)),
                Poll::Pending => return Ok(Intake::All),
            }
        }
        Ok(Intake::Share)
    }

    /// Has the end do what is due.
    fn keep_time(&mut self, now: Duration) {
        let is_due = || self.end.next_timeout().is_some_and(|due| due <= now);
        if self.leaving.is_none()
            && is_due()
            && let Err(violation) = self.end.handle_timeout(now)
        {
            self.leaving = Some(Closed::GivenUp(violation));
        }
    }

    /// Sets the alarm for what is due next. Deadlines mostly move away, so an alarm that rings too early
    /// is set anew and costs less than one that follows them.
    fn set_alarm(&mut self, next: &Flow, now: Duration, cx: &mut Context<'_>) {
        let until = match next {
            Flow::Wait(until) => *until,
            _ => None,
        };
        let Some(due) = self.end.next_timeout().into_iter().chain(until).min() else { return };
        if self.alarm.as_ref().is_some_and(|alarm| alarm.at <= due && alarm.at > now) {
            return;
        }
        let at = due.max(now + limits::ALARM_STEP);
        let mut sleep = self.clock.sleep_until(at);
        // Polling it once is enough: the task's waker stays the same.
        if Pin::new(&mut sleep).poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        self.alarm = Some(Alarm { at, _sleep: sleep });
    }

    /// Drops what is not sent any more, whose memory may belong to code of a user: it may come back.
    #[inline]
    fn drop_bodies(&mut self) {
        let discarded = self.end.take_discarded();
        if !(discarded.is_empty() && self.spent.is_empty()) {
            drop_each(MESSAGE, self.spent.drain(..).chain(discarded));
        }
    }

    /// Queues the machine's output, a bounded number of bytes ahead of the kernel, so that a small
    /// message does not wait behind megabytes. False if it had room and was given nothing.
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
                // It would be dropped there, while the machine is borrowed.
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

/// Whether bytes that are sent now are kept until they have left. TLS copies them, and what has ended
/// refuses them.
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
        if self.end.says_its_end() {
            self.connection.shutdown();
        }
    }
}
