//! The server's end of a native connection, from its first bytes to its end.

use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use ringway_net::{Connection, Result, View};
use ringway_wire::native::{Outgoing, Violation};

use super::connection::NativeConnection;
use super::core::ServerCore;
use super::observe::log;
use crate::connection::driver::{Closed, Driver, Endpoint, Flow};
use crate::limits;

/// Serves a connection that speaks the native protocol.
pub(crate) async fn serve(core: Rc<ServerCore>, connection: Connection, first: View) -> Result {
    connection.receive_while_draining(true);
    let native = NativeConnection::open(Rc::clone(&core), &connection);
    let id = connection.id();
    let end = ServerEnd { native, farewell: None };
    let mut driver = Driver::new(connection, end, core.clock());
    driver.take_in(Some(first), core.now());
    match driver.await {
        Closed::ByPeer | Closed::Wanted => Ok(()),
        Closed::Lost(error) => Err(error),
        Closed::Violated(violation) | Closed::GivenUp(violation) => {
            if !matches!(violation, Violation::PeerLeft { .. }) {
                core.share().count_violation();
            }
            log(|| tracing::debug!(%id, %violation, "a native connection is closed"));
            Ok(())
        }
    }
}

/// Ends all calls of its connection when it is dropped, whatever has ended the task.
struct ServerEnd {
    native: Rc<NativeConnection>,
    /// When the connection ends that has drained, if the client has not ended it by then.
    farewell: Option<Duration>,
}

impl Endpoint for ServerEnd {
    fn begin_turn(&self, waker: &Waker) {
        self.native.begin_turn(waker);
        self.native.begin_deferred();
    }

    fn handle_input(&mut self, view: Option<&View>, _now: Duration) -> Result<(), Violation> {
        self.native.take_in(view)
    }

    fn has_events(&self) -> bool {
        self.native.has_events()
    }

    fn is_full(&self) -> bool {
        self.native.is_full()
    }

    fn next_timeout(&self) -> Option<Duration> {
        self.native.next_timeout()
    }

    fn handle_timeout(&mut self, now: Duration) -> Result<(), Violation> {
        self.native.handle_timeout(now)
    }

    fn poll_transmit(&mut self, room: usize, out: &mut dyn FnMut(Outgoing<'_>)) {
        self.native.transmit(room, out);
    }

    fn has_output(&self) -> bool {
        self.native.has_output()
    }

    fn send_mark(&self) -> usize {
        self.native.send_mark()
    }

    /// Calls that have crossed the announcement of the drain are still refused for a while. Closing
    /// while they arrive would reset the connection, and the client might lose what it has not read.
    fn after_round(&mut self, now: Duration) -> Flow {
        self.native.settle();
        if self.native.is_ended() {
            return Flow::Close;
        }
        if self.farewell.is_none() && self.native.is_drained() {
            self.farewell = Some(now + limits::DRAIN_LINGER);
        }
        if self.farewell.is_some_and(|until| until <= now) {
            return Flow::CloseWhenSent;
        }
        match self.native.has_deferred() {
            true => Flow::Again,
            false => Flow::Wait(self.farewell),
        }
    }

    fn end_turn(&self) {
        self.native.end_turn();
    }
}

impl Drop for ServerEnd {
    fn drop(&mut self) {
        self.native.close();
    }
}
