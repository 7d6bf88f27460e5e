//! The end of calls that outlive the drain of their server, or the age of their connection.

use std::pin::Pin;
use std::rc::Rc;
use std::task::Context;
use std::time::Duration;

use ringway_runtime::Sleep;
use ringway_wire::native::StreamId;

use super::connection::ServerConnection;
use super::direct::DirectMachine;
use crate::call::status::Status;

/// Fails a call when its time is over, so that its caller is told.
#[derive(Default)]
pub(super) struct DrainAlarm(Option<(Duration, Sleep)>);

impl DrainAlarm {
    /// Looks whether the call has to end. The connection's task is woken when the server begins to drain.
    pub(super) fn poll(
        &mut self,
        connection: &Rc<ServerConnection<DirectMachine>>,
        stream: StreamId,
        cx: &mut Context<'_>,
    ) {
        let core = connection.core();
        let Some(at) = connection.calls_end_at() else { return };
        let former = self.0.take().filter(|(set_to, _)| *set_to == at);
        let (_, sleep) = self.0.insert(former.unwrap_or_else(|| (at, core.sleep_until(at))));
        if at > core.now() && Pin::new(sleep).poll(cx).is_pending() {
            return;
        }
        let text = match core.draining() {
            Some(_) => "the server has shut down before the call was done",
            None => "the connection has reached its age before the call was done",
        };
        // Those that wait for their turn were not executed, and are told so.
        connection.refuse_waiting();
        connection.machine().fail(stream, &Status::unavailable(text));
    }
}
