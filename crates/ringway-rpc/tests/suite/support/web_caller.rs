//! Requests of HTTP/1.1 by hand, and their answers taken apart.

use std::io::{Read, Write};
use std::net::TcpStream;

use ringway_rpc::ServerHandle;

use super::{LIMIT, socket_addr};

/// An answer: its status, its head, and its body without chunks.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Takes an answer apart that ends with its connection.
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head");
        let head = String::from_utf8_lossy(&bytes[..end + 2]).to_ascii_lowercase();
        let status = head[9..12].parse().expect("a status");
        let body = &bytes[end + 4..];
        let is_chunked = head.contains("\r\ntransfer-encoding: chunked\r\n");
        let body = if is_chunked { unchunked(body) } else { body.to_vec() };
        Self { status, head, body }
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    /// Names and values of all fields, in lower case.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.head.lines().filter_map(|line| line.split_once(": "))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The frames of the body: flags and content.
    pub(crate) fn frames(&self) -> Vec<(u8, Vec<u8>)> {
        frames(&self.body)
    }

    /// The messages of the body as text, then the last frame with its flags.
    pub(crate) fn stream(&self) -> (Vec<String>, u8, String) {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let mut frames = self.frames();
        let (flags, end) = frames.pop().unwrap_or_else(|| panic!("no frames: {self:?}"));
        (frames.into_iter().map(|(_, message)| text(message)).collect(), flags, text(end))
    }
}

fn frames(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<5>() {
        let len = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        frames.push((head[0], rest[..len].to_vec()));
        bytes = &rest[len..];
    }
    assert!(bytes.is_empty(), "a cut frame: {bytes:?}");
    frames
}

fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = bytes.windows(2).position(|two| two == b"\r\n").expect("a whole chunk");
        let len = str::from_utf8(&bytes[..end]).expect("digits");
        let len = usize::from_str_radix(len, 16).expect("a length");
        if len == 0 {
            return body;
        }
        body.extend_from_slice(&bytes[end + 2..end + 2 + len]);
        bytes = &bytes[end + 4 + len..];
    }
}

/// A frame as requests have it.
pub(crate) fn frame(flags: u8, message: impl AsRef<[u8]>) -> Vec<u8> {
    let message = message.as_ref();
    [&[flags][..], &(message.len() as u32).to_be_bytes(), message].concat()
}

/// The head of a request whose connection ends with its answer; each of `fields` ends in `\r\n`.
pub(crate) fn head(verb: &str, target: &str, fields: &str) -> String {
    format!("{verb} {target} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n{fields}\r\n")
}

/// A POST with a body of known length.
pub(crate) fn post(target: &str, fields: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let fields = format!("{fields}content-length: {}\r\n", body.len());
    [head("POST", target, &fields).as_bytes(), body].concat()
}

/// A POST whose body comes in chunks of so many bytes.
pub(crate) fn post_in_chunks(target: &str, fields: &str, body: &[u8], size: usize) -> Vec<u8> {
    let fields = format!("{fields}transfer-encoding: chunked\r\n");
    let mut bytes = head("POST", target, &fields).into_bytes();
    body.chunks(size).for_each(|chunk| bytes.extend(as_chunk(chunk)));
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

pub(crate) fn as_chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

pub(crate) fn connect(handle: &ServerHandle) -> TcpStream {
    let socket = TcpStream::connect(socket_addr(handle)).expect("it listens");
    socket.set_read_timeout(Some(LIMIT)).expect("a timeout");
    socket
}

/// Sends a request and reads the answer up to the end of the connection.
pub(crate) fn ask(handle: &ServerHandle, request: impl AsRef<[u8]>) -> Answer {
    let mut socket = connect(handle);
    socket.write_all(request.as_ref()).expect("a request");
    rest(socket)
}

/// The answer that comes on a socket, up to its end.
pub(crate) fn rest(mut socket: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes).expect("an answer and its end");
    Answer::read(&bytes)
}

/// Reads until `wanted` has come.
pub(crate) fn read_until(socket: &mut TcpStream, wanted: &[u8]) -> Vec<u8> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    while !bytes.windows(wanted.len()).any(|part| part == wanted) {
        let len = socket.read(&mut buffer).expect("an answer");
        assert!(len > 0, "the end before {wanted:?}: {:?}", String::from_utf8_lossy(&bytes));
        bytes.extend_from_slice(&buffer[..len]);
    }
    bytes
}
