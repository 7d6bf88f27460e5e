//! A stream from a distant server: its window grows until the path is full.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringway_rpc::{Client, Server, Sink, Status, service};

use crate::support::{LIMIT, end, socket_addr};

const MESSAGE_BYTES: usize = 60_000;
/// The delay of each direction.
const DISTANCE: Duration = Duration::from_millis(20);
/// More than the initial window of a stream.
const ON_THE_WAY: usize = 4 << 20;
/// The window has grown long before this many messages; without growth it never gets there.
const MESSAGES_MAX: usize = (128 << 20) / MESSAGE_BYTES;

#[service(crate = "ringway_rpc")]
trait Flood {
    /// Sends numbered messages until the client cancels.
    async fn watch(&self, request: Bytes, out: Sink<Bytes>) -> Result<(), Status>;
}

struct Numbers;

impl Flood for Numbers {
    async fn watch(&self, _: Bytes, mut out: Sink<Bytes>) -> Result<(), Status> {
        for number in 0_u64.. {
            let mut message = vec![number as u8; MESSAGE_BYTES];
            message[..8].copy_from_slice(&number.to_le_bytes());
            out.send(message.into()).await?;
        }
        Ok(())
    }
}

#[test]
fn window_of_a_distant_stream_grows_until_the_path_is_full() {
    let server = Server::bind("tcp://127.0.0.1:0").expect("a free port").threads(1);
    let server = server.service(FloodServer::new(Numbers)).start().expect("the server starts");
    let most = Arc::new(AtomicUsize::new(0));
    let url = format!("tcp://{}", distant(socket_addr(&server), Arc::clone(&most)));
    let seen = Arc::clone(&most);
    ringway_runtime::block_on(async move {
        let client = Client::connect(&*url).expect("an address");
        let mut messages = FloodClient::new(client).watch(Bytes::new());
        for number in 0..MESSAGES_MAX {
            let message: Bytes = messages.next().await.expect("it goes on").expect("no end");
            assert_eq!(message.len(), MESSAGE_BYTES);
            assert_eq!(message[..8], (number as u64).to_le_bytes());
            if seen.load(Ordering::Relaxed) > ON_THE_WAY {
                return;
            }
        }
    })
    .expect("a core");
    let most = most.load(Ordering::Relaxed);
    assert!(most > ON_THE_WAY, "no more than {most} bytes were on the way");
    end(server);
}

/// Makes an address with a delay in front of `server`, for one connection; `most` gets the largest
/// number of the server's bytes on the way.
fn distant(server: SocketAddr, most: Arc<AtomicUsize>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        let (client, _) = listener.accept().expect("the client connects");
        let server = TcpStream::connect(server).expect("the server listens");
        let clone = |stream: &TcpStream| stream.try_clone().expect("a descriptor is left");
        carry(clone(&client), clone(&server), Arc::default());
        carry(server, client, most);
    });
    address
}

/// Carries bytes from one end to the other with a delay of `DISTANCE`, until an end closes. `most`
/// gets the largest number of bytes on the way.
fn carry(mut from: TcpStream, mut to: TcpStream, most: Arc<AtomicUsize>) {
    let (departures, arrivals) = mpsc::channel::<(Instant, Vec<u8>)>();
    let on_the_way = Arc::new(AtomicUsize::new(0));
    let left = Arc::clone(&on_the_way);
    thread::spawn(move || {
        let mut buffer = vec![0; 256 << 10];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let now = on_the_way.fetch_add(count, Ordering::Relaxed) + count;
            most.fetch_max(now, Ordering::Relaxed);
            if departures.send((Instant::now() + DISTANCE, buffer[..count].to_vec())).is_err() {
                break;
            }
        }
    });
    thread::spawn(move || {
        let mut road = VecDeque::new();
        loop {
            let due = road.front().map(|(due, _): &(Instant, Vec<u8>)| *due);
            let left_until = |due: Instant| due.saturating_duration_since(Instant::now());
            match arrivals.recv_timeout(due.map_or(LIMIT, left_until)) {
                Ok(piece) => road.push_back(piece),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let Some((_, bytes)) = road.pop_front() else { continue };
                    left.fetch_sub(bytes.len(), Ordering::Relaxed);
                    if to.write_all(&bytes).is_err() {
                        break;
                    }
                }
            }
        }
        let _gone = to.shutdown(Shutdown::Both);
    });
}
