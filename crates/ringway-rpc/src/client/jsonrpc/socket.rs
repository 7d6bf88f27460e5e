//! Texts as messages of a WebSocket (RFC 6455), which begins as a request of HTTP.

use httparse::{EMPTY_HEADER, Header, Status};
use ringway_http::ClientSecrets;
use ringway_wire::websocket::{
    Arrival, CloseCode, Closing, MessageReader, WebSocketMessage, put_close, put_pong, put_text,
};

use super::carrier::TextCarrier;
use super::state::JsonClient;
use super::violation::JsonServerViolation;
use crate::limits;

/// One end of a WebSocket.
#[derive(Debug)]
pub(super) struct Socket {
    secrets: ClientSecrets,
    phase: SocketPhase,
    /// The front of the answer to the handshake.
    part: Vec<u8>,
    reader: MessageReader,
    /// Whether a text has come: the answer to the first ping.
    is_answered: bool,
    /// Memory to write texts with.
    text: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SocketPhase {
    /// The handshake is not answered.
    Asked,
    Open,
    /// A Close frame was written: nothing may follow it.
    Closing,
}

/// What a server has sent.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum SocketNews<'i> {
    /// Texts may be sent.
    Opened,
    /// A text that lies whole in the input.
    Text(&'i str),
    /// One that was put together.
    GatheredText(String),
    Ping(Vec<u8>),
    Closed(Closing),
}

impl Socket {
    pub(super) fn new(text_max: usize) -> Self {
        Self {
            secrets: ClientSecrets::new(),
            phase: SocketPhase::Asked,
            part: Vec::new(),
            reader: MessageReader::of_server(text_max),
            is_answered: false,
            text: Vec::new(),
        }
    }

    /// The request that asks for it.
    pub(super) fn request(&self, authority: &str, path: &str) -> Vec<u8> {
        let key = self.secrets.key();
        format!(
            "GET {path} HTTP/1.1\r\nhost: {authority}\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: {key}\r\n\r\n"
        )
        .into_bytes()
    }

    pub(super) fn is_open(&self) -> bool {
        self.phase == SocketPhase::Open
    }

    /// Whether it takes calls: the server has shown that it speaks JSON-RPC, and whether it is one of ours.
    pub(super) fn takes_calls(&self) -> bool {
        self.is_open() && self.is_answered
    }

    /// Appends a text as a message, unless it is not open.
    pub(super) fn put(&mut self, write: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
        if !self.is_open() {
            return;
        }
        self.text.clear();
        write(&mut self.text);
        put_text(&String::from_utf8_lossy(&self.text), Some(self.secrets.next_mask()), out);
        self.text.shrink_to(limits::CLIENT_SCRATCH_BYTES_KEPT);
    }

    /// Takes the next thing off the front of `input`, or all of `input` if nothing is whole.
    ///
    /// # Errors
    /// When the server refuses, or breaks the protocol.
    #[inline]
    pub(super) fn next<'i>(
        &mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<SocketNews<'i>>, JsonServerViolation> {
        if let SocketPhase::Asked = self.phase {
            return self.take_head(input);
        }
        if let Some(text) = self.reader.next_in_place(input) {
            self.is_answered = true;
            return Ok(Some(SocketNews::Text(text)));
        }
        match self.reader.next(input).map_err(JsonServerViolation::Frame)? {
            Some(Arrival::Message(WebSocketMessage::Text(text))) => {
                self.is_answered = true;
                Ok(Some(SocketNews::GatheredText(text)))
            }
            Some(Arrival::Message(_)) => Err(JsonServerViolation::NotText),
            Some(Arrival::Ping(payload)) => Ok(Some(SocketNews::Ping(payload))),
            Some(Arrival::Close(closing)) => Ok(Some(SocketNews::Closed(closing))),
            Some(Arrival::Pong(_)) | None => Ok(None),
        }
    }

    /// Reads the answer to the handshake.
    fn take_head<'i>(
        &mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<SocketNews<'i>>, JsonServerViolation> {
        let before = self.part.len();
        self.part.extend_from_slice(input);
        let Some(len) = check_head(&self.part, &self.secrets)? else {
            *input = &[];
            return match self.part.len() > limits::JSONRPC_HTTP_HEAD_BYTES {
                true => Err(refused("the head of its answer is too long")),
                false => Ok(None),
            };
        };
        *input = &input[len - before..];
        (self.part, self.phase) = (Vec::new(), SocketPhase::Open);
        Ok(Some(SocketNews::Opened))
    }
}

impl JsonClient {
    pub(super) fn take_news(&mut self, news: SocketNews<'_>) {
        match news {
            SocketNews::Opened => self.ping(),
            SocketNews::Text(text) => self.take_text(text.as_bytes()),
            SocketNews::GatheredText(text) => self.take_text(text.as_bytes()),
            SocketNews::Ping(payload) => {
                let TextCarrier::Socket(socket) = &self.carrier else { return };
                // A server that sends pings and reads no pongs gets fewer: the latest one answers all.
                if socket.is_open() && self.out.len() - self.sent < limits::JSONRPC_PONG_ROOM {
                    put_pong(&payload, Some(socket.secrets.next_mask()), &mut self.out);
                }
            }
            SocketNews::Closed(Closing { code, reason }) => {
                self.close_socket(code);
                self.failed = Some(JsonServerViolation::Closed { code, reason });
            }
        }
    }

    /// Whether the server was told that its WebSocket ends.
    pub(in crate::client) fn has_closed_socket(&self) -> bool {
        matches!(&self.carrier, TextCarrier::Socket(socket) if socket.phase == SocketPhase::Closing)
    }

    /// Tells the server once that a WebSocket ends. Returns whether it does so now.
    pub(in crate::client) fn close_socket(&mut self, code: CloseCode) -> bool {
        let TextCarrier::Socket(socket) = &mut self.carrier else { return false };
        if !socket.is_open() {
            return false;
        }
        put_close(code, "", Some(socket.secrets.next_mask()), &mut self.out);
        socket.phase = SocketPhase::Closing;
        true
    }
}

/// The length of the head at the front of `bytes`; `None` if it is not whole.
fn check_head(bytes: &[u8], secrets: &ClientSecrets) -> Result<Option<usize>, JsonServerViolation> {
    let mut begin = 0;
    loop {
        let mut fields = [EMPTY_HEADER; limits::JSONRPC_HTTP_FIELDS];
        let mut response = httparse::Response::new(&mut fields);
        begin += match response.parse(&bytes[begin..]) {
            Ok(Status::Complete(len)) => len,
            Ok(Status::Partial) => return Ok(None),
            Err(error) => return Err(refused(&error.to_string())),
        };
        match response.code.unwrap_or_default() {
            101 => {}
            100..200 => continue, // interim; the bytes bound how many
            status => return Err(refused(&format!("it answered with HTTP status {status}"))),
        }
        let is_right = has_token(response.headers, "upgrade", "websocket")
            && has_token(response.headers, "connection", "upgrade")
            && values(response.headers, "sec-websocket-accept")
                .any(|accept| secrets.is_answered_by(accept));
        if !is_right {
            return Err(refused("it answered another handshake"));
        }
        let unasked = ["sec-websocket-extensions", "sec-websocket-protocol"];
        if let Some(name) = unasked.iter().find(|name| values(response.headers, name).any(|_| true))
        {
            return Err(refused(&format!("its {name} was not asked for")));
        }
        return Ok(Some(begin));
    }
}

fn values<'h>(fields: &'h [Header<'h>], name: &str) -> impl Iterator<Item = &'h [u8]> {
    let named = fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
    named.map(|field| field.value.trim_ascii())
}

fn has_token(fields: &[Header<'_>], name: &str, token: &str) -> bool {
    let tokens = values(fields, name).flat_map(|value| value.split(|byte| *byte == b','));
    tokens.map(<[u8]>::trim_ascii).any(|found| found.eq_ignore_ascii_case(token.as_bytes()))
}

#[cold]
fn refused(why: &str) -> JsonServerViolation {
    JsonServerViolation::NoWebSocket(why.to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ringway_wire::websocket::put_ping;

    use super::super::JsonClientConfig;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A client whose WebSocket was opened at the beginning.
    fn opened() -> JsonClient {
        let config = JsonClientConfig {
            text_max: 1 << 20,
            ping_after: 10 * SECOND,
            ping_timeout: 2 * SECOND,
        };
        let mut client = JsonClient::by_socket(config, "a:1", "/", Duration::ZERO);
        let TextCarrier::Socket(socket) = &mut client.carrier else { panic!("a socket") };
        socket.phase = SocketPhase::Open;
        client.take_news(SocketNews::Opened);
        client
    }

    fn receive(client: &mut JsonClient, mut input: &[u8], now: Duration) {
        assert!(matches!(client.next_event(&mut input, now), Ok(None)) && input.is_empty());
    }

    #[test]
    fn server_that_answers_its_pings_is_kept() {
        let mut client = opened();
        let mut answer = Vec::new();
        put_text(r#"{"jsonrpc":"2.0","id":0,"result":true}"#, None, &mut answer);
        let mut now = Duration::ZERO;
        for _ in 0..3 {
            now += SECOND;
            receive(&mut client, &answer, now);
            assert_eq!(client.next_deadline(), now + 10 * SECOND, "it is asked again then");
            now += 10 * SECOND;
            assert_eq!(client.handle_timeout(now), Ok(()));
            assert_eq!(client.next_deadline(), now + 2 * SECOND, "it has so long to answer");
        }
        assert_eq!(client.handle_timeout(now + 2 * SECOND), Err(JsonServerViolation::Silent));
    }

    #[test]
    fn server_that_has_never_sent_a_text_is_not_kept_by_other_frames() {
        let mut client = opened();
        let mut ping = Vec::new();
        put_ping(b"", None, &mut ping);
        receive(&mut client, &ping, SECOND);
        assert_eq!(client.handle_timeout(2 * SECOND), Err(JsonServerViolation::Silent));
    }
}
