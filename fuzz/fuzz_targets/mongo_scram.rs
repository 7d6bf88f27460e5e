//! Feeds the fuzzer's bytes to a SCRAM client; see `ringway_wire::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ringway_wire::fuzz::mongo_scram(data));
