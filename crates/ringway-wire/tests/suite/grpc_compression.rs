//! Compressed messages at the server of gRPC.

use std::sync::Arc;

use ringway_wire::grpc::{Compression, ServerCompression, compress, decompress, prefix};
use ringway_wire::native::Side;

use crate::support::grpc::*;

const BOTH: [Compression; 2] = [Compression::Gzip, Compression::Zstd];

/// A message as another implementation compresses it.
fn compressed(by: Compression, bytes: &[u8]) -> Vec<u8> {
    let bytes = compress(by, bytes).expect("it is shorter");
    [&prefix(bytes.len() as u32, true)[..], &bytes].concat()
}

fn text(by: Compression) -> &'static str {
    if by == Compression::Gzip { "gzip" } else { "zstd" }
}

/// A server that takes compressed messages, and compresses replies of a hundred bytes and more.
fn on(serve: Serve) -> Pair {
    let mut pair = Pair::new(serve);
    pair.server.set_compression(Arc::new(ServerCompression::new(None, 100)));
    pair
}

#[test]
fn requests_and_replies_are_compressed_as_is_said() {
    for by in BOTH {
        for accepted in ["", "identity", "gzip", "zstd", "deflate, gzip,zstd"] {
            for len in [60, 5_000, 900_000] {
                let (mut pair, body) = (on(echo), vec![7; len]);
                let fields = [("grpc-encoding", text(by)), ("grpc-accept-encoding", accepted)];
                let stream = pair.call(&fields, &compressed(by, &body), true);
                pair.run_cut(1_000);
                assert_eq!(pair.status(stream), "0");
                let came = pair.answer(stream);
                let best = ["zstd", "gzip"].into_iter().find(|name| accepted.contains(name));
                let said = came.head.iter().find_map(|line| line.strip_prefix("grpc-encoding: "));
                assert_eq!(said, best, "{accepted}");
                let (head, content) = came.content.split_at(5);
                let is_compressed = best.is_some() && len >= 100;
                assert_eq!(head[0], u8::from(is_compressed), "{accepted} {len}");
                let by = Compression::parse(best.unwrap_or_default().as_bytes());
                let by = if is_compressed { by } else { Compression::Identity };
                assert_eq!(decompress(by, content, len).expect("whole"), body);
                let kept = pair.server.kept_len(Side::Unread);
                assert_eq!((pair.server.in_flight(), kept), (0, 0));
            }
        }
    }
}

#[test]
fn streams_of_compressed_messages_keep_their_window() {
    for by in BOTH {
        let mut pair = on(echo_stream);
        let fields = [("grpc-encoding", text(by)), ("grpc-accept-encoding", text(by))];
        let stream = pair.call(&fields, b"", false);
        let message = compressed(by, &[9; 200_000]);
        // The message exceeds the window on the wire, and a thousand times that in memory.
        let count = 3 * (1 << 20) / message.len();
        for _ in 0..count.min(20_000) {
            pair.more(stream, &message, false);
            pair.run();
        }
        pair.more(stream, b"", true);
        pair.run();
        assert_eq!(pair.status(stream), "0", "{by:?}");
        assert_eq!(pair.server.kept_len(Side::Unread), 0);
    }
}

#[test]
fn what_is_not_known_or_not_wanted_is_unimplemented_with_what_is() {
    let accepted = |pair: &Pair, stream| {
        let came = pair.answer(stream);
        let find = |line: &String| line.strip_prefix("grpc-accept-encoding: ").map(String::from);
        came.head.iter().find_map(find).expect("it is said")
    };
    let content = compressed(Compression::Gzip, &[7; 200]);
    let mut pair = on(echo);
    let unknown = pair.call(&[("grpc-encoding", "br")], &content, true);
    pair.run();
    assert!(pair.status(unknown).starts_with("12 "));
    assert_eq!(accepted(&pair, unknown), "identity,zstd,gzip");
    // Off, and for another method alone.
    let mut others = Pair::new(echo);
    others.server.set_compression(Arc::new(ServerCompression::new(Some(&[2]), 0)));
    for mut pair in [Pair::new(echo), others] {
        let fields = [("grpc-encoding", "gzip"), ("grpc-accept-encoding", "gzip")];
        let refused = pair.call(&fields, &content, true);
        let plain = pair.call(&fields, &message(&[7; 200]), true);
        pair.run();
        assert!(pair.status(refused).starts_with("12 "));
        assert_eq!(pair.answer(plain).content, message(&[7; 200]));
    }
    let mut chosen = on(echo);
    chosen.server.set_compression(Arc::new(ServerCompression::new(Some(&[2]), 0)));
    let mut fields = but(":path", "/a.B/D");
    fields.push(("grpc-encoding", "gzip"));
    let served = chosen.open(&fields, &content, true);
    chosen.run();
    assert_eq!(chosen.status(served), "0");
}

#[test]
fn a_flag_without_an_encoding_and_broken_messages_are_internal() {
    let mut pair = on(echo);
    let no_name = pair.call(&[], &compressed(Compression::Gzip, &[7; 200]), true);
    let identity = [("grpc-encoding", "identity")];
    let not_so = pair.call(&identity, &compressed(Compression::Gzip, &[7; 200]), true);
    let other = [("grpc-encoding", "zstd")];
    let wrong = pair.call(&other, &compressed(Compression::Gzip, &[7; 200]), true);
    let mut cut = compressed(Compression::Gzip, &[7; 200]);
    cut.pop();
    cut[4] -= 1;
    let cut = pair.call(&[("grpc-encoding", "gzip")], &cut, true);
    pair.run();
    for stream in [no_name, not_so, wrong, cut] {
        assert!(pair.status(stream).starts_with("13 "), "{}", pair.status(stream));
    }
    let after = pair.call(&[], &message(b"the connection lives"), true);
    pair.run();
    assert_eq!(pair.status(after), "0");
}

#[test]
fn bombs_are_too_long_and_nothing_is_kept_of_them() {
    for by in BOTH {
        let mut pair = on(echo);
        let bomb = compressed(by, &vec![0; 32 << 20]);
        assert!(bomb.len() < 200_000, "{}", bomb.len());
        let unary = pair.call(&[("grpc-encoding", text(by))], &bomb, true);
        let late = pair.call(&[("grpc-encoding", text(by))], &bomb, false);
        pair.run();
        for stream in [unary, late] {
            assert!(pair.status(stream).starts_with("8 "), "{}", pair.status(stream));
        }
        assert_eq!(pair.server.kept_len(Side::Unread), 0);
    }
}

#[test]
fn a_client_may_not_fill_the_memory_with_few_bytes() {
    for by in BOTH {
        let mut pair = on(nothing);
        let stream = pair.call(&[("grpc-encoding", text(by))], b"", false);
        let bomb = compressed(by, &vec![0; 1 << 20]);
        let mut most = 0;
        for _ in 0..100 {
            if pair.came.contains_key(&stream.id()) {
                break;
            }
            pair.more(stream, &bomb, false);
            pair.run();
            most = most.max(pair.server.kept_len(Side::Unread));
        }
        assert!(pair.status(stream).starts_with("8 "), "{}", pair.status(stream));
        assert!((60 << 20..70 << 20).contains(&most), "{most}");
        assert_eq!(pair.server.kept_len(Side::Unread), 0);
    }
}
