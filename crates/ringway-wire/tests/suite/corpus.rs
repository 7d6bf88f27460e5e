//! Replays every file of the fuzzer's corpus, so that a defect that was found once cannot come back.

use std::path::Path;

use ringway_wire::fuzz;

#[test]
fn delimiter() {
    replay("delimiter", fuzz::delimiter);
}

#[test]
fn detect() {
    replay("detect", fuzz::detect);
}

#[test]
fn fixed_size() {
    replay("fixed_size", fuzz::fixed_size);
}

#[test]
fn grpc_client() {
    replay("grpc_client", fuzz::grpc_client);
}

#[test]
fn grpc_codec() {
    replay("grpc_codec", fuzz::grpc_codec);
}

#[test]
fn grpc_server() {
    replay("grpc_server", fuzz::grpc_server);
}

#[test]
fn http2_client() {
    replay("http2_client", fuzz::http2_client);
}

#[test]
fn http2_server() {
    replay("http2_server", fuzz::http2_server);
}

#[test]
fn http2_hpack() {
    replay("http2_hpack", fuzz::http2_hpack);
}

#[test]
fn jsonrpc() {
    replay("jsonrpc", fuzz::jsonrpc);
}

#[test]
fn length_field() {
    replay("length_field", fuzz::length_field);
}

#[test]
fn line() {
    replay("line", fuzz::line);
}

#[test]
fn mongo_op_msg() {
    replay("mongo_op_msg", fuzz::mongo_op_msg);
}

#[test]
fn mongo_scram() {
    replay("mongo_scram", fuzz::mongo_scram);
}

#[test]
fn native_codec() {
    replay("native_codec", fuzz::native_codec);
}

#[test]
fn native_client() {
    replay("native_client", fuzz::native_client);
}

#[test]
fn native_pair() {
    replay("native_pair", fuzz::native_pair);
}

#[test]
fn native_server() {
    replay("native_server", fuzz::native_server);
}

#[test]
fn web() {
    replay("web", fuzz::web);
}

#[test]
fn websocket() {
    replay("websocket", fuzz::websocket);
}

fn replay(target: &str, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files = 0;
    for entry in folder.read_dir().expect("the corpus is part of the repository") {
        let path = entry.expect("a readable folder").path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        eprintln!("{target}: {}", name.unwrap_or_default());
        run(&std::fs::read(&path).expect("a readable file"));
        files += 1;
    }
    assert!(files > 0, "fuzz/corpus/{target} holds no input");
}
