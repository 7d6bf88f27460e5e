//! Servers that misbehave: they cost their own calls, and not the core of the client.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringway_rpc::{Call, Client, Codec, Kind, Method};
use ringway_runtime::{block_on, spawn};
use ringway_wire::native::{Flags, FrameKind, Header, PREFACE, Settings, StreamId};

static ECHO: Method = Method::new("test.Test/Echo", Kind::Unary);

fn echo(client: &Client) -> Call<Bytes> {
    client.unary(&ECHO, Codec::raw(), Codec::raw(), Bytes::from_static(b"?"))
}

/// A connection of hand-made frames.
struct Peer(TcpStream);

impl Peer {
    fn accept(listener: &TcpListener) -> Self {
        let (socket, _) = listener.accept().expect("a client");
        let mut peer = Self(socket);
        peer.0.read_exact(&mut [0; PREFACE.len()]).expect("the client's preface");
        peer.0.write_all(&PREFACE).expect("it listens");
        peer
    }

    fn write(&mut self, kind: FrameKind, flags: Flags, stream: StreamId, body: &[u8]) {
        let len = body.len() as u32;
        let header = Header { len, kind, flags, meta_len: 0, stream, aux: 0 };
        let frame = [&header.encode()[..], body].concat();
        let _gone = self.0.write_all(&frame);
    }

    fn settings(&mut self, max_streams: u32) {
        let mut body = Vec::new();
        Settings { max_streams, ..Settings::default() }.encode(&mut body);
        self.write(FrameKind::Settings, Flags::NONE, StreamId::CONNECTION, &body);
    }

    /// Returns the stream of the next request; `None` when the client has gone.
    fn request(&mut self) -> Option<StreamId> {
        loop {
            let mut head = [0; 16];
            self.0.read_exact(&mut head).ok()?;
            let header = Header::decode(&head).expect("a good client");
            self.0.read_exact(&mut vec![0; header.len as usize]).ok()?;
            match header.kind {
                FrameKind::Request => return Some(header.stream),
                FrameKind::Settings if header.flags == Flags::NONE => {
                    let (kind, stream) = (FrameKind::Settings, StreamId::CONNECTION);
                    self.write(kind, Flags::ACK, stream, &[]);
                }
                _ => {}
            }
        }
    }
}

/// Answers 256 calls, then allows half as many; answers one more call and allows as many as before;
/// answers one more, and none after that.
fn takes_less_and_more_again(listener: &TcpListener) {
    let mut peer = Peer::accept(listener);
    peer.settings(256);
    for (calls, then) in [(256, 128), (1, 128), (1, 256), (1, 256)] {
        let held: Vec<_> = (0..calls).map_while(|_| peer.request()).collect();
        peer.settings(then);
        for stream in held {
            peer.write(FrameKind::Response, Flags::END, stream, b"!");
        }
    }
    while peer.request().is_some() {}
}

#[test]
fn server_that_lowers_and_raises_its_limit_does_not_block_the_core() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("tcp://{}", listener.local_addr().expect("it is bound"));
    std::thread::spawn(move || takes_less_and_more_again(&listener));
    let (ended, has_ended) = mpsc::channel();
    std::thread::spawn(move || {
        let test = async move {
            let client = Client::builder().address(&*url).connections_max(1).build()?;
            for calls in [256, 1, 1, 1] {
                let calls: Vec<_> = (0..calls).map(|_| spawn(echo(&client))).collect();
                for call in calls {
                    assert_eq!(call.await.expect("no panic")?, "!");
                }
            }
            let limit = Duration::from_millis(500);
            let calls: Vec<_> = (0..200).map(|_| spawn(echo(&client).timeout(limit))).collect();
            for call in calls {
                let status = call.await.expect("no panic").expect_err("nobody answers");
                assert!(status.is_deadline_exceeded(), "{status:?}");
            }
            Ok::<(), ringway_rpc::Status>(())
        };
        ended.send(block_on(test))
    });
    let outcome = has_ended.recv_timeout(Duration::from_secs(30)).expect("the core goes on");
    outcome.expect("a core").expect("success");
}

/// Turns every client away as soon as it has connected, in several ways by turns. Counts the
/// clients in `came`.
fn sends_all_away(listener: &TcpListener, came: &AtomicU32) {
    loop {
        let mut peer = Peer::accept(listener);
        peer.settings(256);
        match came.fetch_add(1, Ordering::Relaxed) % 2 {
            0 => peer.write(FrameKind::GoAway, Flags::NONE, StreamId::CONNECTION, &[0; 8]),
            _ => peer.write(FrameKind::Response, Flags::END, StreamId::new(77, 1), b"!"),
        }
    }
}

#[test]
fn server_that_turns_clients_away_is_not_reconnected_in_a_loop() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("tcp://{}", listener.local_addr().expect("it is bound"));
    let came = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&came);
    std::thread::spawn(move || sends_all_away(&listener, &counted));
    let outcome = block_on(async move {
        let client = Client::builder().address(&*url).build()?;
        let end = Instant::now() + Duration::from_secs(1);
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            let call = echo(&client).timeout(left).wait_for_ready(true);
            call.await.expect_err("nobody answers");
        }
        Ok::<(), ringway_rpc::Status>(())
    });
    outcome.expect("a core").expect("an address");
    // The second connect comes at once; then there are pauses of at least 100, 200 and 400 ms.
    let came = came.load(Ordering::Relaxed);
    assert!((1..=6).contains(&came), "it came {came} times");
}

/// As a server whose core hangs: its kernel accepts, and nobody answers.
#[test]
fn a_server_that_accepts_and_does_not_answer_is_named_as_such() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("tcp://{}", listener.local_addr().expect("it is bound"));
    let client = Client::connect(&*address).expect("a client");
    let late = echo(&client).timeout(Duration::from_millis(300)).wait().expect_err("no answer");
    assert!(late.is_deadline_exceeded());
    let expected = format!("{address} accepted a connection and sent nothing before the deadline");
    assert!(late.message().contains(&expected), "{late}");
}
