//! Feeds the fuzzer's bytes to a server of gRPC; see `ringway_wire::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ringway_wire::fuzz::grpc_server(data));
