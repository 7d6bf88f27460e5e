//! A server, and a socket that says what it is told to.

#[path = "../../../ringway-wire/tests/suite/support/alone.rs"]
pub(crate) mod alone;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use ringway_http::{HttpLimits, Router, WebSocketMessage, serve_with};
use ringway_net::{Server, ServerHandle};
use ringway_wire::websocket::{Arrival, Closing, MessageReader, put_binary, put_close, put_text};

/// Longer than anything takes that works.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct Running {
    handle: ServerHandle,
    address: String,
}

impl Running {
    pub(crate) fn start(router: Router) -> Self {
        Self::within(router, HttpLimits::default())
    }

    pub(crate) fn within(router: Router, limits: HttpLimits) -> Self {
        let server = Server::bind("tcp://127.0.0.1:0").expect("an address");
        Self::of(server, router, limits)
    }

    pub(crate) fn of(server: Server, router: Router, limits: HttpLimits) -> Self {
        let server = server.threads(1);
        let handle = server.start(serve_with(router, limits)).expect("the server starts");
        let address = handle.addresses()[0].to_string();
        let address = address.rsplit('/').next().expect("behind the scheme").to_owned();
        Self { handle, address }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let socket = TcpStream::connect(&*self.address).expect("the server listens");
        socket.set_read_timeout(Some(LIMIT)).expect("a timeout");
        socket.set_write_timeout(Some(LIMIT)).expect("a timeout");
        socket
    }

    /// What the server answers to these bytes until it closes, which it does as nothing follows.
    pub(crate) fn tell(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut socket = self.connect();
        // A server that refuses early resets what comes later.
        let _refused = socket.write_all(bytes.as_ref());
        let _gone = socket.shutdown(Shutdown::Write);
        read_to_end(&mut socket)
    }

    pub(crate) fn handle(&self) -> &ServerHandle {
        &self.handle
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.shutdown();
        self.handle.wait().expect("the server ends well");
    }
}

pub(crate) fn read_to_end(socket: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    match socket.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        Err(error) => panic!("{error} after {}", String::from_utf8_lossy(&bytes)),
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads until `end` has come.
pub(crate) fn read_until(socket: &mut TcpStream, end: &str) -> String {
    let mut text = Vec::new();
    while !text.ends_with(end.as_bytes()) {
        let mut byte = [0];
        let count = socket.read(&mut byte).expect("an answer in time");
        assert_eq!(count, 1, "it ends after {:?}", String::from_utf8_lossy(&text));
        text.push(byte[0]);
    }
    String::from_utf8(text).expect("text")
}

/// The head of a request for a WebSocket.
pub(crate) fn upgrade(path: &str, more: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nhost: h\r\nupgrade: websocket\r\nconnection: keep-alive, Upgrade\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{more}\r\n"
    )
}

const MASK: [u8; 4] = [9, 0, 200, 77];

/// A WebSocket by hand.
pub(crate) struct Page {
    pub(crate) socket: TcpStream,
    pub(crate) head: String,
    reader: MessageReader,
    received: Vec<u8>,
}

impl Page {
    /// Opens a WebSocket and sends `early` behind the head at once.
    pub(crate) fn open(server: &Running, path: &str, early: &[u8]) -> Self {
        let socket = server.connect();
        (&socket).write_all(&[upgrade(path, "").as_bytes(), early].concat()).expect("a request");
        Self::opened(socket)
    }

    pub(crate) fn opened(mut socket: TcpStream) -> Self {
        let head = read_until(&mut socket, "\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        Self { socket, head, reader: MessageReader::of_server(64 << 20), received: Vec::new() }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).expect("the server reads");
    }

    pub(crate) fn send(&mut self, message: impl Into<WebSocketMessage>) {
        self.write(&frame(message));
    }

    pub(crate) fn close(&mut self, code: u16, reason: &str) {
        let mut frame = Vec::new();
        put_close(code.into(), reason, Some(MASK), &mut frame);
        self.write(&frame);
    }

    /// What comes next; `None` when the connection ends.
    pub(crate) fn next(&mut self) -> Option<Arrival> {
        loop {
            let mut input = &self.received[..];
            let arrival = self.reader.next(&mut input).expect("frames of a server");
            self.received = input.to_vec();
            if arrival.is_some() {
                return arrival;
            }
            let mut bytes = [0; 16 << 10];
            match self.socket.read(&mut bytes) {
                Ok(0) => return None,
                Ok(count) => self.received = bytes[..count].to_vec(),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("nothing comes: {error}"),
            }
        }
    }

    #[track_caller]
    pub(crate) fn expect(&mut self, message: impl Into<WebSocketMessage>) {
        let message = message.into();
        match self.next() {
            Some(Arrival::Message(found)) => assert!(found == message, "another message came"),
            other => panic!("{other:?} came"),
        }
    }

    /// The end: a Close frame with this code, and nothing more.
    #[track_caller]
    pub(crate) fn expect_close(&mut self, code: u16) -> String {
        let Some(Arrival::Close(Closing { code: found, reason })) = self.next() else {
            panic!("no Close frame came");
        };
        assert_eq!(found.as_u16(), code, "{reason}");
        reason
    }

    #[track_caller]
    pub(crate) fn expect_end(&mut self) {
        assert_eq!(self.next(), None);
    }
}

/// A message as a client sends it.
pub(crate) fn frame(message: impl Into<WebSocketMessage>) -> Vec<u8> {
    let mut frame = Vec::new();
    match message.into() {
        WebSocketMessage::Text(text) => put_text(&text, Some(MASK), &mut frame),
        WebSocketMessage::Binary(bytes) => put_binary(&bytes, Some(MASK), &mut frame),
    }
    frame
}
