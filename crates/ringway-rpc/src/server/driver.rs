//! The task of a native connection: the one place that receives, sends and keeps its time.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use ringway_net::{Connection, Result, View};
use ringway_runtime::Sleep;
use ringway_wire::native::{Outgoing, Violation};

use super::connection::NativeConnection;
use super::core::ServerCore;
use super::observe::log;
use crate::limits;

/// Serves a connection that speaks the native protocol, from its first bytes to its end.
pub(crate) async fn serve(core: Rc<ServerCore>, connection: Connection, first: View) -> Result {
    connection.receive_while_draining(true);
    let native = NativeConnection::open(core, &connection);
    let _closes = Closing(Rc::clone(&native));
    let mut driver = Driver { connection, native, alarm: None, leaving: false, farewell: None };
    if !driver.take_in(first) {
        driver.flush();
        return Ok(());
    }
    let mut driver = pin!(driver);
    poll_fn(|cx| driver.as_mut().poll(cx)).await
}

/// Ends all calls of a connection, whatever ended its task.
struct Closing(Rc<NativeConnection>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

struct Driver {
    connection: Connection,
    native: Rc<NativeConnection>,
    alarm: Option<Alarm>,
    /// Nothing more is taken in: what is queued leaves, then the connection ends.
    leaving: bool,
    /// When the connection ends that has drained, if the client has not ended it by then.
    farewell: Option<Duration>,
}

/// Wakes the task at the machine's next deadline, or at an earlier one that has moved since.
struct Alarm {
    at: Duration,
    /// Dropping it stops the timer.
    _sleep: Sleep,
}

/// What became of receiving.
enum Received {
    /// Nothing is left; more will wake the task.
    All,
    /// The peer does not read its answers, so its requests wait.
    Paused,
    /// The peer has gone.
    Ended,
}

impl Driver {
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result> {
        let this = &mut *self;
        let native = Rc::clone(&this.native);
        let _polling = native.begin_poll(cx.waker());
        native.begin_deferred();
        for _ in 0..limits::ROUNDS_PER_TURN {
            let received_all = match this.receive(cx)? {
                Received::All => true,
                Received::Paused => false,
                Received::Ended => return Poll::Ready(Ok(())),
            };
            this.keep_time(cx);
            this.flush();
            this.native.settle();
            if this.native.is_ended() {
                return Poll::Ready(Ok(()));
            }
            if this.native.has_events() {
                this.leaving |= !this.take_events();
                debug_assert!(!this.leaving || !this.native.has_events(), "a failure is the last");
                continue;
            }
            if this.is_done() {
                return Poll::Ready(Ok(()));
            }
            if this.farewell.is_none() && this.native.is_drained() {
                continue; // and keep the time for it
            }
            if this.native.has_output() && this.connection.poll_drained(cx)?.is_ready() {
                continue;
            }
            if native.has_deferred() {
                break;
            }
            if received_all || this.leaving || this.native.is_full() {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref(); // the other tasks of the core come first
        Poll::Pending
    }

    fn receive(&mut self, cx: &mut Context<'_>) -> Result<Received> {
        while !self.leaving {
            if self.native.is_full() {
                return Ok(Received::Paused);
            }
            match self.connection.poll_recv(cx)? {
                Poll::Ready(Some(view)) => self.leaving = !self.take_in(view),
                Poll::Ready(None) => return Ok(Received::Ended),
                Poll::Pending => break,
            }
        }
        Ok(Received::All)
    }

    /// Whether the connection goes on.
    fn take_in(&mut self, view: View) -> bool {
        let outcome = self.native.take_in(Some(&view));
        drop(view); // its buffer is on top of the pool again before the next receive
        self.judge(outcome)
    }

    /// What sending and time have brought about.
    fn take_events(&mut self) -> bool {
        let outcome = self.native.take_in(None);
        self.judge(outcome)
    }

    fn judge(&mut self, outcome: Result<(), Violation>) -> bool {
        let Err(violation) = outcome else { return true };
        if !matches!(violation, Violation::PeerLeft { .. }) {
            self.native.core().share().count_violation();
        }
        let id = self.connection.id();
        log(|| tracing::debug!(%id, %violation, "a native connection is closed"));
        false
    }

    /// Fires the machine's timers when they are due, and sets the alarm for the next.
    fn keep_time(&mut self, cx: &mut Context<'_>) {
        let now = self.native.core().now();
        let mut next = self.native.next_timeout();
        if next.is_some_and(|due| due <= now) && !self.leaving {
            let outcome = self.native.handle_timeout(now);
            self.leaving = !self.judge(outcome);
            next = self.native.next_timeout();
        }
        if self.farewell.is_none() && self.native.is_drained() {
            self.farewell = Some(now + limits::DRAIN_LINGER);
        }
        let Some(due) = next.into_iter().chain(self.farewell).min() else { return };
        // Deadlines mostly move away, so an alarm that rings too early is set anew and costs less
        // than one that follows them. Polling it once is enough: the task's waker stays the same.
        if self.alarm.as_ref().is_some_and(|alarm| alarm.at <= due && alarm.at > now) {
            return;
        }
        let at = due.max(now + limits::ALARM_STEP);
        let mut sleep = self.native.core().sleep_until(at);
        if Pin::new(&mut sleep).poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        self.alarm = Some(Alarm { at, _sleep: sleep });
    }

    fn flush(&mut self) {
        let (connection, native) = (&self.connection, &self.native);
        let room = native.send_mark().saturating_sub(connection.queued_bytes());
        if room == 0 {
            return;
        }
        native.transmit(room, &mut |outgoing| {
            let _queued = match outgoing {
                Outgoing::Copy(bytes) => connection.write(bytes),
                Outgoing::Shared(bytes) => connection.send(bytes),
            };
        });
    }

    /// Calls that have crossed the announcement of the drain are still refused for a while. Closing
    /// while they arrive would reset the connection, and the client might lose what it has not read.
    fn is_done(&self) -> bool {
        let has_said_farewell =
            || self.farewell.is_some_and(|until| until <= self.native.core().now());
        (self.leaving || has_said_farewell()) && !self.native.has_output()
    }
}
