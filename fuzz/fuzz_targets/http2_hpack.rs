//! Feeds the fuzzer's bytes to the decoder of field blocks; see `ringway_wire::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ringway_wire::fuzz::http2_hpack(data));
