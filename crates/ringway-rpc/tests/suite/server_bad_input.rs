//! Peers that violate the protocol, over real sockets. Other connections are not affected.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use ringway_rpc::{Code, ServerHandle};
use ringway_wire::native::{Flags, FrameKind, Header, PREFACE, RequestHead, StreamId};

use crate::support::caller::Caller;
use crate::support::echo::{Echo, serve};
use crate::support::{LIMIT, end, eventually, socket_addr};

/// Sends bytes until the server has closed the connection; returns what it sent.
fn closed_after(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(address).expect("the server listens");
    socket.set_read_timeout(Some(LIMIT)).expect("a time above zero");
    let _closed_already = socket.write_all(bytes);
    let mut said = Vec::new();
    match socket.read_to_end(&mut said) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the server has not closed the connection: {error}"),
    }
    said
}

fn frame(kind: u8, flags: u8, stream: u32, aux: u32, body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend_from_slice(&(body.len() as u32).to_le_bytes());
    frame.extend_from_slice(&[kind, flags, 0, 0]);
    frame.extend_from_slice(&stream.to_le_bytes());
    frame.extend_from_slice(&aux.to_le_bytes());
    frame.extend_from_slice(body);
    frame
}

fn greeting() -> Vec<u8> {
    let mut bytes = PREFACE.to_vec();
    bytes.extend(frame(0x01, 0, 0, 0, &[]));
    bytes
}

/// Runs `misbehave` beside a connection with a waiting call, which must not be affected.
#[track_caller]
fn check(misbehave: impl FnOnce(&ServerHandle, SocketAddr)) {
    let handle = serve(&Echo::default(), |server| server.message_bytes_max(100_000));
    let address = socket_addr(&handle);
    let mut good = Caller::connect(address);
    let waiting = good.open("echo.Echo/Late", b"50");
    misbehave(&handle, address);
    assert_eq!(good.answer(waiting).ok(), "50");
    assert_eq!(good.call("echo.Echo/Say", b"well").ok(), "well");
    end(handle);
}

#[test]
fn other_protocols_are_closed_and_counted() {
    let cases: [&[u8]; 5] = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n",
        b"\x0d\x0a\x0d\x0a\x00\x0d\x0a\x51\x55\x49\x54\x0a",
        b"\xf7\x52\x57\x58 almost",
        &[0; 64],
    ];
    check(|handle, address| {
        for bytes in cases {
            assert!(closed_after(address, bytes).is_empty());
        }
        assert_eq!(handle.stats().unknown_protocols, cases.len() as u64);
    });
}

/// Any word may be a method of HTTP/1.1, so this is told in its way.
#[test]
fn what_begins_like_a_request_is_refused_as_one() {
    check(|handle, address| {
        let answer = closed_after(address, b"PRI * HTTP/2.0\r\n\r\nNO\r\n\r\n");
        assert!(answer.starts_with(b"HTTP/1.1 "), "{}", answer.escape_ascii());
        assert_eq!(handle.stats().unknown_protocols, 0);
    });
}

#[test]
fn silent_connection_is_closed() {
    check(|handle, address| {
        let began = Instant::now();
        let silent = std::thread::spawn(move || closed_after(address, b""));
        assert!(closed_after(address, &PREFACE[..3]).is_empty());
        assert!(silent.join().expect("it is closed").is_empty());
        assert!(began.elapsed() >= Duration::from_millis(2_900), "{:?}", began.elapsed());
        assert_eq!(handle.stats().silent, 2);
    });
}

#[test]
fn preface_in_pieces_is_accepted() {
    check(|_, address| {
        let mut socket = TcpStream::connect(address).expect("the server listens");
        socket.set_nodelay(true).expect("an option of TCP");
        socket.set_read_timeout(Some(LIMIT)).expect("a time above zero");
        for byte in greeting() {
            socket.write_all(&[byte]).expect("the server reads");
        }
        let mut preface = [0; 8];
        socket.read_exact(&mut preface).expect("the server greets");
        assert_eq!(preface, PREFACE);
    });
}

#[test]
fn broken_frames_end_their_connection_with_a_reason() {
    let cases: [(&str, Vec<u8>); 5] = [
        ("an unknown kind", frame(0x0f, 0, 0, 0, &[])),
        ("a frame beyond the limit", frame(0x10, 0x21, 0x1001, 0, &[])[..16].to_vec()),
        ("a request without its head", frame(0x10, 0x01, 0x1001, 0, &[1; 8])),
        ("data of a stream that never was", frame(0x12, 0, 0x5001, 0, b"x")),
        ("settings out of range", frame(0x01, 0, 0, 0, &[1, 0, 1, 0, 0, 0])),
    ];
    check(|handle, address| {
        for (count, (what, bad)) in cases.into_iter().enumerate() {
            let mut bytes = greeting();
            bytes.extend_from_slice(&bad);
            if what == "a frame beyond the limit" {
                let at = bytes.len() - 16;
                bytes[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
            }
            let said = closed_after(address, &bytes);
            assert!(has_go_away(&said), "{what}: {said:?}");
            assert_eq!(handle.stats().violations, count as u64 + 1, "{what}");
        }
    });
}

#[test]
fn client_without_metadata_gets_failures_without_it() {
    check(|_, address| {
        for max_meta in [0, 1, 16, 54] {
            let mut bytes = PREFACE.to_vec();
            bytes.extend(frame(0x01, 0, 0, 0, &[5, 0, max_meta, 0, 0, 0]));
            bytes.extend(named_request("no.such/Method", b""));
            bytes.extend(frame(0, 0, 0, 0, &[]));
            assert!(has_go_away(&closed_after(address, &bytes)));
        }
    });
}

#[test]
fn violation_while_replies_wait_ends_only_its_connection() {
    check(|handle, address| {
        for method in ["echo.Echo/Repeat", "echo.Echo/Say"] {
            // Many or long replies with the largest possible credit, none of which is read.
            let mut bytes = greeting();
            bytes.extend(named_request(method, &[255; 65_536]));
            bytes.extend(frame(0, 0, 0, 0, &[]));
            closed_after(address, &bytes);
        }
        assert_eq!(handle.stats().violations, 2);
    });
}

/// Makes a whole call of a method.
fn named_request(name: &str, message: &[u8]) -> Vec<u8> {
    let mut body = 0_u32.to_le_bytes().to_vec();
    body.extend_from_slice(&[0; 8]);
    body.extend_from_slice(&(i32::MAX as u32).to_le_bytes());
    body.extend_from_slice(&[1, name.len() as u8]);
    body.extend_from_slice(name.as_bytes());
    body.extend_from_slice(message);
    let mut bytes = frame(0x10, 0x21, 1, 0, &body);
    bytes[6] = name.len() as u8 + 2; // the length of the metadata
    bytes
}

#[test]
fn floods_end_their_connection() {
    let pings = frame(0x02, 0, 0, 7, &[]);
    let settings = frame(0x01, 0, 0, 0, &[]);
    let resets = resets(80_000);
    check(|handle, address| {
        for (count, flood) in [pings, settings].into_iter().enumerate() {
            closed_after(address, &[greeting(), flood.repeat(50_000)].concat());
            eventually("it counts", || handle.stats().violations == count as u64 + 1);
        }
        closed_after(address, &[greeting(), resets].concat());
        eventually("resets", || handle.stats().violations == 3);
        eventually("only the good call may be in flight", || handle.stats().in_flight <= 1);
    });
}

/// Makes calls that wait, each cancelled at once.
fn resets(count: u32) -> Vec<u8> {
    let mut head = 1_u32.to_le_bytes().to_vec();
    head.extend_from_slice(&[0; 8]);
    head.extend_from_slice(&65_536_u32.to_le_bytes());
    let name = b"echo.Echo/Hang";
    let mut named = head.clone();
    named.extend_from_slice(&[1, name.len() as u8]);
    named.extend_from_slice(name);
    let mut bytes = frame(0x10, 0x21, 1, 0, &named);
    bytes[6] = name.len() as u8 + 2; // the length of the metadata
    bytes.extend(frame(0x14, 0, 1, 1, &[]));
    for call in 1..count {
        let stream = 1 + call % 4_095;
        bytes.extend(frame(0x10, 0x01, stream, 0, &head));
        bytes.extend(frame(0x14, 0, stream, 1, &[]));
    }
    bytes
}

#[test]
fn message_beyond_the_limit_ends_only_its_call() {
    check(|_, address| {
        let mut caller = Caller::connect(address);
        let large = caller.open("echo.Echo/Say", &vec![0; 100_001]);
        assert_eq!(caller.answer(large).code, Code::ResourceExhausted);
        assert_eq!(caller.call("echo.Echo/Say", &vec![0; 100_000]).ok().len(), 100_000);
    });
}

#[test]
fn invalid_metadata_ends_only_its_call() {
    check(|_, address| {
        let mut caller = Caller::connect(address);
        for meta in [&b"\x70\x01x"[..], b"\x00\x03\x02K "] {
            let message = Some(&b"x"[..]);
            let stream = caller.open_with("echo.Echo/Say", message, true, |open| open.meta = meta);
            assert_ne!(caller.answer(stream).code, Code::Ok);
        }
        assert_eq!(caller.call("echo.Echo/Say", b"well").ok(), "well");
    });
}

/// Whether a server's output ends with a GOAWAY.
fn has_go_away(said: &[u8]) -> bool {
    let mut rest = said.get(PREFACE.len()..).unwrap_or(&[]);
    let mut last = None;
    while let Some((header, body)) = rest.split_first_chunk() {
        let Ok(header) = Header::decode(header) else { return false };
        let Some(after) = body.get(header.len as usize..) else { return false };
        last = Some((header.kind, header.flags, header.stream));
        rest = after;
    }
    last == Some((FrameKind::GoAway, Flags::NONE, StreamId::CONNECTION))
}

#[test]
fn unannounced_compression_fails_only_its_call() {
    check(|_, address| {
        let mut socket = TcpStream::connect(address).expect("the server listens");
        socket.set_read_timeout(Some(LIMIT)).expect("a time above zero");
        socket.write_all(&greeting()).expect("the server reads");
        let mut preface = [0; 8];
        socket.read_exact(&mut preface).expect("the server greets");
        // The low half is the compression of the message, the high half what is accepted in
        // replies.
        for (slot, compression, code) in [(0, 1, 12), (1, 15, 12), (2, 0x21, 12), (3, 0xF0, 0)] {
            let head = RequestHead { compression, ..RequestHead::default() };
            let name = b"\x01\x0decho.Echo/Say";
            let mut request =
                frame(0x10, 0x21, slot << 12 | 1, 0, &[&head.encode(), &name[..]].concat());
            request[6] = name.len() as u8;
            socket.write_all(&request).expect("the connection goes on");
            assert_eq!(
                response(&mut socket),
                (slot << 12 | 1, code),
                "compression {compression:#x}"
            );
        }
    });
}

/// Returns stream and status of the next response.
fn response(socket: &mut TcpStream) -> (u32, u32) {
    loop {
        let mut header = [0; 16];
        socket.read_exact(&mut header).expect("the connection goes on");
        let word =
            |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        socket.read_exact(&mut vec![0; word(0) as usize]).expect("the connection goes on");
        if header[4] == 0x11 {
            return (word(8), word(12));
        }
    }
}
