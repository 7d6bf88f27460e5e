//! The other end of a connection under test: a blocking socket in its own thread.

use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ringway_net::{Client, Connection};

/// The longest wait of any test.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);

/// Runs `test` on a runtime with a connection whose other end `peer` serves. Returns both results.
pub(crate) fn with_peer<P: Send + 'static, T: 'static>(
    peer: impl FnOnce(TcpStream) -> P + Send + 'static,
    test: impl AsyncFnOnce(Connection) -> T + 'static,
) -> (P, T) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("tcp://{}", listener.local_addr().expect("it is bound"));
    let peer: JoinHandle<P> = thread::spawn(move || {
        let (socket, _) = listener.accept().expect("the test connects");
        socket.set_read_timeout(Some(LIMIT)).expect("not zero");
        socket.set_write_timeout(Some(LIMIT)).expect("not zero");
        socket.set_nodelay(true).expect("it is a TCP socket");
        peer(socket)
    });
    let tested = ringway_runtime::block_on(async move {
        let connection = Client::connect(address.as_str()).await.expect("the peer listens");
        ringway_runtime::timeout(LIMIT, test(connection)).await.expect("in time")
    });
    let tested = tested.expect("a runtime starts");
    (peer.join().expect("the peer does not fail"), tested)
}

/// Reads `count` lines, without their terminators.
pub(crate) fn read_lines(socket: &TcpStream, count: usize) -> Vec<String> {
    use std::io::BufRead;
    let lines = BufReader::with_capacity(1, socket).lines();
    lines.take(count).map(|line| line.expect("a line in time")).collect()
}

/// Reads to the end of the stream.
pub(crate) fn read_all(mut socket: &TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes).expect("an end in time");
    bytes
}

/// Writes all bytes.
pub(crate) fn write(mut socket: &TcpStream, bytes: impl AsRef<[u8]>) {
    socket.write_all(bytes.as_ref()).expect("the test reads");
}
