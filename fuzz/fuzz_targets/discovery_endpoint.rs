//! Feeds the fuzzer's bytes to the values of a registry's keys; see `ringway_discovery::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ringway_discovery::fuzz::endpoint(data));
