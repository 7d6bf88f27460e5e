//! Feeds the fuzzer's bytes to the decoders of what browsers send; see `ringway_wire::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ringway_wire::fuzz::web(data));
