//! Feeds the fuzzer's bytes to a server of HTTP/2; see `ringway_wire::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ringway_wire::fuzz::http2_server(data));
