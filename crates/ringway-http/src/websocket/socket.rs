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
use ringway_runtime::{now, now_exact, sleep_until, timeout, yield_now};
use ringway_wire::websocket::{
    Arrival, CloseCode, Closing, FrameFault, MessageReader, WebSocketMessage,
};

use super::keepalive::{Due, Keepalive};
use super::peer_limits::WebSocketLimits;
use super::sender::{MessageSending, WebSocketSender};
use crate::body_account::BodyAccount;
use crate::error::{Error, Result};
use crate::limits;
use crate::pace::Pace;
use crate::upgrade::{Received, Upgraded};

/// A WebSocket (RFC 6455): messages both ways until one end closes it.
///
/// A server gets one by [`WebSocketUpgrade`](super::WebSocketUpgrade), a client by
/// [`Client::websocket`](crate::Client::websocket). It answers pings, and pings a silent peer, while
/// a task receives. Messages are compressed only if [both ends](WebSocketLimits::permessage_deflate) want it.
///
/// Dropping it sends the code [`CloseCode::AWAY`] and does not wait for an answer.
pub struct WebSocket {
    connection: Connection,
    sender: WebSocketSender,
    reader: MessageReader,
    received: Received,
    keepalive: Keepalive,
    /// Bytes of the message that is being received.
    pace: Pace,
    account: BodyAccount,
    drain: Option<CancellationToken>,
    /// Whether receiving has ended.
    end: Option<Result>,
    closing: Option<Closing>,
    agreed: Agreed,
}

/// What the handshake has agreed on.
#[derive(Debug, Default)]
pub(crate) struct Agreed {
    pub(crate) protocol: Option<String>,
    /// Whether messages may be compressed.
    pub(crate) deflates: bool,
}

/// Our end of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

/// The event that ended a wait.
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
        agreed: Agreed,
    ) -> Self {
        let Upgraded { connection, received } = upgraded;
        // A peer that does not read our answers is not read either. A client sends for its own purposes.
        connection.set_paced(side == Side::Server);
        let reader = match side {
            Side::Client => MessageReader::of_server(limits.message_bytes_max),
            Side::Server => MessageReader::of_client(limits.message_bytes_max),
        };
        let is_client = side == Side::Client;
        Self {
            sender: WebSocketSender::new(connection.downgrade(), is_client, agreed.deflates),
            reader: if agreed.deflates { reader.with_deflate() } else { reader },
            received,
            keepalive: Keepalive::new(&limits, now()),
            pace: Pace::default(),
            account: BodyAccount::default(),
            drain: connection.drain_token(),
            end: None,
            closing: None,
            agreed,
            connection,
        }
    }

    /// Returns the next message; `None` when the peer has closed the WebSocket or our server drains. Running
    /// work may then still send replies, and the peer is told what ends after it.
    ///
    /// Dropping the future loses no message.
    ///
    /// # Errors
    /// 400 if the peer violates the protocol, 413 if its message is too long, 408 if it arrives too slowly,
    /// 503 if the connection is lost or its [account](Self::account) was given up, 504 if the peer does not answer a ping. Later calls repeat the error.
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
                Ok(None) if self.reader.is_unpacking() => {
                    yield_now().await;
                    if self.account.is_given_up() {
                        self.give_up();
                    }
                }
                Ok(None) => {
                    let waited = self.wait().await;
                    self.note(waited);
                }
                Err(fault) => self.fail(fault),
            }
        }
    }

    /// Queues a message; it is sent at the end of the turn together with the turn's other output. Await the
    /// result to wait for room, or ignore it.
    pub fn send(&self, message: impl Into<WebSocketMessage>) -> MessageSending<'_> {
        self.sender.send(message)
    }

    /// Queues a text, as [`send`](Self::send) does.
    pub fn send_text(&self, text: &str) -> MessageSending<'_> {
        self.sender.send_text(text)
    }

    /// Returns the sending half, for other tasks of this core.
    pub fn sender(&self) -> WebSocketSender {
        self.sender.clone()
    }

    /// Closes the WebSocket with a reason for people, and waits a few seconds until the peer does the
    /// same. Unread messages are lost.
    ///
    /// # Errors
    /// 400 if the code [may not be sent](CloseCode::may_be_sent).
    pub async fn close(&mut self, code: CloseCode, reason: &str) -> Result {
        if !code.may_be_sent() {
            return Err(Error::bad_request(format!("the close code {code} may not be sent")));
        }
        self.finish(code, reason).await;
        Ok(())
    }

    /// Lets [`recv`](Self::recv) go on while our server drains, for a handler that answers late messages until it
    /// ends by itself.
    pub fn outlast_drain(&mut self) {
        self.drain = None;
    }

    /// Returns the account of the memory of an incomplete message.
    pub fn account(&self) -> BodyAccount {
        self.account.clone()
    }

    /// Returns the reason for which the peer has closed the WebSocket.
    pub fn closing(&self) -> Option<&Closing> {
        self.closing.as_ref()
    }

    /// Returns the subprotocol that both ends have agreed on.
    pub fn protocol(&self) -> Option<&str> {
        self.agreed.protocol.as_deref()
    }

    /// Whether messages are compressed where that shortens them: both ends have agreed on it.
    pub fn is_compressed(&self) -> bool {
        self.agreed.deflates
    }

    /// Returns the connection below, for its addresses and session.
    pub fn connection(&self) -> &Peer {
        &self.connection
    }

    /// Ends both directions, and waits until the peer has ended its half.
    pub(super) async fn finish(&mut self, code: CloseCode, reason: &str) {
        self.sender.close(code, reason);
        let has_failed = matches!(self.end, Some(Err(_)));
        self.end.get_or_insert(Ok(()));
        if has_failed {
            // The Close frame gave the reason, and the peer's bytes no longer matter. They are still read:
            // a reset because of unread bytes would overtake the frame.
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
                Ok(None) if self.reader.is_unpacking() => yield_now().await,
                Ok(None) | Err(_) => match self.connection.recv().await {
                    Ok(Some(view)) => self.received.view = Some(view),
                    _ => return,
                },
            }
        }
    }

    /// Takes the item at the front of the received bytes.
    fn next_arrival(&mut self) -> Result<Option<Arrival>, FrameFault> {
        if self.reader.is_unpacking() {
            let arrival = self.reader.next(&mut &[][..]);
            if !matches!(arrival, Ok(None)) || self.reader.is_unpacking() {
                return arrival;
            }
        }
        let Received { early, view } = &mut self.received;
        if !early.is_empty() {
            let mut input = &early[..];
            let arrival = self.reader.next(&mut input);
            early.advance(early.len() - input.len());
            if !matches!(arrival, Ok(None)) || self.reader.is_unpacking() {
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
            // A peer that sends pings without reading gets fewer pongs: the latest pong answers them all.
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

    /// Waits for bytes or another event.
    async fn wait(&mut self) -> Waited {
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
        let deadline = self.deadline(now());
        let unfinished = self.reader.unfinished();
        let _paced = unfinished.map(|bytes| self.pace.waits(bytes as u64));
        let (connection, account) = (&mut self.connection, &self.account);
        let mut alarm = pin!(async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => pending().await,
            }
        });
        poll_fn(|cx| {
            if let Poll::Ready(received) = connection.poll_recv(cx) {
                return Poll::Ready(Waited::Received(received));
            }
            if draining.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Waited::Draining);
            }
            if account.is_given_up() {
                return Poll::Ready(Waited::GivenUp);
            }
            alarm.as_mut().poll(cx).map(|()| Waited::Alarm)
        })
        .await
    }

    /// Returns when the peer must have sent something, either to complete a message or to show that it
    /// lives.
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
            // A ping would wait behind the queue, whose progress the connection watches.
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
