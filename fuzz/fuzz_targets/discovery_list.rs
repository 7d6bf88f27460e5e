//! Feeds the fuzzer's bytes to the lists of hosts; see `ringway_discovery::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ringway_discovery::fuzz::list(data));
