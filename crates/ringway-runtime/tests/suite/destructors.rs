//! Several destructors that panic at the same place. Two panics at once would abort the process.
//! A failure aborts, so each test has its own process.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use bytes::Bytes;
use ringway_runtime::io::{Pressure, Stream};
use ringway_runtime::{Backend, yield_now};
use socket2::SockAddr;

use crate::support::{alone, block_on, busy_turns, pair};

struct Panics;

impl Drop for Panics {
    fn drop(&mut self) {
        panic!("a destructor");
    }
}

impl AsRef<[u8]> for Panics {
    fn as_ref(&self) -> &[u8] {
        &[7; 40_960]
    }
}

struct PanicsWhenDropped(Panics);

impl Wake for PanicsWhenDropped {
    fn wake(self: Arc<Self>) {
        assert!(!self.0.as_ref().is_empty());
    }
}

fn on_each(run: impl Fn(Backend)) {
    [Backend::Uring, Backend::Epoll].into_iter().for_each(run);
}

#[test]
fn guards_of_one_stream() {
    alone(|| {
        on_each(|backend| {
            let ran = block_on(backend, async {
                let (client, server) = pair().await;
                for _ in 0..3 {
                    server.hold_until_closed(Panics);
                }
                drop(server);
                assert!(client.recv().await.expect("a clean end").is_none());
                busy_turns().await;
            });
            ran.expect("no core failed");
        });
    });
}

/// The program decides how long a list of guards is.
#[test]
fn very_many_guards_of_one_stream() {
    alone(|| {
        on_each(|backend| {
            let ran = block_on(backend, async {
                let (client, server) = pair().await;
                for guard in 0..200_000 {
                    server.hold_until_closed(Box::new(guard));
                }
                drop(server);
                assert!(client.recv().await.expect("a clean end").is_none());
                busy_turns().await;
            });
            ran.expect("no core failed");
        });
    });
}

#[test]
fn wakers_of_one_stream() {
    alone(|| {
        on_each(|backend| {
            let ran = block_on(backend, async {
                let (_client, server) = pair().await;
                while server.write(&[0; 65_536]) == Pressure::Low {}
                for _ in 0..2 {
                    let waker = Waker::from(Arc::new(PanicsWhenDropped(Panics)));
                    let mut cx = Context::from_waker(&waker);
                    assert!(server.poll_recv(&mut cx).is_pending());
                    assert!(server.poll_flushed(&mut cx).is_pending());
                }
                drop(server);
                busy_turns().await;
            });
            ran.expect("no core failed");
        });
    });
}

/// A connection whose peer reads nothing, and whose buffers are full.
async fn full(peer: TcpListener) -> (Stream, TcpStream) {
    let stream = Stream::connect(&SockAddr::from(peer.local_addr().expect("bound"))).await;
    let (stream, peer) = (stream.expect("connect"), peer.accept().expect("accept").0);
    while stream.write(&[0; 65_536]) == Pressure::Low {}
    yield_now().await;
    (stream, peer)
}

/// Bytes that a core has not sent when it ends.
#[test]
fn owners_of_bytes_that_are_never_sent() {
    alone(|| {
        on_each(|backend| {
            let ran = block_on(backend, async {
                let (stream, peer) = full(TcpListener::bind("127.0.0.1:0").expect("a port")).await;
                for _ in 0..300 {
                    stream.send(Bytes::from_owner(Panics));
                }
                yield_now().await;
                peer
            });
            drop(ran.expect("no core failed"));
        });
    });
}

struct PanicsWhenWoken;

impl Wake for PanicsWhenWoken {
    fn wake(self: Arc<Self>) {
        panic!("a waker");
    }
}

/// A task that waits for the end of a send is woken when the bytes are dropped.
#[test]
fn owners_of_bytes_whose_end_wakes_a_waker_that_panics() {
    alone(|| {
        on_each(|backend| {
            let ran = block_on(backend, async {
                let (client, server) = pair().await;
                server.send(Bytes::from_owner(Panics));
                let waker = Waker::from(Arc::new(PanicsWhenWoken));
                assert!(server.poll_flushed(&mut Context::from_waker(&waker)).is_pending());
                while server.failure().is_none() {
                    yield_now().await;
                }
                drop(client);
            });
            ran.expect("a panic of a waker costs its stream alone");
        });
    });
}
