//! Attacks of clients on a gRPC server: they cost the client its call or its connection, are
//! counted, and affect nobody else. The machine's own tests check the codes; these check sockets
//! and counters.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use ringway_net::{ClientTls, ServerTls};
use ringway_rpc::{Client, Codec, Compression, Kind, Method, Server, ServerHandle};
use ringway_wire::grpc::{self, compress, prefix};

use crate::support::allocations::ALLOCATOR;
use crate::support::alone::alone;
use crate::support::echo::{Echo, serve, serve_at};
use crate::support::frames::*;
use crate::support::grpc_caller::{GrpcCaller, framed};
use crate::support::{LIMIT, end, eventually, socket_addr};

/// Runs `misbehave` beside a connection with a waiting call, which must not be affected.
#[track_caller]
fn check(set: impl FnOnce(Server) -> Server, misbehave: impl FnOnce(&ServerHandle, SocketAddr)) {
    let handle = serve(&Echo::default(), set);
    let address = socket_addr(&handle);
    let mut good = GrpcCaller::connect(address);
    let waiting = good.open("echo.Echo/Hang", b"");
    eventually("it waits", || handle.stats().in_flight == 1);
    misbehave(&handle, address);
    assert_eq!(good.call("echo.Echo/Say", b"well").status(), (0, ""));
    eventually("only the good call is in flight", || handle.stats().in_flight == 1);
    good.reset(waiting);
    eventually("it is given up", || handle.stats().in_flight == 0);
    drop(good);
    end(handle);
}

/// Sends bytes and waits until the server has closed the connection.
#[track_caller]
fn closed_after(address: SocketAddr, bytes: &[u8]) {
    let mut socket = TcpStream::connect(address).expect("the server listens");
    socket.set_read_timeout(Some(LIMIT)).expect("a time above zero");
    let _closed_already = socket.write_all(bytes);
    match socket.read_to_end(&mut Vec::new()) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the server has not closed the connection: {error}"),
    }
}

fn greeting() -> Vec<u8> {
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(SETTINGS, 0, 0, &[])].concat()
}

const GOOD: [(&str, &str); 4] = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/echo.Echo/Hang"),
    ("content-type", "application/grpc"),
];

/// Makes the head of a call of `Hang` without its message.
fn request(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, &head(&GOOD))
}

fn reset(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())
}

/// Makes the calls of streams 1, 3, 5, … with `call`.
fn calls(count: u32, call: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
    (0..count).flat_map(|at| call(2 * at + 1)).collect()
}

#[test]
fn floods_end_their_connection() {
    const MANY: usize = 20_000;
    let open = request(1);
    let over = [request(1), reset(1)].concat();
    let floods = [
        ("rapid reset", calls(6_000, |stream| [request(stream), reset(stream)].concat())),
        ("streams to be reset", calls(6_000, |id| frame(HEADERS, 5, id, &head(&[("X", "y")])))),
        ("settings", frame(SETTINGS, 0, 0, &[]).repeat(50)),
        ("pings", frame(PING, 0, 0, &[0; 8]).repeat(1_000)),
        ("resets", [over.clone(), reset(1).repeat(MANY)].concat()),
        ("empty DATA", [open.clone(), frame(DATA, 0, 1, &[]).repeat(MANY)].concat()),
        ("empty HEADERS", calls(6_000, |stream| frame(HEADERS, 5, stream, &[]))),
        ("priorities", frame(PRIORITY, 0, 3, &[0; 5]).repeat(MANY)),
        ("unknown frames", frame(0x77, 0, 0, b"?").repeat(MANY)),
        ("small updates", frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]).repeat(MANY)),
        ("DATA that is late", [over, frame(DATA, 0, 1, b"?").repeat(MANY)].concat()),
    ];
    let set = |server: Server| server;
    check(set, |handle, address| {
        for (count, (what, flood)) in floods.into_iter().enumerate() {
            closed_after(address, &[greeting(), flood].concat());
            eventually(what, || handle.stats().violations == count as u64 + 1);
        }
        assert!(handle.stats().malformed >= 2 * 4_096, "{:?}", handle.stats());
    });
}

#[test]
fn endless_and_huge_header_lists_end_their_connection_or_call() {
    let endless = [
        frame(HEADERS, 0, 1, &head(&GOOD)),
        frame(CONTINUATION, 0, 1, &[0]).repeat(100), // CVE-2024-27316
    ];
    let huge = frame(CONTINUATION, 0, 1, &[0; 16_000]).repeat(8);
    let long = [frame(HEADERS, 0, 1, &[]), huge];
    check(
        |server| server,
        |handle, address| {
            for (count, wire) in [endless, long].into_iter().enumerate() {
                closed_after(address, &[greeting(), wire.concat()].concat());
                eventually("it is counted", || handle.stats().violations == count as u64 + 1);
            }
            // More fields than allowed, in a block of allowed length.
            let mut caller = GrpcCaller::connect(address);
            let value = "v".repeat(20_000);
            let stream = caller.open_with("echo.Echo/Say", &[("a", &value)], &framed(b"!"), true);
            let came = caller.answer(stream);
            let (code, text) = came.status();
            assert!(code == 8 && text.contains("metadata is longer"), "{code} {text}");
            assert_eq!(handle.stats().malformed, 1);
            assert_eq!(caller.call("echo.Echo/Say", b"on").status(), (0, ""));
        },
    );
}

#[test]
fn invalid_stream_ids_end_their_connection() {
    let cases = [
        ("an even id", request(2)),
        ("an id that goes back", [request(5), request(3)].concat()),
        ("DATA before HEADERS", frame(DATA, 0, 1, b"?")),
        ("a reset before HEADERS", reset(1)),
        ("an update before HEADERS", frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1])),
        ("more after the end", [frame(HEADERS, 5, 1, &head(&GOOD)), reset(1), request(1)].concat()),
        ("a push", frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2])),
    ];
    check(
        |server| server,
        |handle, address| {
            for (count, (what, wire)) in cases.into_iter().enumerate() {
                closed_after(address, &[greeting(), wire].concat());
                eventually(what, || handle.stats().violations == count as u64 + 1);
            }
            let no_settings = [&greeting()[..24], &frame(PING, 0, 0, &[0; 8])].concat();
            closed_after(address, &no_settings);
            eventually("it is counted", || handle.stats().violations == 8);
        },
    );
}

type Fields<'a> = &'a [(&'a str, &'a str)];

#[test]
fn malformed_requests_end_only_their_call() {
    check(
        |server| server.message_bytes_max(100_000),
        |handle, address| {
            let mut caller = GrpcCaller::connect(address);
            let resets: [Fields<'_>; 6] = [
                &[("Upper", "x")],
                &[(":status", "200")],
                &[("connection", "close")],
                &[("te", "gzip")],
                &[("content-length", "99")],
                &[("te", " trailers")],
            ];
            let mut count = 0;
            for fields in resets {
                let stream = caller.open_with("echo.Echo/Say", fields, &framed(b"!"), true);
                let code = caller.answer(stream).reset.expect("it is reset");
                assert_eq!(code.0, PROTOCOL_ERROR, "{fields:?}");
                count += 1;
                assert_eq!(handle.stats().malformed, count, "{fields:?}");
            }
            let long = framed(&[0; 100_001]);
            let answered: [(Fields<'_>, &[u8], u8); 5] = [
                (&[("key-bin", "~~")], &framed(b"!"), 13),
                (&[("grpc-timeout", "soon")], &framed(b"!"), 13),
                (&[], &long, 8),
                (&[], &framed(b"!")[..5], 13),
                (&[], b"\x01\0\0\0\0", 13),
            ];
            for (fields, content, code) in answered {
                let stream = caller.open_with("echo.Echo/Say", fields, content, true);
                assert_eq!(caller.answer(stream).status().0, code, "{fields:?}");
                count += 1;
                assert_eq!(handle.stats().malformed, count, "{fields:?}");
            }
            for (field, http) in
                [(("content-type", "text/html"), "415"), ((":method", "PUT"), "405")]
            {
                let stream = caller.open_with("echo.Echo/Say", &[field], &framed(b"!"), true);
                assert_eq!(caller.answer(stream).field(":status"), Some(http));
                // It is no call, and other handlers answer it.
                assert_eq!(handle.stats().malformed, count, "{field:?}");
            }
            assert_eq!(caller.call("echo.Echo/Say", b"on").status(), (0, ""));
            assert_eq!(handle.stats().violations, 0);
        },
    );
}

#[test]
fn streams_beyond_the_limit_are_refused_and_counted() {
    check(
        |server| server.in_flight_per_connection_max(4),
        |handle, address| {
            let mut socket = TcpStream::connect(address).expect("the server listens");
            socket.write_all(&[greeting(), calls(7, request)].concat()).expect("it reads");
            eventually("three are refused", || handle.stats().refused == 3);
            assert_eq!(handle.stats().violations, 0);
        },
    );
}

#[test]
fn silent_or_stalled_clients_are_closed() {
    let set =
        |server: Server| server.keep_alive(Duration::from_millis(30), Duration::from_millis(30));
    let handle = serve(&Echo::default(), set);
    let address = socket_addr(&handle);
    let waits = |bytes: Vec<u8>| std::thread::spawn(move || closed_after(address, &bytes));
    let half_a_frame = [greeting(), request(1)[..7].to_vec()].concat();
    let half_a_head = [greeting(), frame(HEADERS, 0, 1, &[])].concat();
    let closed = [
        waits(vec![]),
        waits(greeting()[..10].to_vec()),
        waits(greeting()[..24].to_vec()), // no SETTINGS
        waits(greeting()),                // no answer to PING
        waits(half_a_frame),
        waits(half_a_head),
    ];
    for thread in closed {
        thread.join().expect("it is closed");
    }
    eventually("two have not said what they speak", || handle.stats().silent == 2);
    eventually("four have not done what is due", || handle.stats().violations == 4);
    end(handle);
}

#[test]
fn tls_on_a_plain_port_and_garbage_on_a_tls_port() {
    const HELLO: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    check(
        |server| server,
        |handle, address| {
            closed_after(address, &[HELLO, &[7; 600]].concat());
            eventually("it is counted", || handle.stats().unknown_protocols == 1);
        },
    );
    static SAY: Method = Method::new("echo.Echo/Say", Kind::Unary);
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("made");
    let tls = ServerTls::from_pem(made.cert.pem(), made.signing_key.serialize_pem());
    let tls = tls.expect("they belong together");
    let address = "tls://127.0.0.1:0".parse().expect("an address");
    let handle = serve_at(address, &Echo::default(), |server| server.tls(tls));
    let url = handle.addresses()[0].to_string().replace("tls:", "grpcs:");
    let trusting = ClientTls::new().roots_pem(made.cert.pem()).expect("a certificate");
    let good = Client::builder().address(&*url).tls(trusting).build().expect("an address");
    let say = || good.unary(&SAY, Codec::raw(), Codec::<bytes::Bytes>::raw(), "?".into()).wait();
    assert_eq!(say().expect("success"), "?");
    let garbage: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\n\r\n",
        &greeting(),
        &[0; 64],
        &[HELLO, &[7; 600]].concat(),
        b"\x16\x03\x01\xff\xff\x01",
    ];
    for (count, bytes) in garbage.into_iter().enumerate() {
        closed_after(socket_addr(&handle), bytes);
        eventually("it is counted", || handle.net().stats().handshake_errors == count as u64 + 1);
    }
    assert_eq!(say().expect("success"), "?");
    drop(good);
    end(handle);
}

#[test]
fn gzip_and_zstd_bombs_take_at_most_the_memory_of_a_message() {
    alone(|| bombs(100_000));
}

/// Sends compressed messages that are longer than `message_max`.
fn bombs(message_max: usize) {
    const BOMBS: usize = 20;
    let zeros = vec![0; 16 << 20];
    let [gzip, zstd] = [grpc::Compression::Gzip, grpc::Compression::Zstd].map(|by| {
        let bomb = compress(by, &zeros).expect("it is shorter");
        assert!(bomb.len() < message_max, "a bomb is small: {}", bomb.len());
        [&prefix(bomb.len() as u32, true)[..], &bomb].concat()
    });
    drop(zeros);
    let set = |server: Server| {
        let on = Compression::of_all_services();
        server.message_bytes_max(message_max as u32).compression(on)
    };
    check(set, |handle, address| {
        let mut caller = GrpcCaller::connect(address);
        for (name, bomb) in [("gzip", gzip), ("zstd", zstd)] {
            let mut explode = || {
                let fields = [("grpc-encoding", name)];
                let stream = caller.open_with("echo.Echo/Say", &fields, &bomb, true);
                let came = caller.answer(stream);
                let (code, text) = came.status();
                assert!(code == 8 && text.contains("exceeds the message limit"), "{code} {text}");
            };
            explode(); // allocates the tables once
            let before = ALLOCATOR.stats();
            (0..BOMBS).for_each(|_| explode());
            let after = ALLOCATOR.stats();
            let bytes = after.bytes_allocated - before.bytes_allocated;
            println!("{name}: {} bytes a bomb of 16 MiB", bytes / BOMBS);
            // A growing result was allocated several times, and the count includes the test's own
            // copies.
            assert!(bytes < BOMBS * 10 * message_max, "{name}: {bytes}");
        }
        assert_eq!(handle.stats().malformed, 2 * (BOMBS as u64 + 1));
        assert_eq!(caller.call("echo.Echo/Say", b"on").status(), (0, ""));
        assert_eq!(handle.stats().violations, 0);
    });
}
