//! The server's end of a connection, from the first bytes to the last.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use ringway_net::{Connection, ConnectionId, Result, View};
use ringway_wire::native::Outgoing;

use super::connection::ServerConnection;
use super::core::ServerCore;
use super::log::log;
use super::machine::Machine;
use crate::connection::driver::{Closed, Driver, Endpoint, Flow};
use crate::limits;

/// Serves a connection with the machine of its protocol, once its calls are prepared.
///
/// The future is the driver and nothing else; an `async` function would hold its arguments, the machine
/// among them, for as long as the connection lives.
pub(crate) fn serve<M: Machine>(
    core: Rc<ServerCore>,
    connection: Connection,
    machine: M,
    first: View,
    prepare: impl FnOnce(&Rc<ServerConnection<M>>),
) -> impl Future<Output = Result> {
    connection.receive_while_draining(true);
    let now = core.now();
    let calls = ServerConnection::open(core, &connection, machine);
    prepare(&calls);
    let end = ServerEnd { calls, linger_until: None };
    let mut driver = Driver::new(connection, end);
    driver.take_in(Some(first), now);
    poll_fn(move |cx| {
        Pin::new(&mut driver).poll(cx).map(|closed| {
            let core = driver.end().calls.core();
            ended::<M>(core, driver.connection().id(), closed)
        })
    })
}

/// Counts how a connection has ended.
fn ended<M: Machine>(core: &ServerCore, id: ConnectionId, closed: Closed<M::Violation>) -> Result {
    match closed {
        Closed::ByPeer | Closed::Wanted => Ok(()),
        Closed::Lost(error) => Err(error),
        Closed::Violated(violation) | Closed::GivenUp(violation) => {
            if !M::is_leave(&violation) {
                core.share().count_violation();
            }
            log(|| tracing::debug!(%id, %violation, "a connection is closed"));
            Ok(())
        }
    }
}

/// The server's end of a connection. Dropping it ends all calls, whatever has ended the task.
struct ServerEnd<M: Machine> {
    calls: Rc<ServerConnection<M>>,
    /// The time at which a drained connection is closed, unless the client closes it earlier.
    linger_until: Option<Duration>,
}

impl<M: Machine> Endpoint for ServerEnd<M> {
    type Violation = M::Violation;

    fn begin_turn(&self, waker: &Waker) {
        self.calls.begin_turn(waker);
        self.calls.begin_deferred();
        self.calls.begin_held_back();
    }

    fn handle_input(&mut self, view: Option<&View>, _now: Duration) -> Result<(), M::Violation> {
        self.calls.take_in(view)
    }

    fn has_events(&self) -> bool {
        self.calls.has_events()
    }

    fn take_put_off(&mut self) -> Option<View> {
        self.calls.take_put_off()
    }

    fn has_put_off(&self) -> bool {
        self.calls.has_put_off()
    }

    fn is_full(&self) -> bool {
        self.calls.is_full()
    }

    fn waits_for_handlers(&self) -> bool {
        self.calls.waits_for_handlers()
    }

    fn next_timeout(&self) -> Option<Duration> {
        self.calls.next_timeout()
    }

    fn handle_timeout(&mut self, now: Duration) -> Result<(), M::Violation> {
        self.calls.handle_timeout(now)
    }

    fn poll_transmit(&mut self, room: usize, out: &mut dyn FnMut(Outgoing<'_>)) {
        self.calls.transmit(room, out);
    }

    fn has_output(&self) -> bool {
        self.calls.has_output()
    }

    fn send_mark(&self) -> usize {
        self.calls.send_mark()
    }

    /// Keeps a drained connection open for a while, to refuse calls that have crossed the drain's
    /// announcement. Closing while they arrive would reset the connection, and the client could lose
    /// replies that it has not read.
    fn after_round(&mut self, now: Duration) -> Flow {
        self.calls.settle();
        if self.calls.is_ended() {
            return Flow::Close;
        }
        if self.linger_until.is_none() && self.calls.is_drained() {
            self.linger_until = Some(now + limits::DRAIN_LINGER);
        }
        if self.linger_until.is_some_and(|until| until <= now) {
            return Flow::CloseWhenSent;
        }
        match self.calls.has_calls_to_begin() {
            true => Flow::Again,
            false => Flow::Wait(self.linger_until),
        }
    }

    /// Without this, calls that were executed would lack their replies if their client ends its side at once, as
    /// `nc -N` does.
    fn on_end_of_input(&mut self) -> bool {
        self.calls.machine().end_input();
        if self.calls.has_events() {
            let _the_connection_ends_anyway = self.calls.take_in(None);
        }
        self.calls.end_calls();
        self.calls.has_output()
    }

    fn end_turn(&mut self) {
        self.calls.end_turn();
    }

    fn take_discarded(&mut self) -> Vec<Bytes> {
        self.calls.take_discarded()
    }
}

impl<M: Machine> Drop for ServerEnd<M> {
    fn drop(&mut self) {
        self.calls.close();
    }
}
