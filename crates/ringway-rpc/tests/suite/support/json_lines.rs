//! A client of JSON-RPC by hand: texts on lines.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::LIMIT;

/// One connection.
pub(crate) struct JsonLines {
    reader: BufReader<Box<dyn Read + Send>>,
    writer: Box<dyn Write + Send>,
    tcp: Option<TcpStream>,
}

impl JsonLines {
    pub(crate) fn tcp(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).expect("the server listens");
        socket.set_nodelay(true).expect("an option of TCP");
        socket.set_read_timeout(Some(LIMIT)).expect("a time above zero");
        let [reader, tcp] = [0; 2].map(|_| socket.try_clone().expect("a descriptor"));
        Self { reader: BufReader::new(Box::new(reader)), writer: Box::new(socket), tcp: Some(tcp) }
    }

    pub(crate) fn unix(path: &Path) -> Self {
        let socket = UnixStream::connect(path).expect("the server listens");
        socket.set_read_timeout(Some(LIMIT)).expect("a time above zero");
        let reader = socket.try_clone().expect("a descriptor");
        Self { reader: BufReader::new(Box::new(reader)), writer: Box::new(socket), tcp: None }
    }

    /// Sends bytes as they are.
    #[track_caller]
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.writer.write_all(bytes.as_ref()).expect("the server takes it");
    }

    /// Ends this side's half of the connection.
    pub(crate) fn end_half(&self) {
        let tcp = self.tcp.as_ref().expect("it is TCP");
        tcp.shutdown(std::net::Shutdown::Write).expect("it is open");
    }

    /// Sends bytes that a server may refuse by closing the connection.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.writer.write_all(bytes).is_ok()
    }

    /// The next line; `None` at the end of the connection.
    #[track_caller]
    pub(crate) fn try_line(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(line.strip_suffix('\n').expect("a whole line").to_owned()),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("nothing has come in time: {error}"),
        }
    }

    #[track_caller]
    pub(crate) fn line(&mut self) -> String {
        self.try_line().expect("the connection goes on")
    }

    /// Sends a text and waits for a line.
    #[track_caller]
    pub(crate) fn ask(&mut self, text: &str) -> String {
        self.send(format!("{text}\n"));
        self.line()
    }

    /// Sends the same bytes until the other end takes no more, or `max` bytes were sent; how many were.
    pub(crate) fn send_until_blocked(&mut self, bytes: &[u8], max: usize) -> usize {
        let tcp = self.tcp.as_ref().expect("it is TCP");
        tcp.set_write_timeout(Some(Duration::from_secs(1))).expect("a time above zero");
        let mut sent = 0;
        while sent < max && self.writer.write_all(bytes).is_ok() {
            sent += bytes.len();
        }
        sent
    }
}
