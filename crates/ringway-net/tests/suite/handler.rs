//! Callback handlers: the same calls over TCP and over TLS.

use std::sync::mpsc::{self, Receiver, Sender};

use ringway_net::{Client, Connection, Error, Handler, Peer, Pressure, Server, ServerHandle, View};
use ringway_runtime::{block_on, timeout};

use crate::support::certificates::NAME;
use crate::support::server::{LIMIT, eventually};
use crate::support::trust::Trust;

const HIGH_WATER: usize = 256 * 1024;
const LOW_WATER: usize = 64 * 1024;

/// Starts a server with one core over each transport, and makes a client of it.
fn over_both<H: Handler>(
    make: impl Fn() -> H + Clone + Send + 'static,
    test: impl Fn(&ServerHandle, Client),
) {
    for scheme in ["tcp", "tls"] {
        let trust = Trust::new();
        let server = Server::bind(format!("{scheme}://127.0.0.1:0")).expect("a free port");
        let server = server.tls(trust.server.clone()).threads(1);
        let server = server.high_water(HIGH_WATER).low_water(LOW_WATER);
        let handle = server.start_with(make.clone()).expect("the server starts");
        let client = Client::new(&handle.addresses()[0]).expect("its address");
        let name = trust.client.clone().server_name(NAME).expect("a name");
        test(&handle, client.tls(name));
        handle.abort();
        handle.wait().expect("the server ends");
    }
}

/// Runs one end of a test with a time limit.
fn run<T: 'static>(test: impl Future<Output = Result<T, Error>> + 'static) -> T {
    let outcome = block_on(timeout(LIMIT, test)).expect("a core");
    outcome.expect("in time").expect("the test's own connection")
}

/// Receives to the end; returns the number of bytes and whether the end was clean.
async fn receive_all(connection: &mut Connection) -> (usize, Result<(), Error>) {
    let mut received = 0;
    loop {
        match connection.recv().await {
            Ok(Some(view)) => received += view.len(),
            Ok(None) => return (received, Ok(())),
            Err(error) => return (received, Err(error)),
        }
    }
}

/// Sends one block after another while there is room.
struct Download {
    left: usize,
}

impl Download {
    const BLOCK: usize = 64 * 1024;
    const BLOCKS: usize = 256;

    fn go_on(&mut self, peer: &Peer) {
        while self.left > 0 {
            self.left -= 1;
            if peer.write(&[9; Self::BLOCK]).pressure() != Pressure::Low {
                return;
            }
        }
        peer.close();
    }
}

impl Handler for Download {
    fn on_message(&mut self, peer: &Peer, _: View) {
        self.go_on(peer);
    }

    fn on_drained(&mut self, peer: &Peer) {
        self.go_on(peer);
    }
}

#[test]
fn download_continues_whenever_there_is_room() {
    over_both(
        || Download { left: Download::BLOCKS },
        |_, client| {
            let (received, end) = run(async move {
                let mut connection = client.open().await?;
                connection.write(b"go");
                Ok(receive_all(&mut connection).await)
            });
            assert_eq!(received, Download::BLOCK * Download::BLOCKS);
            end.expect("a clean end: the handler has closed");
        },
    );
}

/// The calls of a handler, with the fill level of its send queue at the time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Told {
    Message { queued: usize },
    Drained { queued: usize },
    Closed { in_order: bool },
}

/// Replies with more than the high-water mark, and to a long question with more than the kernel
/// takes besides.
struct Answering {
    tell: Sender<Told>,
}

const QUESTION: u8 = b'?';
const LONG_QUESTION: u8 = b'L';
const BUG: u8 = b'!';
const ANSWER: usize = 2 * HIGH_WATER;
const LONG_ANSWER: usize = 12 << 20;

impl Handler for Answering {
    fn on_message(&mut self, peer: &Peer, view: View) {
        self.told(Told::Message { queued: peer.queued_bytes() });
        let answer = match view[0] {
            BUG => panic!("a bug of the program"),
            LONG_QUESTION => LONG_ANSWER,
            _ => ANSWER,
        };
        peer.write(&vec![1; answer]);
    }

    fn on_drained(&mut self, peer: &Peer) {
        self.told(Told::Drained { queued: peer.queued_bytes() });
    }

    fn on_close(&mut self, _: &Peer, error: Option<&Error>) {
        self.told(Told::Closed { in_order: error.is_none() });
    }
}

impl Answering {
    /// The test may have ended already.
    fn told(&self, told: Told) {
        let _ = self.tell.send(told);
    }

    fn over_both(test: impl Fn(&ServerHandle, Client, &Receiver<Told>)) {
        let (tell, told) = mpsc::channel();
        over_both(
            move || Answering { tell: tell.clone() },
            |handle, client| test(handle, client, &told),
        );
    }
}

/// Returns all calls of a handler up to its end.
fn to_the_end(told: &Receiver<Told>) -> Vec<Told> {
    let mut all = Vec::new();
    while !matches!(all.last(), Some(Told::Closed { .. })) {
        all.push(told.recv_timeout(LIMIT).expect("the handler goes on"));
    }
    all
}

#[test]
fn data_waits_above_the_high_water_mark_and_drained_comes_below_the_low_one() {
    Answering::over_both(|_, client, told| {
        let (received, end) = run(async move {
            let mut connection = client.open().await?;
            // This takes several receives, and over TLS several views of plaintext in each.
            connection.write(&[QUESTION; 400_000]);
            connection.shutdown();
            Ok(receive_all(&mut connection).await)
        });
        end.expect("a clean end after the client's");
        let told = to_the_end(told);
        let messages = told.iter().filter(|told| matches!(told, Told::Message { .. })).count();
        assert!(messages > 1 && received == messages * ANSWER, "{told:?}");
        let drained = told.iter().filter(|told| matches!(told, Told::Drained { .. })).count();
        assert!(drained >= messages - 1, "{told:?}");
        for step in &told {
            match *step {
                Told::Message { queued } => assert!(queued < HIGH_WATER, "{told:?}"),
                Told::Drained { queued } => assert!(queued <= LOW_WATER, "{told:?}"),
                Told::Closed { in_order } => assert!(in_order, "{told:?}"),
            }
        }
    });
}

#[test]
fn failed_connection_is_counted_and_not_reported_as_drained() {
    Answering::over_both(|handle, client, told| {
        // The client does not read the reply, so it waits when the connection is reset.
        run(async move {
            let connection = client.open().await?;
            connection.write(&[LONG_QUESTION]);
            connection.flushed().await?;
            connection.abort();
            Ok(())
        });
        let told = to_the_end(told);
        assert!(!told.iter().any(|told| matches!(told, Told::Drained { .. })), "{told:?}");
        assert_eq!(told.last(), Some(&Told::Closed { in_order: false }));
        assert_eq!((handle.stats().handler_errors, handle.stats().handler_panics), (1, 0));
    });
}

#[test]
fn data_received_before_a_drain_is_delivered_although_replies_wait() {
    const BEHIND: usize = 100_000;
    Answering::over_both(|handle, client, told| {
        let server = handle.clone();
        let arrived = move || server.stats().cores[0].counters.bytes_received;
        let server = handle.clone();
        let (received, end) = run(async move {
            let mut connection = client.open().await?;
            connection.write(&[LONG_QUESTION]);
            let first = connection.recv().await?.map_or(0, |view| view.len());
            // The next message waits because the reply to the first does.
            let before = arrived();
            connection.write(&[QUESTION; BEHIND]);
            connection.flushed().await?;
            eventually("it has arrived", || arrived() - before >= BEHIND as u64);
            server.shutdown();
            let (received, end) = receive_all(&mut connection).await;
            Ok((first + received, end))
        });
        end.expect("a clean end");
        let told = to_the_end(told);
        let messages = told.iter().filter(|told| matches!(told, Told::Message { .. })).count();
        assert!(messages >= 2, "{told:?}");
        assert_eq!(received, LONG_ANSWER + (messages - 1) * ANSWER, "{told:?}");
        assert_eq!(told.last(), Some(&Told::Closed { in_order: true }));
    });
}

#[test]
fn panic_during_a_reply_is_not_a_clean_end() {
    Answering::over_both(|handle, client, told| {
        let (_, end) = run(async move {
            let mut connection = client.open().await?;
            connection.write(&[BUG]);
            Ok(receive_all(&mut connection).await)
        });
        assert!(end.expect_err("cut off").is_closed());
        assert!(matches!(told.recv_timeout(LIMIT), Ok(Told::Message { .. })));
        eventually("it is counted", || handle.stats().handler_panics == 1);
        eventually("it is closed", || handle.stats().open == 0);
    });
}

/// Closes at the first byte, and panics at the next.
#[derive(Default)]
struct ClosesAtOnce {
    is_over: bool,
}

impl Handler for ClosesAtOnce {
    fn on_message(&mut self, peer: &Peer, _: View) {
        assert!(!self.is_over, "called after it has asked to close");
        self.is_over = true;
        peer.write(b"bye");
        peer.close();
    }
}

#[test]
fn handler_that_closes_is_not_called_again() {
    over_both(ClosesAtOnce::default, |handle, client| {
        let (received, end) = run(async move {
            let mut connection = client.open().await?;
            connection.write(&[0; 300_000]);
            Ok(receive_all(&mut connection).await)
        });
        end.expect("a clean end");
        assert_eq!((received, handle.stats().handler_panics), (3, 0));
    });
}

/// Panics when it is dropped.
struct BadItem;

impl Drop for BadItem {
    fn drop(&mut self) {
        panic!("a bug in a destructor");
    }
}

/// Stores a value in its session whose destructor panics.
struct HasBadItem;

impl Handler for HasBadItem {
    fn on_message(&mut self, peer: &Peer, view: View) {
        if view.first() == Some(&b'!') {
            peer.session().insert(BadItem);
            peer.close();
            return;
        }
        peer.send(view);
    }
}

#[test]
fn panicking_destructor_affects_no_other_connection() {
    over_both(
        || HasBadItem,
        |handle, client| {
            let other = client.clone();
            run(async move {
                let mut steady = other.open().await?;
                let mut bad = client.open().await?;
                bad.write(b"!");
                let (_, _either_way) = receive_all(&mut bad).await;
                steady.write(b"unharmed");
                let echo = steady.recv().await?.expect("an echo");
                assert_eq!(&*echo, b"unharmed");
                Ok(())
            });
            eventually("both are closed", || handle.stats().open == 0);
        },
    );
}
