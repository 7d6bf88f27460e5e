//! The end of calls that outlive the drain of their server.

use std::pin::Pin;
use std::rc::Rc;
use std::task::Context;

use ringway_runtime::{Sleep, sleep};
use ringway_wire::native::StreamId;

use super::connection::ServerConnection;
use super::direct::DirectMachine;
use crate::call::status::Status;

/// Fails a call at the deadline of the drain, so that its caller is told.
#[derive(Default)]
pub(super) struct DrainAlarm(Option<Sleep>);

impl DrainAlarm {
    /// Looks whether the server drains. The connection's task is woken when that begins.
    pub(super) fn poll(
        &mut self,
        connection: &Rc<ServerConnection<DirectMachine>>,
        stream: StreamId,
        cx: &mut Context<'_>,
    ) {
        let Some(left) = connection.core().draining() else { return };
        if Pin::new(self.0.get_or_insert_with(|| sleep(left))).poll(cx).is_ready() {
            let text = "the server has shut down before the call was done";
            connection.machine().fail(stream, &Status::unavailable(text));
        }
    }
}
