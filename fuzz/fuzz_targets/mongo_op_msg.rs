//! Feeds the fuzzer's bytes to the reader of MongoDB's replies; see `ringway_wire::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ringway_wire::fuzz::mongo_op_msg(data));
