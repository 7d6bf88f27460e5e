//! Feeds the fuzzer's bytes to the `fixed_size` decoder; see `ringway_wire::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ringway_wire::fuzz::fixed_size(data));
