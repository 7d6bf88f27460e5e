//! Makes client and server of the native protocol talk to each other as the fuzzer's bytes say; see
//! `ringway_wire::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ringway_wire::fuzz::native_pair(data));
