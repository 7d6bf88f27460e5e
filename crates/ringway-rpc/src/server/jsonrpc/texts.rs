//! JSON-RPC whose texts another protocol carries: the content of a POST, the messages of a WebSocket.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use ringway_http::BodyAccount;
use ringway_runtime::{Sleep, drop_each};

use super::state::JsonMachine;
use super::violation::JsonViolation;
use crate::call::context::Site;
use crate::connection::driver::MESSAGE;
use crate::limits;
use crate::server::connection::ServerConnection;
use crate::server::core::ServerCore;
use crate::server::machine::Machine;

/// The calls of one connection: each text that comes is given to [`take`](Self::take), and the texts of
/// [`poll_text`](Self::poll_text) are to be sent. Calls are cancelled when this is dropped.
pub(crate) struct JsonTexts {
    calls: Rc<ServerConnection<JsonMachine>>,
    /// When something is due: the end of a drain, or of the connection's age.
    alarm: Cell<Option<(Duration, Sleep)>>,
}

/// The server has ended the connection because it is short of memory.
#[derive(Debug)]
pub(crate) struct GivenUp;

impl JsonTexts {
    /// Calls from `site`. Whether texts may come that answer none, as those of subscriptions.
    pub(crate) fn open(core: &Rc<ServerCore>, site: Rc<Site>, has_subscriptions: bool) -> Self {
        let machine = core.json_machine().of_texts(has_subscriptions);
        let calls = ServerConnection::open_part(Rc::clone(core), site, machine);
        Self { calls, alarm: Cell::default() }
    }

    /// Has what is kept of a text that is not whole counted, and given up for memory.
    pub(crate) fn carry(&self, account: BodyAccount) {
        self.calls.machine().carried = account;
    }

    /// Counts it anew.
    pub(crate) fn settle(&self) {
        self.calls.settle();
    }

    /// Takes in a text, with metadata for the calls that it makes. Whether there will be a text in answer to it.
    /// What it asks for begins when [`poll_text`](Self::poll_text) is polled.
    pub(crate) fn take(&self, text: &[u8], meta: &Bytes) -> bool {
        self.calls.machine().take_text(text, meta)
    }

    /// The next text to send, if there `is_room` for it; `None` when no more will come. The calls go on without
    /// room, too.
    pub(crate) fn poll_text(
        &self,
        cx: &mut Context<'_>,
        is_room: bool,
    ) -> Poll<Result<Option<Bytes>, GivenUp>> {
        let connection = &self.calls;
        connection.begin_turn(cx.waker());
        connection.begin_deferred();
        let is_overdue = self.handle_timeout(cx).is_err();
        let is_failed = is_overdue || connection.has_events() && connection.take_in(None).is_err();
        connection.settle();
        let mut machine = connection.machine();
        machine.confirm_asked();
        let text = if is_room { machine.output.next_text() } else { None };
        machine.tell_writable();
        let has_events = machine.has_events_now();
        drop(machine);
        connection.end_turn();
        drop_each(MESSAGE, connection.take_discarded());
        if has_events {
            cx.waker().wake_by_ref();
        }
        match text {
            Some(text) => Poll::Ready(Ok(Some(text))),
            None if is_failed || connection.is_ended() => Poll::Ready(Err(GivenUp)),
            None if is_room && connection.is_drained() => Poll::Ready(Ok(None)),
            None => {
                self.set_alarm(cx);
                Poll::Pending
            }
        }
    }

    /// Does what is due.
    fn handle_timeout(&self, cx: &mut Context<'_>) -> Result<(), JsonViolation> {
        let (connection, now) = (&self.calls, self.calls.core().now());
        if connection.next_timeout().is_none_or(|at| at > now) {
            return Ok(());
        }
        cx.waker().wake_by_ref(); // to look for the next one
        connection.handle_timeout(now)
    }

    /// Has the task woken when something will be due. A text that is answered at once needs no alarm.
    fn set_alarm(&self, cx: &mut Context<'_>) {
        let connection = &self.calls;
        let former = self.alarm.take();
        let Some(at) = connection.next_timeout() else { return };
        let former = former.filter(|(set_to, _)| *set_to == at);
        let (_, mut sleep) = former.unwrap_or_else(|| (at, connection.core().sleep_until(at)));
        match Pin::new(&mut sleep).poll(cx) {
            Poll::Pending => self.alarm.set(Some((at, sleep))),
            Poll::Ready(()) => cx.waker().wake_by_ref(),
        }
    }

    /// Whether so much waits to be sent that no more is to be taken in.
    pub(crate) fn is_full(&self) -> bool {
        self.calls.is_full()
    }

    /// How many calls are under way or waiting to be.
    pub(crate) fn len(&self) -> usize {
        self.calls.machine().in_flight()
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        !self.calls.has_events() && self.calls.machine().is_idle()
    }

    /// Whether no more texts are to be taken in: the connection has reached its age.
    pub(crate) fn is_retired(&self) -> bool {
        self.calls.is_retired()
    }

    /// Waits for the answer to a text that has one; `None` if the server ends first. One text at a time.
    pub(crate) async fn answer(&self) -> Result<Option<Bytes>, GivenUp> {
        poll_fn(|cx| self.poll_text(cx, true)).await
    }

    /// Waits until what was taken in is carried out. Nothing of it is answered.
    pub(crate) async fn rest(&self) -> Result<(), GivenUp> {
        let rest = poll_fn(|cx| match self.poll_text(cx, true) {
            Poll::Pending if self.is_idle() => Poll::Ready(Ok(None)),
            polled => polled,
        });
        rest.await.map(|_nothing| ())
    }
}

impl Drop for JsonTexts {
    fn drop(&mut self) {
        self.calls.close();
    }
}

const _: () = assert!(limits::JSONRPC_SUBSCRIPTION_ROOM < limits::UNSENT_REPLIES_MAX);
