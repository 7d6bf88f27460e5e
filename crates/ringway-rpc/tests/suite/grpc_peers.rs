//! What a client makes of what gRPC servers may do: it repeats a refused call, and says who decided a failure
//! and why.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use ringway_rpc::{Client, Code, Codec, Kind, Method, Origin, Status};
use ringway_wire::http2::ErrorCode;

use crate::grpc_bad_servers::{Peer, listen};
use crate::support::frames::*;

static SAY: Method = Method::new("echo.Echo/Say", Kind::Unary);

const RAW: Codec<Bytes> = Codec::raw();

fn say(client: &Client) -> Result<Bytes, Status> {
    client.unary(&SAY, RAW, RAW, Bytes::new()).wait()
}

fn reset(code: ErrorCode) -> impl Fn(&mut Peer, u32) {
    move |peer, stream| peer.write(&frame(RST_STREAM, 0, stream, &code.0.to_be_bytes()))
}

/// The failure of a call to a server that answers each request so.
fn failure(answer: impl Fn(&mut Peer, u32) + Send + 'static) -> Status {
    let address = listen(move |mut peer| {
        peer.settings(100);
        while let Some(stream) = peer.request() {
            answer(&mut peer, stream);
        }
    });
    say(&Client::connect(&*address).expect("an address")).expect_err("as it answers")
}

#[test]
fn a_stream_that_is_refused_once_is_opened_again_where_there_is_one_connection() {
    let (came, connections) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counted = (Arc::clone(&came), Arc::clone(&connections));
    let address = listen(move |mut peer| {
        counted.1.fetch_add(1, Ordering::SeqCst);
        peer.settings(100);
        while let Some(stream) = peer.request() {
            match counted.0.fetch_add(1, Ordering::SeqCst) {
                0 => reset(ErrorCode::REFUSED_STREAM)(&mut peer, stream),
                _ => peer.reply(stream),
            }
        }
    });
    let client = Client::connect(&*address).expect("an address");
    assert_eq!(say(&client).expect("the second attempt"), "!");
    let counts = [&came, &connections].map(|count| count.load(Ordering::SeqCst));
    assert_eq!(counts, [2, 1], "requests and connections");
}

#[test]
fn a_call_that_is_refused_always_is_sent_twice() {
    let came = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&came);
    let status = failure(move |peer, stream| {
        counted.fetch_add(1, Ordering::SeqCst);
        reset(ErrorCode::REFUSED_STREAM)(peer, stream);
    });
    assert!(status.is_unavailable() && status.is_not_executed(), "{status:?}");
    assert_eq!(came.load(Ordering::SeqCst), 2);
}

#[test]
fn a_server_that_leaves_with_a_reason_is_quoted() {
    let address = listen(|mut peer| {
        peer.settings(100);
        if peer.request().is_some() {
            let calm = &ErrorCode::ENHANCE_YOUR_CALM.0.to_be_bytes();
            let reason = [&[0; 4][..], calm, b"too_many_pings"].concat();
            peer.write(&frame(GOAWAY, 0, 0, &reason));
        }
    });
    let status = say(&Client::connect(&*address).expect("an address")).expect_err("it leaves");
    assert!(status.is_unavailable() && status.is_not_executed(), "{status:?}");
    assert!(status.message().contains("ENHANCE_YOUR_CALM: too_many_pings"), "{status}");
    assert!(!status.message().contains("not needed"), "{status}");
}

#[test]
fn who_decided_a_failure_is_named() {
    let fields = [(":status", "200"), ("content-type", "application/grpc")];
    let headers = move |flags: u8, stream: u32, more: &[(&str, &str)]| {
        frame(HEADERS, 0x4 | flags, stream, &head(&[&fields, more].concat()))
    };
    let page = failure(move |peer, stream| {
        peer.write(&frame(HEADERS, 0x5, stream, &head(&[(":status", "404")])));
    });
    assert_eq!((page.code(), page.origin()), (Code::Unimplemented, Origin::Peer));
    let none = failure(move |peer, stream| peer.write(&headers(1, stream, &[])));
    assert_eq!((none.code(), none.origin()), (Code::Unknown, Origin::Peer));
    let reset = failure(reset(ErrorCode::NO_ERROR));
    assert_eq!((reset.code(), reset.origin()), (Code::Internal, Origin::Peer));
    let broken = failure(move |peer, stream| {
        peer.write(&headers(0, stream, &[]));
        peer.write(&frame(DATA, 0, stream, &[2, 0, 0, 0, 0]));
    });
    assert_eq!((broken.code(), broken.origin()), (Code::Internal, Origin::Local));
    assert!(broken.message().starts_with("echo.Echo/Say: "), "{broken}");
    let said = failure(move |peer, stream| {
        peer.write(&headers(1, stream, &[("grpc-status", "5"), ("grpc-message", "no user: ")]));
    });
    assert_eq!((said.code(), said.origin()), (Code::NotFound, Origin::Handler));
    assert_eq!(said.message(), "no user:");
}
