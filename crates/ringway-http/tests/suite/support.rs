//! A server, and a socket that says what it is told to.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use ringway_http::{HttpLimits, Router, serve_with};
use ringway_net::{Server, ServerHandle};

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
        let server = Server::bind("tcp://127.0.0.1:0").expect("an address").threads(1);
        let handle = server.start(serve_with(router, limits)).expect("the server starts");
        let address = handle.addresses()[0].to_string().replace("tcp://", "");
        Self { handle, address }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let socket = TcpStream::connect(&*self.address).expect("the server listens");
        socket.set_read_timeout(Some(LIMIT)).expect("a timeout");
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
    String::from_utf8(bytes).expect("text")
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
