//! Sends messages from any task of the core.

use std::cell::Cell;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use ringway_net::{Peer, Pressure, WeakPeer};
use ringway_wire::websocket::{
    CloseCode, DataKind, WebSocketMessage, put_binary, put_close, put_deflated, put_head, put_ping,
    put_pong, put_text,
};

use super::masks::Masks;
use crate::error::{Error, Result};
use crate::limits;

/// The sending half of a [`WebSocket`](super::WebSocket), for any task of its core; cheap to clone. It does
/// not keep the connection open.
#[derive(Clone)]
pub struct WebSocketSender {
    peer: WeakPeer,
    state: Rc<SendState>,
}

struct SendState {
    /// Present on a client.
    masks: Option<Masks>,
    /// Whether messages may be compressed.
    deflates: bool,
    /// Whether a Close frame was sent: nothing may follow it.
    is_closing: Cell<bool>,
}

thread_local! {
    /// Memory for writing frames.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl WebSocketSender {
    pub(super) fn new(peer: WeakPeer, is_client: bool, deflates: bool) -> Self {
        let (masks, is_closing) = (is_client.then(Masks::new), Cell::new(false));
        Self { peer, state: Rc::new(SendState { masks, deflates, is_closing }) }
    }

    /// Queues a message; it is sent at the end of the turn together with the turn's other output. Await the
    /// result to wait for room, or ignore it.
    pub fn send(&self, message: impl Into<WebSocketMessage>) -> MessageSending<'_> {
        let message = message.into();
        if self.state.deflates {
            let kind = message.as_text().map_or(DataKind::Binary, |_| DataKind::Text);
            return self.deflate(kind, message.as_bytes());
        }
        let (kind, bytes) = match message {
            WebSocketMessage::Text(text) if self.copies(text.len()) => {
                return self.send_text(&text);
            }
            WebSocketMessage::Text(text) => (DataKind::Text, Bytes::from(text)),
            WebSocketMessage::Binary(bytes) if self.copies(bytes.len()) => {
                return self.queue(|mask, out| put_binary(&bytes, mask, out));
            }
            WebSocketMessage::Binary(bytes) => (DataKind::Binary, bytes),
        };
        let head = self.queue(|_, out| put_head(kind, bytes.len(), out)).pressure;
        let pressure = match (head, self.peer.upgrade()) {
            (Pressure::Closed, _) | (_, None) => Pressure::Closed,
            (_, Some(peer)) => peer.send(bytes).pressure(),
        };
        MessageSending { sender: self, pressure }
    }

    /// Queues a text, as [`send`](Self::send) does.
    pub fn send_text(&self, text: &str) -> MessageSending<'_> {
        if self.state.deflates {
            return self.deflate(DataKind::Text, text.as_bytes());
        }
        self.queue(|mask, out| put_text(text, mask, out))
    }

    /// Waits until the send queue is below its marks.
    ///
    /// # Errors
    /// 503 if the connection is closed or lost.
    pub async fn ready(&self) -> Result {
        MessageSending { sender: self, pressure: Pressure::High }.await
    }

    /// Whether sending is no longer possible.
    pub fn is_closed(&self) -> bool {
        self.state.is_closing.get() || self.peer.upgrade().is_none()
    }

    pub(super) fn ping(&self) {
        self.queue(|mask, out| put_ping(&[], mask, out));
    }

    pub(super) fn pong(&self, payload: &[u8]) {
        self.queue(|mask, out| put_pong(payload, mask, out));
    }

    /// Queues a Close frame on the first call.
    pub(super) fn close(&self, code: CloseCode, reason: &str) {
        self.queue(|mask, out| put_close(code, reason, mask, out));
        self.state.is_closing.set(true);
    }

    /// Stops sending: nobody reads it.
    pub(super) fn end(&self) {
        self.state.is_closing.set(true);
    }

    /// Whether a message is short enough to be copied behind its head; a client's messages are always copied, to be
    /// masked.
    fn copies(&self, len: usize) -> bool {
        len < limits::MESSAGE_BYTES_MOVED || self.state.masks.is_some()
    }

    /// Queues a message, compressed where that shortens it.
    fn deflate(&self, kind: DataKind, payload: &[u8]) -> MessageSending<'_> {
        self.queue(|mask, out| put_deflated(kind, payload, mask, out))
    }

    fn queue(&self, put: impl FnOnce(Option<[u8; 4]>, &mut Vec<u8>)) -> MessageSending<'_> {
        let closed = MessageSending { sender: self, pressure: Pressure::Closed };
        if self.state.is_closing.get() {
            return closed;
        }
        let Some(peer) = self.peer.upgrade() else { return closed };
        let mut frame = SCRATCH.take();
        put(self.state.masks.as_ref().map(Masks::next), &mut frame);
        let pressure = write(&peer, &mut frame);
        SCRATCH.set(frame);
        MessageSending { sender: self, pressure }
    }
}

/// Queues a frame; its memory is reused for the next one, unless it is large.
fn write(peer: &Peer, frame: &mut Vec<u8>) -> Pressure {
    if frame.capacity() > limits::SCRATCH_BYTES_KEPT {
        return peer.send(Bytes::from(std::mem::take(frame))).pressure();
    }
    let pressure = peer.write(frame).pressure();
    frame.clear();
    pressure
}

impl fmt::Debug for WebSocketSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WebSocketSender").field(&self.peer).finish()
    }
}

/// The result of [`WebSocketSender::send`]. The message is already queued; awaiting the result waits until the send
/// queue is below its marks.
pub struct MessageSending<'a> {
    sender: &'a WebSocketSender,
    pressure: Pressure,
}

impl MessageSending<'_> {
    /// Returns the fill level of the send queue now; `Closed` if the message was rejected.
    pub fn pressure(&self) -> Pressure {
        self.pressure
    }
}

impl Future for MessageSending<'_> {
    type Output = Result;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result> {
        let closed = || Error::unavailable("the WebSocket is closed");
        match (self.pressure, self.sender.peer.upgrade()) {
            (Pressure::Low, _) => Poll::Ready(Ok(())),
            (Pressure::High, Some(peer)) => peer.poll_drained(cx).map_err(|_| closed()),
            (Pressure::Closed, _) | (_, None) => Poll::Ready(Err(closed())),
        }
    }
}

impl fmt::Debug for MessageSending<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MessageSending({:?})", self.pressure)
    }
}
