//! Feeds the fuzzer's bytes to the native protocol's client; see `ringway_wire::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ringway_wire::fuzz::native_client(data));
