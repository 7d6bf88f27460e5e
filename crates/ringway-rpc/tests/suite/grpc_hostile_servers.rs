//! Hostile gRPC servers: they cost a client the connection to them or a call, whose status says what
//! happened, and no other connection.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use ringway_net::{ClientTls, ServerTls};
use ringway_rpc::{Client, ClientBuilder, ClientCompression, Codec, Kind, Method, Status};
use ringway_runtime::{block_on, spawn, timeout};
use ringway_wire::grpc::{Compression, compress, prefix};

use crate::grpc_bad_servers::{Peer, listen};
use crate::support::allocations::ALLOCATOR;
use crate::support::alone::alone;
use crate::support::echo::{Echo, serve, serve_at};
use crate::support::frames::*;
use crate::support::{LIMIT, end, socket_addr};

static SAY: Method = Method::new("echo.Echo/Say", Kind::Unary);
static HANG: Method = Method::new("echo.Echo/Hang", Kind::Unary);
static REPEAT: Method = Method::new("echo.Echo/Repeat", Kind::ServerStream);

const RAW: Codec<Bytes> = Codec::raw();

/// Runs `test` on a core whose connection to a good server has a waiting call; neither may suffer.
fn beside_a_good_server(test: impl AsyncFnOnce() + 'static) {
    let server = serve(&Echo::default(), |server| server);
    let address = format!("grpc://{}", socket_addr(&server));
    let beside = async move {
        let good = Client::connect(&*address).expect("an address");
        let waiting = spawn(good.unary(&HANG, RAW, RAW, Bytes::new()).no_timeout());
        let say = || good.unary(&SAY, RAW, RAW, Bytes::from_static(b"well"));
        assert_eq!(say().await.expect("it answers"), "well");
        test().await;
        assert_eq!(say().await.expect("it answers still"), "well");
        assert!(!waiting.is_finished(), "the waiting call goes on");
    };
    block_on(timeout(LIMIT, beside)).expect("a core").expect("no hang");
    assert_eq!(server.net().stats().accepted, 1, "all on one connection");
    end(server);
}

async fn failure(client: ClientBuilder) -> Status {
    let client = client.build().expect("a good address");
    client.unary(&SAY, RAW, RAW, Bytes::new()).await.expect_err("no good server")
}

/// Checks that a call was not executed, and that its status names the address and all `parts`.
async fn fails_saying(client: ClientBuilder, address: &str, parts: &[&str]) {
    let status = failure(client).await;
    assert!(status.is_unavailable() && status.is_not_executed(), "{status:?}");
    for part in [&[address], parts].concat() {
        assert!(status.message().contains(part), "{status} says nothing of {part}");
    }
}

/// What a server says instead of TLS, or as a part of it.
const GARBAGE: [&[u8]; 7] = [
    b"\x15\x03\x03\x00\x02\x02\x28", // a fatal alert: handshake_failure
    b"\x16\x03\x03\x00\x04\x02\x00\xff\xff", // the beginning of a ServerHello
    b"\x16\x03\x03\xff\xff\x02\x00\x00\x00", // a record that is too long
    b"\x16\x03\x03\x00\x05\x02\x00\x00\x01\x00", // a ServerHello of one byte
    b"\x17\x03\x03\x00\x10 data before time",
    b"SSH-2.0-OpenSSH_9.9\r\n",
    &[0; 64],
];

#[test]
fn garbage_instead_of_tls_is_reported() {
    beside_a_good_server(async || {
        for garbage in GARBAGE {
            let address = listen(move |mut peer| {
                let _hello = peer.socket().read(&mut [0; 1024]);
                peer.write(garbage);
                let _end = peer.socket().shutdown(std::net::Shutdown::Write);
                let _closes = peer.socket().read_to_end(&mut Vec::new());
            });
            let secured = address.replace("grpc:", "grpcs:");
            let client = Client::builder().address(&*secured).tls(ClientTls::new());
            fails_saying(client, &secured, &["TLS"]).await;
            let what: &[&str] = match garbage[0] {
                0x15 => &["expects TLS", "grpcs://"],
                _ => &["another protocol"],
            };
            let status = failure(Client::builder().address(&*address)).await;
            assert!(status.is_unavailable(), "{status:?}");
            assert!(what.iter().all(|part| status.message().contains(part)), "{status}");
        }
    });
}

#[test]
fn server_that_is_silent_in_the_tls_handshake_is_given_up() {
    beside_a_good_server(async || {
        let address = listen(|mut peer| {
            let _hello_and_end = peer.socket().read_to_end(&mut Vec::new());
        });
        let secured = address.replace("grpc:", "grpcs:");
        let tls = ClientTls::new().handshake_timeout(Duration::from_millis(20));
        fails_saying(Client::builder().address(&*secured).tls(tls), &secured, &["TLS"]).await;
    });
}

#[test]
fn tls_server_for_a_plain_client_and_plain_server_for_a_tls_client() {
    beside_a_good_server(async || {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("made");
        let tls = ServerTls::from_pem(made.cert.pem(), made.signing_key.serialize_pem());
        let address = "tls://127.0.0.1:0".parse().expect("an address");
        let tls = tls.expect("they belong together");
        let server = serve_at(address, &Echo::default(), |server| server.tls(tls));
        let plain = format!("grpc://{}", socket_addr(&server));
        let client = Client::builder().address(&*plain);
        fails_saying(client, &plain, &["expects TLS", "grpcs://"]).await;
        let secured = plain.replace("grpc:", "grpcs:");
        let client = Client::builder().address(&*secured).tls(ClientTls::new());
        fails_saying(client, &secured, &["certificate"]).await;
        let ended = std::thread::spawn(|| end(server));

        let server = serve(&Echo::default(), |server| server);
        let secured = format!("grpcs://{}", socket_addr(&server));
        let client = Client::builder().address(&*secured).tls(ClientTls::new());
        fails_saying(client, &secured, &["TLS", "grpc://"]).await;
        std::thread::spawn(|| end(server)).join().expect("it ends");
        ended.join().expect("it ends");
    });
}

/// Makes a frame of a flood beside the call of a stream.
type Flood = fn(u32) -> Vec<u8>;

#[test]
fn endless_frames_end_the_connection() {
    let interim = |stream| frame(HEADERS, 0x4, stream, &head(&[(":status", "103")]));
    let floods: [(&str, Flood); 9] = [
        ("GOAWAY", |_| frame(GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0])),
        ("PING", |_| frame(PING, 0, 0, &[0; 8])),
        ("answers to no PING", |_| frame(PING, 1, 0, &[0; 8])),
        ("SETTINGS", |_| frame(SETTINGS, 0, 0, &[])),
        ("empty DATA", |stream| frame(DATA, 0, stream, &[])),
        ("interim heads", interim),
        ("updates of 1", |_| frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
        ("priorities", |stream| frame(PRIORITY, 0, stream, &[0; 5])),
        ("unknown frames", |_| frame(0x77, 0, 0, b"?")),
    ];
    beside_a_good_server(async move || {
        for (what, flood) in floods {
            let address = listen(move |mut peer| {
                peer.settings(100);
                let Some(stream) = peer.request() else { return };
                if what == "empty DATA" {
                    peer.write(&frame(HEADERS, 0x4, stream, &head(&GOOD)));
                }
                let flood = flood(stream).repeat(100);
                // The client's answers are read, so that it may go on.
                let mut answers = peer.socket().try_clone().expect("a descriptor");
                std::thread::spawn(move || answers.read_to_end(&mut Vec::new()));
                while peer.socket().write_all(&flood).is_ok() {}
            });
            let status = failure(Client::builder().address(&*address)).await;
            assert!(status.is_unavailable() && !status.is_not_executed(), "{what}: {status:?}");
            for part in [&*address, "broke the protocol"] {
                assert!(status.message().contains(part), "{what}: {status}");
            }
        }
    });
}

const GOOD: [(&str, &str); 2] = [(":status", "200"), ("content-type", "application/grpc")];

#[test]
fn wrong_replies_end_only_their_call() {
    let second = || b"\x00\x00\x00\x00\x01!".repeat(2);
    let replies: [(&str, Vec<u8>, &str); 5] = [
        ("longer than any", vec![0, 0xff, 0xff, 0xff, 0xff], "RESOURCE_EXHAUSTED"),
        ("of an unknown flag", vec![2, 0, 0, 0, 0], "INTERNAL"),
        ("compressed in no way", vec![1, 0, 0, 0, 0], "INTERNAL"),
        ("cut", vec![0, 0, 0, 0, 9, 1], "INTERNAL"),
        ("two", second(), "UNIMPLEMENTED"),
    ];
    beside_a_good_server(async move || {
        for (what, reply, code) in replies {
            let came = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&came);
            let address = listen(move |mut peer| {
                counted.fetch_add(1, Ordering::SeqCst);
                peer.settings(100);
                let Some(stream) = peer.request() else { return };
                peer.write(&frame(HEADERS, 0x4, stream, &head(&GOOD)));
                peer.write(&frame(DATA, 0, stream, &reply));
                peer.write(&frame(HEADERS, 0x5, stream, &head(&[("grpc-status", "0")])));
                while let Some(stream) = peer.request() {
                    peer.reply(stream);
                }
            });
            let client = Client::connect(&*address).expect("an address");
            let say = || client.unary(&SAY, RAW, RAW, Bytes::new());
            let status = say().await.expect_err("a wrong reply");
            assert_eq!(status.code().to_string(), code, "{what}: {status}");
            assert_eq!(say().await.expect("the next call is answered"), "!", "{what}");
            assert_eq!(came.load(Ordering::SeqCst), 1, "{what}: on the same connection");
        }
    });
}

/// A compressed message of so many zeros.
fn bomb(by: Compression, zeros: usize) -> Vec<u8> {
    let bomb = compress(by, &vec![0; zeros]).expect("it is shorter");
    assert!(bomb.len() * 100 < zeros, "a bomb is small: {}", bomb.len());
    [&prefix(bomb.len() as u32, true)[..], &bomb].concat()
}

/// Answers every call of a connection with a head, these messages and success.
fn serve_messages(mut peer: Peer, by: &str, messages: &[u8]) {
    peer.settings(100);
    while let Some(stream) = peer.request() {
        let fields = [&GOOD[..], &[("grpc-encoding", by)]].concat();
        peer.write(&frame(HEADERS, 0x4, stream, &head(&fields)));
        for part in messages.chunks(16 << 10) {
            peer.write(&frame(DATA, 0, stream, part));
        }
        peer.write(&frame(HEADERS, 0x5, stream, &head(&[("grpc-status", "0")])));
    }
}

const COMPRESSIONS: [(&str, Compression); 2] =
    [("gzip", Compression::Gzip), ("zstd", Compression::Zstd)];

#[test]
fn bombs_in_replies_take_at_most_the_memory_of_a_message() {
    alone(|| beside_a_good_server(async || bombs_of(100_000).await));
}

/// Receives replies that become longer than `message_max`.
async fn bombs_of(message_max: u32) {
    const BOMBS: usize = 20;
    for (name, by) in COMPRESSIONS {
        let bomb = bomb(by, 16 << 20);
        let address = listen(move |peer| serve_messages(peer, name, &bomb));
        let client = Client::builder().address(&*address).message_bytes_max(message_max);
        let client = client.compression(ClientCompression::of_replies()).build();
        let client = client.expect("an address");
        let explode = async || {
            let status = client.unary(&SAY, RAW, RAW, Bytes::new()).await.expect_err("too long");
            assert!(status.is_resource_exhausted(), "{status:?}");
            assert!(status.message().contains("exceeds the message limit"), "{status}");
        };
        explode().await; // allocates the tables once
        let before = ALLOCATOR.stats();
        for _ in 0..BOMBS {
            explode().await;
        }
        let bytes = ALLOCATOR.stats().bytes_allocated - before.bytes_allocated;
        println!("{name}: {} bytes a bomb of 16 MiB", bytes / BOMBS);
        // A growing result was allocated several times, and the count includes the test's own frames.
        assert!(bytes < BOMBS * 10 * message_max as usize, "{name}: {bytes}");
    }
}

#[test]
fn small_replies_that_become_large_unread_ones_end_their_call() {
    alone(|| beside_a_good_server(unread_bombs));
}

/// Receives messages that together become far more than a client keeps unread.
async fn unread_bombs() {
    const KEPT_MAX: usize = 64 << 20; // `GRPC_INFLATED_MAX` of `ringway-wire`
    for (name, by) in COMPRESSIONS {
        let bombs = bomb(by, 1 << 20).repeat(300);
        let address = listen(move |peer| serve_messages(peer, name, &bombs));
        let client = Client::builder().address(&*address);
        let client = client.compression(ClientCompression::of_replies()).build();
        let client = client.expect("an address");
        let before = ALLOCATOR.stats();
        let mut replies = client.server_stream(&REPEAT, RAW, RAW, Bytes::new());
        // What comes is not read before all has come: another call is answered after it.
        let status = client.unary(&SAY, RAW, RAW, Bytes::new()).await.expect_err("300 messages");
        assert!(status.is_unimplemented() || status.is_resource_exhausted(), "{name}: {status:?}");
        let held = {
            let now = ALLOCATOR.stats();
            let kept = |at: &stats_alloc::Stats| at.bytes_allocated - at.bytes_deallocated;
            kept(&now) - kept(&before)
        };
        println!("{name}: {} MiB held", held >> 20);
        assert!(held < KEPT_MAX + (16 << 20), "{name}: {held} bytes are held");
        let mut read = 0;
        let status = loop {
            match replies.next().await {
                Ok(Some(reply)) => read += reply.len(),
                Ok(None) => panic!("{name}: all {read} bytes were kept"),
                Err(status) => break status,
            }
        };
        assert!(status.is_resource_exhausted(), "{name}: {status:?}");
        assert!(status.message().contains("unread"), "{name}: {status}");
        assert!((KEPT_MAX..KEPT_MAX + (2 << 20)).contains(&read), "{name}: {read}");
    }
}
