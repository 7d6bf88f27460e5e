//! Refusals reach clients that send everything before they read anything: a reset would take from them what the
//! server has said.

use std::io::{Read, Write};
use std::net::TcpStream;

use ringway_rpc::ServerHandle;
use ringway_wire::native::PREFACE;

use crate::support::frames::{GOAWAY, PING, SETTINGS, frame};
use crate::support::math::{Plain, serve_math};
use crate::support::{LIMIT, end, socket_addr};

/// More than the sockets of both ends hold.
const MUCH: usize = 32 << 20;

/// What a server says to who sends `first` and then much more, and only then reads.
#[track_caller]
fn told(handle: &ServerHandle, first: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(socket_addr(handle)).expect("the server listens");
    socket.set_read_timeout(Some(LIMIT)).expect("a time above zero");
    socket.write_all(first).expect("the server takes it");
    let piece = vec![b' '; 64 << 10];
    for _ in 0..MUCH / piece.len() {
        socket.write_all(&piece).expect("the server takes it");
    }
    let mut said = Vec::new();
    socket.read_to_end(&mut said).expect("an orderly end");
    said
}

#[test]
fn whoever_sends_all_before_reading_learns_why_it_was_refused() {
    let address = "tcp://127.0.0.1:0".parse().expect("an address");
    let handle = serve_math(address, &Plain::default(), |server| server.message_bytes_max(10_000));
    let post = |path: &str, kind: &str| {
        let head = format!("POST {path} HTTP/1.1\r\nhost: here\r\ncontent-type: {kind}");
        format!("{head}\r\ncontent-length: {MUCH}\r\n\r\n").into_bytes()
    };
    for (path, kind, status) in [
        ("/spec.v1.Math/Shout", "text/plain", "415"),
        ("/spec.v1.Math/Shout", "application/json", "429"),
        ("/spec.v1.Math/Nothing", "application/json", "404"),
        ("/rpc", "text/plain", "415"),
        ("/rpc", "application/json", "413"),
    ] {
        let answer = String::from_utf8_lossy(&told(&handle, &post(path, kind))).into_owned();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path} {kind}: {answer}");
    }
    let line = String::from_utf8_lossy(&told(&handle, b"{")).into_owned();
    assert!(line.contains("-32700") && line.ends_with('\n'), "{line}");
    let preface: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let wrong = [preface, &frame(SETTINGS, 0, 0, &[]), &frame(PING, 0, 1, &[0; 8])].concat();
    let said = told(&handle, &wrong);
    assert_eq!(last_frame(&said), Some(GOAWAY), "{said:?}");
    let said = told(&handle, &PREFACE); // and blanks instead of a frame
    assert_eq!(said.get(PREFACE.len() + 4), Some(&0x01), "SETTINGS: {said:?}");
    assert!(said.windows(2).any(|kind| kind == [0x03, 0]), "GOAWAY: {said:?}");
    end(handle);
}

/// The type of the last frame of HTTP/2.
fn last_frame(mut said: &[u8]) -> Option<u8> {
    let mut last = None;
    while let Some((head, rest)) = said.split_first_chunk::<9>() {
        let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        last = Some(head[3]);
        said = &rest[len..];
    }
    last
}
