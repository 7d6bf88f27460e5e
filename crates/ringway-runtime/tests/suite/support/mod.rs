//! Tools that the integration tests share: one test over every driver, pairs of streams, and payloads that name
//! their position.

#[path = "../../../../ringway-wire/tests/suite/support/allocations.rs"]
pub(crate) mod allocations;
#[path = "../../../../ringway-wire/tests/suite/support/alone.rs"]
pub(crate) mod alone;
pub(crate) mod held;
mod stay;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::task::Poll;
use std::time::Duration;

use ringway_runtime::io::{ListenOptions, Listener, Stream, StreamLimits};
use ringway_runtime::sim::SimConfig;
use ringway_runtime::{Backend, Builder, spawn, timeout};
use socket2::SockAddr;
pub(crate) use stay::Stay;

/// The real time that one test may take. A hang then fails under its name.
const TEST_TIME_MAX: Duration = Duration::from_secs(60);

/// The simulated network of these tests. The driver's own tests cover faults.
const SIM_SEED: u64 = 20;

/// Distinguishes the runs of one test's body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Driver {
    Uring,
    Epoll,
    Sim,
}

/// Makes a test of each `async fn(Driver)` named, over each driver.
macro_rules! on_every_driver {
    ($($test:ident),* $(,)?) => {
        mod uring { $(#[test] fn $test() {
            $crate::support::run($crate::support::Driver::Uring, super::$test);
        })* }
        mod epoll { $(#[test] fn $test() {
            $crate::support::run($crate::support::Driver::Epoll, super::$test);
        })* }
        mod sim { $(#[test] fn $test() {
            $crate::support::run($crate::support::Driver::Sim, super::$test);
        })* }
    };
}

/// Makes a test of each `fn(Backend)` named, over each interface of the kernel.
macro_rules! on_every_kernel_driver {
    ($($test:ident),* $(,)?) => {
        mod uring { $(#[test] fn $test() {
            let _stay = $crate::support::Stay::begin();
            super::$test(ringway_runtime::Backend::Uring);
        })* }
        mod epoll { $(#[test] fn $test() {
            let _stay = $crate::support::Stay::begin();
            super::$test(ringway_runtime::Backend::Epoll);
        })* }
    };
}

/// Runs a test's body as the main task of one core.
pub(crate) fn run<F: Future<Output = ()> + 'static>(driver: Driver, body: fn(Driver) -> F) {
    let _stay = Stay::begin();
    let ran = match driver {
        Driver::Uring => block_on(Backend::Uring, body(driver)),
        Driver::Epoll => block_on(Backend::Epoll, body(driver)),
        Driver::Sim => Builder::simulate(SimConfig::new(SIM_SEED), body(driver)),
    };
    ran.unwrap_or_else(|error| panic!("{driver:?}: {error}"));
}

/// Runs `main` on the calling thread as one core over an interface of the kernel.
pub(crate) fn block_on<F: Future + 'static>(backend: Backend, main: F) -> io::Result<F::Output>
where
    F::Output: 'static,
{
    let builder = Builder::default().threads(1).backend(backend);
    let ended = builder.block_on(timeout(TEST_TIME_MAX, main))?;
    ended.map_err(io::Error::from)
}

pub(crate) fn any_port() -> SockAddr {
    SocketAddr::from(([127, 0, 0, 1], 0)).into()
}

pub(crate) fn listen() -> Listener {
    Listener::bind(&any_port(), ListenOptions::default()).expect("loopback has a free port")
}

/// A listener on an address of its own. After it is dropped, no other test can get its port, so a
/// connect is refused.
pub(crate) fn listen_apart() -> Listener {
    static LISTENERS: AtomicU16 = AtomicU16::new(0);
    let [third, fourth] = LISTENERS.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    let apart = SocketAddr::from(([127, 78, third, fourth], 0));
    Listener::bind(&apart.into(), ListenOptions::default()).expect("loopback has a free port")
}

/// Two ends of one connection: the connecting one, and the accepted one with `limits`.
pub(crate) async fn pair_with(limits: StreamLimits) -> (Stream, Stream) {
    connected_to(&listen(), limits).await
}

pub(crate) async fn pair() -> (Stream, Stream) {
    pair_with(StreamLimits::default()).await
}

/// A connection through a listener that stays open.
pub(crate) async fn connected_to(listener: &Listener, limits: StreamLimits) -> (Stream, Stream) {
    let client = Stream::connect(listener.local_addr()).await.expect("connect");
    let accepted = listener.accept().await.expect("accept");
    let server = accepted.into_stream(&Rc::new(limits)).expect("stream");
    (client, server)
}

/// Like `pair_with`, with kernel buffers so small that megabytes do not fit between the ends.
pub(crate) async fn narrow_pair(limits: StreamLimits) -> (Stream, Stream) {
    let listener = listen();
    let small = |socket: socket2::SockRef<'_>| {
        socket.set_send_buffer_size(NARROW_BYTES)?;
        socket.set_recv_buffer_size(NARROW_BYTES)
    };
    listener.with_socket(small).expect("socket buffers");
    let (client, server) = connected_to(&listener, limits).await;
    client.with_socket(small).expect("socket buffers");
    (client, server)
}

const NARROW_BYTES: usize = 32 * 1024;

/// One message to the server.
pub(crate) async fn exchange_once(client: &Stream, server: &Stream) {
    client.write(b"ping");
    assert_eq!(read(server, 4).await, b"ping");
}

/// Sends back every message until the peer has finished.
pub(crate) async fn echo(stream: Stream) -> io::Result<()> {
    while let Some(view) = stream.recv().await? {
        stream.send(view);
        stream.drained().await?;
    }
    Ok(())
}

/// One message there and back.
pub(crate) async fn exchange(client: &Stream, message: &[u8]) {
    client.write(message);
    assert_eq!(read(client, message.len()).await, message);
}

/// Sends one message and receives it, over a connection and an echo of its own.
pub(crate) async fn exchange_with_echo(client: Stream, server: Stream, message: &[u8]) {
    let server = ringway_runtime::spawn(echo(server));
    exchange(&client, message).await;
    drop(client);
    server.await.expect("no panic").expect("no error");
}

/// Receives `len` bytes, which must end with a piece.
pub(crate) async fn read(stream: &Stream, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        let view = stream.recv().await.expect("no error");
        bytes.extend_from_slice(&view.expect("more bytes before the end"));
    }
    assert_eq!(bytes.len(), len, "bytes nobody sent");
    bytes
}

/// Receives until the peer has finished.
pub(crate) async fn read_to_end(stream: &Stream) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(view) = stream.recv().await.expect("no error") {
        bytes.extend_from_slice(&view);
    }
    bytes
}

/// Waits for turns of the loop in which something happens.
pub(crate) async fn busy_turns() {
    let (client, server) = pair().await;
    let server = spawn(echo(server));
    for _ in 0..50 {
        exchange(&client, b"around").await;
    }
    drop(client);
    server.await.expect("no panic").expect("no error");
}

/// Sends `len` bytes of `pattern(_, 6)`, never more than there is room for.
pub(crate) async fn send_all(client: Rc<Stream>, total: usize) {
    let run = pattern(PATTERN_BYTES, 6);
    let mut left = total;
    while left > 0 {
        let len = left.min(run.len());
        client.send(run[..len].to_vec());
        left -= len;
        client.drained().await.expect("no error");
    }
}

/// Limits that differ from the default.
pub(crate) fn only(change: impl FnOnce(&mut StreamLimits)) -> StreamLimits {
    let mut limits = StreamLimits::default();
    change(&mut limits);
    limits
}

pub(crate) const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Polls once.
pub(crate) async fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    let mut future = Some(future);
    std::future::poll_fn(|cx| Poll::Ready(future.take().expect("polled once").poll(cx))).await
}

/// Bytes that name their position. Their period does not divide buffer sizes.
pub(crate) fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| byte_at(at, seed)).collect()
}

fn byte_at(at: usize, seed: usize) -> u8 {
    let place = at % PATTERN_BYTES;
    (place * 31 + (place >> 8) + seed * 17) as u8
}

/// A prime, so that no two buffers of a long stream begin with the same bytes.
pub(crate) const PATTERN_BYTES: usize = 65_521;

/// Checks a long stream of `pattern` piece by piece.
pub(crate) struct Verifier {
    run: Vec<u8>,
    place: usize,
    pub(crate) bytes: usize,
}

impl Verifier {
    pub(crate) fn new(seed: usize) -> Self {
        Self { run: pattern(PATTERN_BYTES, seed), place: 0, bytes: 0 }
    }

    pub(crate) fn check(&mut self, mut piece: &[u8]) {
        while !piece.is_empty() {
            let run = &self.run[self.place..];
            let len = run.len().min(piece.len());
            assert!(run[..len] == piece[..len], "wrong bytes in {}..+{len}", self.bytes);
            self.place = (self.place + len) % PATTERN_BYTES;
            self.bytes += len;
            piece = &piece[len..];
        }
    }
}

/// Runs the body of the calling test in a process of its own, while this one holds the pipes.
pub(crate) fn alone(body: impl FnOnce()) {
    let _stay = Stay::begin();
    alone::alone(body);
}
