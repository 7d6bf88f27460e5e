//! One end of a WebSocket.

use std::fmt;
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Instant;

use bytes::Buf;
use http::StatusCode;
use ringway_net::{Connection, Peer, View};
use ringway_runtime::sync::CancellationToken;
use ringway_runtime::{now, now_exact, sleep_until, timeout};
use ringway_wire::websocket::{
    Arrival, CloseCode, Closing, FrameFault, MessageReader, WebSocketMessage,
};

use super::keepalive::{Due, Keepalive};
use super::peer_limits::WebSocketLimits;
use super::sender::{MessageSending, WebSocketSender};
use crate::body::Pace;
use crate::body_account::BodyAccount;
use crate::error::{Error, Result};
use crate::limits;
use crate::upgrade::{Received, Upgraded};

/// A WebSocket (RFC 6455): messages both ways, until one end closes it.
///
/// A server gets one by [`WebSocketUpgrade`](super::WebSocketUpgrade), a client by
/// [`Client::websocket`](crate::Client::websocket). Pings are answered, and silent peers pinged, while
/// somebody receives. No extension is used: messages are not compressed.
///
/// Dropping it tells the peer that we go away ([`CloseCode::AWAY`]), and waits for no answer.
pub struct WebSocket {
    connection: Connection,
    sender: WebSocketSender,
    reader: MessageReader,
    received: Received,
    keepalive: Keepalive,
    /// Of the message that is being received.
    pace: Pace,
    account: BodyAccount,
    drain: Option<CancellationToken>,
    /// Nothing more is received.
    end: Option<Result>,
    closing: Option<Closing>,
    protocol: Option<String>,
}

/// Which end of a connection is ours.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

/// What has ended a wait.
enum Waited {
    Received(ringway_net::Result<Option<View>>),
    Draining,
    GivenUp,
    Alarm,
}

impl WebSocket {
    pub(crate) fn new(
        side: Side,
        upgraded: Upgraded,
        limits: WebSocketLimits,
        protocol: Option<String>,
    ) -> Self {
        let Upgraded { connection, received } = upgraded;
        // Who does not read our answers is not read either. Clients send on their own account.
        connection.set_paced(side == Side::Server);
        let reader = match side {
            Side::Client => MessageReader::of_server(limits.message_bytes_max),
            Side::Server => MessageReader::of_client(limits.message_bytes_max),
        };
        Self {
            sender: WebSocketSender::new(connection.downgrade(), side == Side::Client),
            reader,
            received,
            keepalive: Keepalive::new(&limits, now()),
            pace: Pace::default(),
            account: BodyAccount::default(),
            drain: connection.drain_token(),
            end: None,
            closing: None,
            protocol,
            connection,
        }
    }

    /// The next message; `None` when the peer has closed the WebSocket, or our server drains: then running
    /// work may still be answered, and what ends behind it is told the peer.
    ///
    /// Dropping the future loses nothing.
    ///
    /// # Errors
    /// 400 when the peer breaks the protocol, 413 when its message is too long, 408 when it comes too slowly,
    /// 503 when the connection is lost or its [account](Self::account) was given up, 504 when the peer does not answer a ping. Every later call repeats it.
    pub async fn recv(&mut self) -> Result<Option<WebSocketMessage>> {
        loop {
            if let Some(end) = &self.end {
                return end.clone().map(|()| None);
            }
            let arrival = self.next_arrival();
            self.account.set(self.reader.unfinished().unwrap_or_default());
            match arrival {
                Ok(Some(Arrival::Message(message))) => {
                    self.pace = Pace::default();
                    return Ok(Some(message));
                }
                Ok(Some(control)) => self.take_control(control),
                Ok(None) => {
                    let waited = self.wait().await;
                    self.note(waited);
                }
                Err(fault) => self.fail(fault),
            }
        }
    }

    /// Queues a message; it leaves at the end of the turn, with all that the turn has queued. Await the
    /// answer to wait for room, or ignore it.
    pub fn send(&self, message: impl Into<WebSocketMessage>) -> MessageSending<'_> {
        self.sender.send(message)
    }

    /// Queues a text, as [`send`](Self::send) does.
    pub fn send_text(&self, text: &str) -> MessageSending<'_> {
        self.sender.send_text(text)
    }

    /// The sending half, for other tasks of this core.
    pub fn sender(&self) -> WebSocketSender {
        self.sender.clone()
    }

    /// Closes the WebSocket, for a reason that people may read, and waits a few seconds for the peer to do the
    /// same. What it has sent before is lost.
    ///
    /// # Errors
    /// 400 when the code [may not be sent](CloseCode::may_be_sent).
    pub async fn close(&mut self, code: CloseCode, reason: &str) -> Result {
        if !code.may_be_sent() {
            return Err(Error::bad_request(format!("the close code {code} may not be sent")));
        }
        self.finish(code, reason).await;
        Ok(())
    }

    /// The account of what is kept of a message that is not whole yet.
    pub fn account(&self) -> BodyAccount {
        self.account.clone()
    }

    /// Why the peer has closed the WebSocket, once it has.
    pub fn closing(&self) -> Option<&Closing> {
        self.closing.as_ref()
    }

    /// The protocol inside that both ends have agreed on.
    pub fn protocol(&self) -> Option<&str> {
        self.protocol.as_deref()
    }

    /// The connection underneath, for its addresses and session.
    pub fn connection(&self) -> &Peer {
        &self.connection
    }

    /// Ends what has not ended, and waits for the peer to end its half.
    pub(super) async fn finish(&mut self, code: CloseCode, reason: &str) {
        self.sender.close(code, reason);
        let has_failed = matches!(self.end, Some(Err(_)));
        self.end.get_or_insert(Ok(()));
        if has_failed {
            // The Close frame has told why, and the peer's bytes mean nothing any more. They are taken all the
            // same: a reset for unread bytes would overtake the frame.
            self.connection.shutdown();
        }
        let _or_not = timeout(limits::CLOSE_WAIT, self.closed_by_peer(has_failed)).await;
        self.connection.shutdown();
    }

    async fn closed_by_peer(&mut self, has_failed: bool) {
        while self.closing.is_none() {
            match self.next_arrival() {
                Ok(Some(Arrival::Close(closing))) => self.closing = Some(closing),
                Ok(Some(_)) => {}
                Err(_) if !has_failed => return,
                Ok(None) | Err(_) => match self.connection.recv().await {
                    Ok(Some(view)) => self.received.view = Some(view),
                    _ => return,
                },
            }
        }
    }

    /// What stands at the front of the bytes received, which are taken up to its end.
    fn next_arrival(&mut self) -> Result<Option<Arrival>, FrameFault> {
        let Received { early, view } = &mut self.received;
        if !early.is_empty() {
            let mut input = &early[..];
            let arrival = self.reader.next(&mut input);
            early.advance(early.len() - input.len());
            if !matches!(arrival, Ok(None)) {
                return arrival;
            }
        }
        let Some(bytes) = view else { return Ok(None) };
        let mut input = &bytes[..];
        let arrival = self.reader.next(&mut input);
        match input.len() {
            0 => *view = None,
            left => bytes.advance(bytes.len() - left),
        }
        arrival
    }

    fn take_control(&mut self, control: Arrival) {
        match control {
            // A peer that sends pings and reads no pongs gets fewer: the latest pong answers them all.
            Arrival::Ping(payload) => {
                if self.connection.queued_bytes() < limits::PONG_QUEUE_MAX {
                    self.sender.pong(&payload);
                }
            }
            Arrival::Close(closing) => {
                self.sender.close(closing.code, "");
                self.closing = Some(closing);
                self.end = Some(Ok(()));
            }
            Arrival::Pong(_) | Arrival::Message(_) => {}
        }
    }

    /// Waits for bytes, or until something else is to be done.
    async fn wait(&mut self) -> Waited {
        let began = now();
        let drain = self.drain.clone();
        if drain.as_ref().is_some_and(CancellationToken::is_cancelled) {
            return Waited::Draining;
        }
        let mut draining = pin!(async {
            match &drain {
                Some(drain) => drain.cancelled().await,
                None => pending().await,
            }
        });
        let deadline = self.deadline(began);
        let mut alarm = pin!(async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => pending().await,
            }
        });
        let waited = poll_fn(|cx| {
            if let Poll::Ready(received) = self.connection.poll_recv(cx) {
                return Poll::Ready(Waited::Received(received));
            }
            if draining.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Waited::Draining);
            }
            if self.account.is_given_up() {
                return Poll::Ready(Waited::GivenUp);
            }
            alarm.as_mut().poll(cx).map(|()| Waited::Alarm)
        });
        let waited = waited.await;
        if let Some(bytes) = self.reader.unfinished() {
            self.pace.note(now_exact().saturating_duration_since(began), bytes as u64);
        }
        waited
    }

    /// When the peer has to have sent something, for a message of which a part is there or for being there
    /// itself.
    fn deadline(&self, now: Instant) -> Option<Instant> {
        let whole = self.reader.unfinished().and_then(|_| now.checked_add(self.pace.left()));
        self.keepalive.deadline().into_iter().chain(whole).min()
    }

    fn note(&mut self, waited: Waited) {
        match waited {
            Waited::Received(Ok(Some(view))) => {
                self.keepalive.note_sign(now());
                self.received.view = Some(view);
            }
            Waited::Received(Ok(None)) => self.lose("the peer has gone without a Close frame"),
            Waited::Received(Err(error)) => self.lose(error),
            Waited::Draining => self.end = Some(Ok(())),
            Waited::GivenUp => self.give_up(),
            Waited::Alarm => self.on_alarm(),
        }
    }

    fn on_alarm(&mut self) {
        let now = now_exact();
        if self.reader.unfinished().is_some() && self.pace.is_too_slow() {
            let why = "the message came too slowly";
            self.sender.close(CloseCode::POLICY, why);
            self.end = Some(Err(Error::new(StatusCode::REQUEST_TIMEOUT, why)));
            return;
        }
        if self.connection.queued_bytes() > 0 {
            // A ping would wait behind them. Whether they make progress is watched by the connection.
            return self.keepalive.note_sign(now);
        }
        match self.keepalive.due(now) {
            Due::Nothing => {}
            Due::Ping => self.sender.ping(),
            Due::Gone => {
                self.sender.end();
                self.connection.abort();
                self.end = Some(Err(Error::timeout("the peer has not answered a ping")));
            }
        }
    }

    fn fail(&mut self, fault: FrameFault) {
        tracing::debug!(%fault, "a WebSocket is closed: its peer breaks the protocol");
        self.sender.close(fault.code(), &fault.to_string());
        let status = match fault {
            FrameFault::TooLong { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            _ => StatusCode::BAD_REQUEST,
        };
        self.end = Some(Err(Error::new(status, fault.to_string())));
    }

    fn give_up(&mut self) {
        let why = "the server is short of memory";
        self.sender.close(CloseCode::TRY_AGAIN, why);
        self.reader = MessageReader::of_client(0); // nothing is taken any more
        self.end = Some(Err(Error::unavailable(why)));
    }

    fn lose(&mut self, why: impl fmt::Display) {
        self.sender.end();
        self.end = Some(Err(Error::unavailable(format!("the WebSocket was lost: {why}"))));
    }
}

impl Drop for WebSocket {
    fn drop(&mut self) {
        self.sender.close(CloseCode::AWAY, "");
    }
}

impl fmt::Debug for WebSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WebSocket").field(&self.connection).finish()
    }
}
