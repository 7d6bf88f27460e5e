//! Feeds the fuzzer's bytes to the `native_codec` decoders; see `ringway_wire::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ringway_wire::fuzz::native_codec(data));
