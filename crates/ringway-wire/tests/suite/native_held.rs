//! The memory of a server's streams, as the allocator sees it.

use std::sync::Arc;
use std::time::Duration;

use ringway_wire::grpc::{GrpcServer, RequestNames, ServerConfig};
use ringway_wire::http2::{Http2Config, Vocabulary};
use ringway_wire::native::{Body, Config, MetaWriter, Reply, Server, ServerEvent, Side, StreamId};

use crate::support::allocations::ALLOCATOR;
use crate::support::alone::alone;
use crate::support::by_hand::feed_at;
use crate::support::raw::{MORE, NOMSG, RST, frame, greeting, id, request};
use crate::support::{grpc, http2};

const NOW: Duration = Duration::ZERO;
const KIB: usize = 1 << 10;

fn live() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

fn server() -> Server {
    let mut server = Server::new(Config::default(), NOW);
    feed_at(&mut server, &greeting(), NOW).expect("in order");
    server
}

/// Calls that are given up while their messages wait behind others that nobody reads.
fn given_up_in_line() {
    let mut server = server();
    let before = live();
    for number in 0..3_000 {
        let call = id(number % 100, 1 + number / 100);
        feed_at(&mut server, &request(NOMSG, call, 0, &[]), NOW).expect("in order");
        for _ in 0..20 {
            let message = Body::Copy(&[7; 3_000]);
            server.send(StreamId::from_raw(call), &[], message).expect("open");
        }
        feed_at(&mut server, &frame(RST, 0, call, 1, &[]), NOW).expect("in order");
        while feed_at(&mut server, &[], NOW).is_ok_and(|told| !told.is_empty()) {}
    }
    let kept = live() - before;
    let counted = server.kept_len(Side::Unsent);
    assert!(kept <= 2 * counted + 512 * KIB, "{kept} bytes, of which {counted} are counted");
}

/// Requests that have begun to arrive, and that the server ends for lack of memory.
fn small_and_many() {
    let mut server = server();
    let before = live();
    for slot in 0..1_000 {
        feed_at(&mut server, &request(MORE, id(slot, 1), 0, b"1"), NOW).expect("in order");
    }
    let (kept, counted) = (live() - before, server.kept_len(Side::Unread));
    assert!(kept < counted + counted / 8, "{kept} bytes, of which {counted} are counted");
    while server.end_largest(Side::Unread) {}
    server.drop_spare();
    server.transmit(usize::MAX, &mut |_| ());
    assert_eq!((server.kept_len(Side::Unread), server.spare_len()), (0, 0));
    // The table of calls, the list of deadlines, and the output's buffer.
    let kept = live() - before;
    assert!(kept < 256 * KIB, "{kept} bytes are kept for nothing");
}

/// Replies of a byte over gRPC, with trailers of so many bytes, to a client whose windows are closed.
fn closed_windows(trailers: usize) {
    let names = RequestNames::new([("/a.B/C", 1)]);
    let config = ServerConfig { http2: Http2Config::default().into(), max_message: 1 << 20 };
    let mut server = GrpcServer::new(config, Arc::new(Vocabulary::new(names)), NOW);
    let no_window = [0, 4, 0, 0, 0, 0];
    let mut said = [http2::PREFACE, &http2::frame(http2::SETTINGS, 0, 0, &no_window)].concat();
    let mut meta = Vec::new();
    MetaWriter::new(&mut meta).entry("x-a", &vec![b'y'; trailers]);
    let before = live();
    for number in 0..1_000 {
        let stream = 2 * number + 1;
        let flags = http2::END_HEADERS;
        said.extend(http2::frame(http2::HEADERS, flags, stream, &http2::block(grpc::GOOD)));
        said.extend(http2::frame(http2::DATA, http2::END_STREAM, stream, &grpc::message(b"x")));
        let mut input = &said[..];
        while let Some(event) = server.receive(&mut input, NOW).expect("a good client") {
            let ServerEvent::Request { stream, .. } = event else { panic!("{event:?}") };
            let message = Some(Body::Copy(b"y"));
            server.respond(stream, Reply { status: 0, meta: &meta, message });
        }
        said.clear();
        server.transmit(usize::MAX, &mut |_| ());
    }
    let (kept, counted) = (live() - before, server.kept_len(Side::Unsent));
    let what = format!("{kept} bytes, of which {counted} are counted, {trailers} of trailers");
    assert!(kept < counted + counted / 4 && counted < 2 * kept, "{what}");
    while server.end_largest(Side::Unsent) {}
    server.transmit(usize::MAX, &mut |_| ()); // the resets
    assert_eq!((server.kept_len(Side::Unsent), server.in_flight()), (0, 0));
}

#[test]
fn what_streams_take_up_is_counted_and_given_back() {
    alone(|| {
        [1, 1_000, 10_000].into_iter().for_each(closed_windows);
        given_up_in_line();
        small_and_many();
    });
}
