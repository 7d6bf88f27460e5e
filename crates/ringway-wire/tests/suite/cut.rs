//! The same frames come out, wherever the network cuts a stream.

use ringway_wire::{Codec, Delimiter, Error, FixedSize, LengthField, LengthFrame, Line, Width};

use crate::support::{Random, decode, for_seeds};

#[test]
fn length_fields() {
    for_seeds(SEEDS, |random| {
        length_field(random, LengthField::u8());
        length_field(random, LengthField::u16_be());
        length_field(random, LengthField::u16_le());
        length_field(random, LengthField::u32_be());
        length_field(random, LengthField::u32_le());
        length_field(random, LengthField::u64_be());
        length_field(random, LengthField::u64_le());
        length_field(random, LengthField::varint());
    });
}

#[test]
fn delimiters() {
    for_seeds(SEEDS, |random| {
        for delimiter in [&b"\0"[..], b"\r\n", b"aab", b"aaaa"] {
            let mut codec = Delimiter::new(delimiter, PAYLOAD_LEN_MAX);
            let payloads =
                payloads(random, |payload| codec.encode(payload, &mut Vec::new()).is_ok());
            check(random, &codec, &payloads, <[u8]>::to_vec);
        }
    });
}

#[test]
fn lines() {
    for_seeds(SEEDS, |random| {
        for mut codec in [Line::new(PAYLOAD_LEN_MAX), Line::new(PAYLOAD_LEN_MAX).crlf()] {
            let payloads =
                payloads(random, |payload| codec.encode(payload, &mut Vec::new()).is_ok());
            check(random, &codec, &payloads, <[u8]>::to_vec);
        }
    });
}

#[test]
fn fixed_sizes() {
    for_seeds(SEEDS, |random| {
        let len = 1 + random.below(PAYLOAD_LEN_MAX);
        let payloads: Vec<_> = (0..FRAMES).map(|_| random.bytes(len, ALPHABET)).collect();
        check(random, &FixedSize::new(len), &payloads, <[u8]>::to_vec);
    });
}

fn length_field<W: Width>(random: &mut Random, codec: LengthField<W>) {
    let offset = random.below(4) as u16;
    let mut codec = codec.offset(offset).adjustment(random.below(5) as i32 - 2);
    if random.below(2) == 0 {
        codec = codec.counts_whole_frame();
    }
    codec = codec.frame_max(PAYLOAD_LEN_MAX + usize::from(offset) + 8);
    let codec = Headed { codec, header_len: usize::from(offset) };
    let payloads =
        payloads(random, |payload| codec.clone().encode(payload, &mut Vec::new()).is_ok());
    check(random, &codec, &payloads, |frame| {
        assert_eq!(frame.header, header_for(frame.payload, usize::from(offset)));
        frame.payload.to_vec()
    });
}

/// A length-field codec that derives its headers from the payload.
#[derive(Clone)]
struct Headed<W: Width> {
    codec: LengthField<W>,
    header_len: usize,
}

impl<W: Width> Codec for Headed<W> {
    type Item<'a> = LengthFrame<'a>;

    fn decode<'a>(
        &mut self,
        input: &'a [u8],
    ) -> Result<ringway_wire::Decoded<LengthFrame<'a>>, Error> {
        self.codec.decode(input)
    }

    fn encode(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        self.codec.encode_with_header(&header_for(payload, self.header_len), payload, out)
    }

    fn frame_len_max(&self) -> usize {
        self.codec.frame_len_max()
    }
}

fn header_for(payload: &[u8], len: usize) -> Vec<u8> {
    vec![payload.len() as u8 ^ 0xff; len]
}

/// A few random payloads that the codec can encode, the empty one and the longest among them.
fn payloads(random: &mut Random, mut encodable: impl FnMut(&[u8]) -> bool) -> Vec<Vec<u8>> {
    let mut payloads = Vec::new();
    for _ in 0..100 * FRAMES {
        let len = [0, random.below(8), random.below(PAYLOAD_LEN_MAX), PAYLOAD_LEN_MAX];
        let len = len[random.below(len.len())];
        let alphabet = if random.below(8) == 0 { b"xyz" } else { ALPHABET };
        let payload = random.bytes(len, alphabet);
        if encodable(&payload) {
            payloads.push(payload);
        }
        if payloads.len() == FRAMES {
            return payloads;
        }
    }
    panic!("hardly any payload can be encoded");
}

/// Encodes `payloads`, cuts the stream at every byte, byte by byte and in random pieces.
fn check<C: Codec + Clone>(
    random: &mut Random,
    codec: &C,
    payloads: &[Vec<u8>],
    payload: impl Fn(C::Item<'_>) -> Vec<u8>,
) {
    let mut stream = Vec::new();
    let mut ends = vec![0];
    for payload in payloads {
        codec.clone().encode(payload, &mut stream).expect("chosen to be encodable");
        ends.push(stream.len());
    }
    let run = |pieces: &[&[u8]]| decode(codec.clone(), pieces, &payload);
    for at in 0..=stream.len() {
        let (front, back) = stream.split_at(at);
        assert_eq!(run(&[front, back]), (payloads.to_vec(), Ok(())), "cut at {at}");

        let whole = ends.iter().filter(|end| **end <= at).count() - 1;
        let left = at - ends[whole];
        let end = if left == 0 { Ok(()) } else { Err(Error::TruncatedFrame { buffered: left }) };
        assert_eq!(run(&[front]), (payloads[..whole].to_vec(), end), "ended at {at}");
    }
    let bytes: Vec<_> = stream.chunks(1).collect();
    assert_eq!(run(&bytes), (payloads.to_vec(), Ok(())), "byte by byte");
    for piece_len_max in [2, 7, 40, 300] {
        let pieces = random.pieces(&stream, piece_len_max);
        assert_eq!(run(&pieces), (payloads.to_vec(), Ok(())), "cut at {pieces:?}");
    }
}

const SEEDS: u64 = 20;
const FRAMES: usize = 6;
/// A varint of this length needs two bytes, and one read-ahead of the framer does not reach its end.
const PAYLOAD_LEN_MAX: usize = 150;
const ALPHABET: &[u8] = b"aab\r\0\x80\xff";
