//! JSON-RPC whose texts another protocol carries: the content of a POST, the messages of a WebSocket.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use ringway_runtime::drop_each;

use super::state::JsonMachine;
use crate::call::context::Site;
use crate::connection::driver::MESSAGE;
use crate::limits;
use crate::server::connection::ServerConnection;
use crate::server::core::ServerCore;

/// The calls of one connection: each text that comes is given to [`take`](Self::take), and the texts of
/// [`poll_text`](Self::poll_text) are to be sent. Calls are cancelled when this is dropped.
pub(crate) struct JsonTexts(Rc<ServerConnection<JsonMachine>>);

impl JsonTexts {
    /// Calls from `site`. Whether texts may come that answer none, as those of subscriptions.
    pub(crate) fn open(core: &Rc<ServerCore>, site: Rc<Site>, has_subscriptions: bool) -> Self {
        let machine = core.json_machine().of_texts(has_subscriptions);
        Self(ServerConnection::open_at(Rc::clone(core), site, 0, machine))
    }

    /// Takes in a text, with metadata for the calls that it makes. Whether there will be a text in answer to it.
    /// What it asks for begins when [`poll_text`](Self::poll_text) is polled.
    pub(crate) fn take(&self, text: &[u8], meta: &[u8]) -> bool {
        self.0.machine().take_text(text, meta)
    }

    /// The next text to send; `None` when no more will come.
    pub(crate) fn poll_text(&self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let connection = &self.0;
        connection.begin_turn(cx.waker());
        connection.begin_deferred();
        let is_failed = connection.has_events() && connection.take_in(None).is_err();
        connection.settle();
        let mut machine = connection.machine();
        machine.confirm_asked();
        let text = machine.output.next_text();
        machine.tell_writable();
        let has_events = machine.has_events_now();
        drop(machine);
        connection.end_turn();
        drop_each(MESSAGE, connection.take_discarded());
        if has_events {
            cx.waker().wake_by_ref();
        }
        match text {
            Some(text) => Poll::Ready(Some(text)),
            None if is_failed || connection.is_ended() || connection.is_drained() => {
                Poll::Ready(None)
            }
            None => Poll::Pending,
        }
    }

    /// Whether so much waits to be sent that no more is to be taken in.
    pub(crate) fn is_full(&self) -> bool {
        self.0.is_full()
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        !self.0.has_events() && self.0.machine().is_idle()
    }

    /// Takes in a text and waits for its answer; `None` if it has none. Its calls are cancelled if that is not
    /// awaited. One text at a time.
    pub(crate) async fn ask(&self, text: &[u8], meta: &[u8]) -> Option<Bytes> {
        let mut asked = Asked { texts: self, is_done: !self.take(text, meta) };
        poll_fn(|cx| {
            let polled = self.poll_text(cx);
            if asked.is_done {
                return Poll::Ready(None); // notifications have begun
            }
            let text = ready!(polled);
            asked.is_done = true;
            Poll::Ready(text)
        })
        .await
    }
}

impl Drop for JsonTexts {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A text that was taken in.
struct Asked<'a> {
    texts: &'a JsonTexts,
    is_done: bool,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let connection = &self.texts.0;
        connection.machine().cancel_all();
        if connection.has_events() {
            let _ended_already = connection.take_in(None);
        }
        drop_each(MESSAGE, connection.take_discarded());
    }
}

const _: () = assert!(limits::JSONRPC_SUBSCRIPTION_ROOM < limits::UNSENT_REPLIES_MAX);
