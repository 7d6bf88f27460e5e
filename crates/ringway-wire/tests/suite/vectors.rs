//! Frames of each codec, byte by byte.

use ringway_wire::{Codec, Decoded, Error, LengthField, LengthFrame, Width};

use crate::support;

#[test]
fn every_width_and_order() {
    check(LengthField::u8(), &[], b"abc", b"\x03abc");
    check(LengthField::u16_be(), &[], b"abc", b"\x00\x03abc");
    check(LengthField::u16_le(), &[], b"abc", b"\x03\x00abc");
    check(LengthField::u32_be(), &[], b"abc", b"\x00\x00\x00\x03abc");
    check(LengthField::u32_le(), &[], b"abc", b"\x03\x00\x00\x00abc");
    check(LengthField::u64_be(), &[], b"abc", b"\0\0\0\0\0\0\0\x03abc");
    check(LengthField::u64_le(), &[], b"abc", b"\x03\0\0\0\0\0\0\0abc");
    check(LengthField::varint(), &[], b"abc", b"\x03abc");
}

#[test]
fn empty_payloads() {
    check(LengthField::u8(), &[], b"", b"\0");
    check(LengthField::u32_le(), &[], b"", b"\0\0\0\0");
    check(LengthField::u32_le().counts_whole_frame(), &[], b"", b"\x04\0\0\0");
    check(LengthField::varint().counts_whole_frame(), &[], b"", b"\x01");
}

#[test]
fn headers_and_counting() {
    check(LengthField::u8().offset(2), b"hh", b"abc", b"hh\x03abc");
    check(LengthField::u16_le().offset(1).counts_whole_frame(), b"h", b"ab", b"h\x05\0ab");
    // The length counts two bytes of header too.
    check(LengthField::u16_be().offset(2).adjustment(-2), b"hh", b"abc", b"hh\0\x05abc");
    // A checksum of two bytes follows that the length does not count.
    check(LengthField::u8().adjustment(2), &[], b"abcCC", b"\x03abcCC");
}

#[test]
fn byte_order_shows_in_long_payloads() {
    let payload = [7; 0x1234];
    check(LengthField::u16_be(), &[], &payload, &[b"\x12\x34", &payload[..]].concat());
    check(LengthField::u32_le(), &[], &payload, &[b"\x34\x12\0\0", &payload[..]].concat());
    check(LengthField::varint(), &[], &payload, &[b"\xb4\x24", &payload[..]].concat());
}

#[test]
fn varint_lengths() {
    for (len, field) in
        [(127, &b"\x7f"[..]), (128, b"\x80\x01"), (16_383, b"\xff\x7f"), (16_384, b"\x80\x80\x01")]
    {
        let payload = vec![1; len];
        check(LengthField::varint(), &[], &payload, &[field, &payload[..]].concat());
    }
    // The field counts itself, which makes it longer.
    let codec = LengthField::varint().counts_whole_frame();
    check(codec, &[], &[1; 126], &[b"\x7f", &[1; 126][..]].concat());
    check(codec, &[], &[1; 127], &[b"\x81\x01", &[1; 127][..]].concat());
}

#[test]
fn varints_may_be_padded_up_to_five_bytes() {
    for input in [&b"\x82\x00ab"[..], b"\x82\x80\x80\x80\x00ab"] {
        let item = LengthFrame { header: b"", payload: b"ab" };
        let frame = Decoded::Frame { item, consumed: input.len() };
        assert_eq!(LengthField::varint().decode(input), Ok(frame));
    }
    let error = LengthField::varint().decode(b"\x82\x80\x80\x80\x80\x00ab");
    assert_eq!(error, Err(Error::VarintTooLong { max: 5 }));
}

#[test]
fn needs_are_exact_and_never_less_than_what_is_there() {
    let mut codec = LengthField::u32_le().offset(2);
    for (input, need) in
        [(&b""[..], 6), (b"h", 6), (b"hh\x03\0\0", 6), (b"hh\x03\0\0\0", 9), (b"hh\x03\0\0\0ab", 9)]
    {
        assert_eq!(codec.decode(input), Ok(Decoded::NeedAtLeast(need)), "{input:?}");
    }
    let mut codec = LengthField::varint().offset(2);
    for (input, need) in [(&b""[..], 3), (b"hh", 3), (b"hh\x80", 4), (b"hh\x80\x01", 132)] {
        assert_eq!(codec.decode(input), Ok(Decoded::NeedAtLeast(need)), "{input:?}");
    }
}

#[test]
fn bad_lengths_from_a_peer() {
    let too_large = |len, max| Err(Error::FrameTooLarge { len, max });
    let underflow = |value, min| Err(Error::LengthUnderflow { value, min });
    let cases = [
        (decode(LengthField::u8().frame_max(9), b"\x09"), too_large(10, 9)),
        (decode(LengthField::u32_le(), b"\xff\xff\xff\xff"), too_large((1 << 32) + 3, 16 << 20)),
        (decode(LengthField::u64_be(), &[0xff; 8]), too_large(u64::MAX, 16 << 20)),
        (decode(LengthField::u64_le().adjustment(i32::MAX), &[0xff; 8]), {
            too_large(u64::MAX, 16 << 20)
        }),
        (decode(LengthField::u64_le().adjustment(-1), &[0xff; 8]), too_large(u64::MAX, 16 << 20)),
        (
            decode(LengthField::varint().frame_max(99), b"\xff\xff\x7f"),
            too_large(0x1f_ffff + 3, 99),
        ),
        (decode(LengthField::u16_be().counts_whole_frame(), b"\0\x01"), underflow(1, 2)),
        (decode(LengthField::u8().offset(3).counts_whole_frame(), b"hhh\x03"), underflow(3, 4)),
        (decode(LengthField::u8().adjustment(-7), b"\x06"), underflow(6, 7)),
        (decode(LengthField::varint(), &[0xff; 5]), Err(Error::VarintTooLong { max: 5 })),
        (decode(LengthField::u32_be().frame_max(0), b"\0\0\0\x01"), too_large(5, 4)),
    ];
    for (index, (actual, expected)) in cases.into_iter().enumerate() {
        assert_eq!(actual, expected, "case {index}");
        assert!(expected.is_err_and(|error| error.is_peer_fault()), "case {index}");
    }
}

#[test]
fn payloads_that_do_not_fit() {
    let long = [0; 300];
    let too_large = |max| Err(Error::PayloadTooLarge { len: 300, max });
    let cases = [
        (encode(LengthField::u8(), &[], &long), too_large(255)),
        (encode(LengthField::u8().offset(1).counts_whole_frame(), b"h", &long), too_large(253)),
        (encode(LengthField::u32_le().frame_max(300), &[], &long), too_large(296)),
        (encode(LengthField::varint().frame_max(301), &[], &long), too_large(296)),
        (encode(LengthField::u8().adjustment(9), &[], b"abc"), {
            Err(Error::PayloadTooSmall { len: 3, min: 9 })
        }),
        (encode(LengthField::u8().offset(2), &[], b"abc"), {
            Err(Error::WrongHeaderSize { len: 0, expected: 2 })
        }),
        (encode(LengthField::u8(), b"h", b"abc"), {
            Err(Error::WrongHeaderSize { len: 1, expected: 0 })
        }),
        (encode(LengthField::u8().adjustment(-300), &[], b""), {
            Err(Error::PayloadTooLarge { len: 0, max: 0 })
        }),
    ];
    for (index, (actual, expected)) in cases.into_iter().enumerate() {
        assert_eq!(actual, expected, "case {index}");
    }
}

fn check<W: Width>(mut codec: LengthField<W>, header: &[u8], payload: &[u8], bytes: &[u8]) {
    assert_eq!(encode(codec, header, payload).as_deref(), Ok(bytes));
    let item = LengthFrame { header, payload };
    let frame = Decoded::Frame { item, consumed: bytes.len() };
    let followed = [bytes, b"next"].concat();
    assert_eq!(codec.decode(&followed), Ok(frame));
}

/// The bytes of one frame. The earlier content of the buffer is not touched.
fn encode<W: Width>(
    codec: LengthField<W>,
    header: &[u8],
    payload: &[u8],
) -> Result<Vec<u8>, Error> {
    let mut out = b"before".to_vec();
    let result = codec.encode_with_header(header, payload, &mut out);
    let bytes = out.split_off(b"before".len());
    assert_eq!(out, b"before");
    assert!(result.is_ok() || bytes.is_empty());
    result.map(|()| bytes)
}

fn decode<W: Width>(codec: LengthField<W>, bytes: &[u8]) -> Result<(), Error> {
    let pieces: Vec<_> = bytes.chunks(1).collect();
    let (frames, by_byte) = support::decode(codec, &pieces, |frame| frame.payload.to_vec());
    assert_eq!(frames, Vec::<Vec<u8>>::new());
    let (_, at_once) = support::decode(codec, &[bytes], |frame| frame.payload.to_vec());
    assert_eq!(by_byte, at_once);
    at_once
}
