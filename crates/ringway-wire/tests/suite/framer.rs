//! What a framer holds, and what it does when the peer, the caller or the codec misbehaves.

use std::ops::ControlFlow;

use ringway_wire::{
    Codec, Decoded, Delimiter, Error, FixedSize, Framer, LengthField, Line, Pushed,
};

use crate::support::decode;

#[test]
fn holds_nothing_while_no_frame_straddles() {
    let mut framer = Framer::new(FixedSize::new(4));
    assert_eq!(framer.push(b"aaaabbbbcccc", |_| ()), Ok(3));
    assert_eq!((framer.buffered(), framer.capacity()), (0, 0));
    assert_eq!(framer.finish(), Ok(()));
}

#[test]
fn memory_follows_the_bytes_and_not_the_announced_length() {
    let mut framer = Framer::new(LengthField::u32_le());
    assert_eq!(framer.push(&(8_u32 << 20).to_le_bytes(), |_| ()), Ok(0));
    assert!(framer.capacity() <= 16 << 10, "{} bytes held for 4", framer.capacity());
    for _ in 0..100 {
        assert_eq!(framer.push(&[0; 1000], |_| ()), Ok(0));
        assert!(framer.capacity() <= (2 * framer.buffered()).max(16 << 10));
    }
}

#[test]
fn memory_is_bounded_by_the_longest_frame_and_given_back() {
    let len = 100_000;
    let mut framer = Framer::new(LengthField::u32_le().frame_max(len + 4));
    let mut frame = Vec::new();
    framer.codec_mut().encode(&vec![7; len], &mut frame).expect("fits");
    for piece in frame.chunks(999) {
        framer.push(piece, |item| assert_eq!(item.payload.len(), len)).expect("good bytes");
        assert!(framer.capacity() <= len + 4);
    }
    assert_eq!((framer.buffered(), framer.capacity()), (0, 0));
}

#[test]
fn a_little_memory_is_kept_between_frames_until_released() {
    let mut framer = Framer::new(LengthField::u8());
    assert_eq!(framer.push(b"\x03a", |_| ()), Ok(0));
    framer.release();
    assert_eq!(framer.buffered(), 2, "a frame is under way");
    assert_eq!(framer.push(b"bc", |item| assert_eq!(item.payload, b"abc")), Ok(1));
    assert!((1..=4096).contains(&framer.capacity()));
    framer.release();
    assert_eq!(framer.capacity(), 0);
}

#[test]
fn endless_lines_end_at_the_limit() {
    for piece_len in [1, 7, 1000] {
        let stream = vec![b'x'; 1000];
        let pieces: Vec<_> = stream.chunks(piece_len).collect();
        let expected = (Vec::new(), Err(Error::MissingDelimiter { max: 99 }));
        assert_eq!(decode(Line::new(99), &pieces, <[u8]>::to_vec), expected);
        assert_eq!(decode(Delimiter::new(b"\r\n", 99), &pieces, <[u8]>::to_vec), expected);
    }
}

#[test]
fn frames_in_front_of_bad_bytes_are_delivered() {
    let stream = b"\x01a\x02bb\xffrest";
    for piece_len in 1..stream.len() {
        let pieces: Vec<_> = stream.chunks(piece_len).collect();
        let (frames, end) =
            decode(LengthField::u8().frame_max(9), &pieces, |item| item.payload.to_vec());
        assert_eq!(frames, [&b"a"[..], b"bb"]);
        assert_eq!(end, Err(Error::FrameTooLarge { len: 256, max: 9 }));
    }
}

#[test]
fn a_caller_that_breaks_off_continues_where_it_was() {
    let stream = b"one\ntwo\nthree\nfour\n";
    for cut in 0..=stream.len() {
        let mut framer = Framer::new(Line::new(9));
        let mut lines = Vec::new();
        for mut slice in [&stream[..cut], &stream[cut..]] {
            while !slice.is_empty() {
                let Pushed { frames, consumed } = framer
                    .push_while(slice, |line| {
                        lines.push(line.to_vec());
                        ControlFlow::Break(())
                    })
                    .expect("good lines");
                assert!(frames == 1 || consumed == slice.len());
                slice = &slice[consumed..];
            }
        }
        assert_eq!(lines, [&b"one"[..], b"two", b"three", b"four"], "cut at {cut}");
    }
}

/// A long line in small pieces: were every piece searched from the line's start, the codec
/// would look at 64 GiB.
#[test]
fn a_line_that_trickles_in_is_searched_once() {
    let len = 4 << 20;
    trickle(Line::new(len), len, b"\n");
    trickle(Delimiter::new(b"\r\n", len), len, b"\r\n");
}

fn trickle<C: for<'a> Codec<Item<'a> = &'a [u8]>>(codec: C, len: usize, end: &[u8]) {
    let mut framer = Framer::new(codec);
    for _ in 0..len / 128 {
        assert_eq!(framer.push(&[b'x'; 128], |_| ()), Ok(0));
    }
    assert_eq!(framer.buffered(), len);
    assert_eq!(framer.push(end, |line| assert_eq!(line.len(), len)), Ok(1));
}

#[test]
fn codecs_that_break_their_contract_fail_and_do_no_harm() {
    let answers: [fn() -> Decoded<&'static [u8]>; 5] = [
        || Decoded::Frame { item: b"", consumed: 0 },
        || Decoded::Frame { item: b"", consumed: 5 },
        || Decoded::NeedAtLeast(0),
        || Decoded::NeedAtLeast(4),
        || Decoded::NeedAtLeast(101),
    ];
    for answer in answers {
        let mut framer = Framer::new(Scripted { answers: vec![answer()] });
        let error = framer.push(b"abcd", |_| ()).expect_err("a broken contract");
        assert!(matches!(error, Error::CodecFault { .. }), "{error}");

        let mut framer = Framer::new(Scripted { answers: vec![answer(), Decoded::NeedAtLeast(2)] });
        assert_eq!(framer.push(b"a", |_| ()), Ok(0));
        let error = framer.push(b"bcd", |_| ()).expect_err("a broken contract");
        assert!(matches!(error, Error::CodecFault { .. }), "{error}");
        assert_eq!(framer.push(b"abcd", |_| ()), Err(error));
    }
}

#[test]
fn after_a_panic_of_the_closure_the_framer_fails_and_delivers_nothing_twice() {
    let mut framer = Framer::new(LengthField::u8());
    assert_eq!(framer.push(b"\x03a", |_| ()), Ok(0));
    let push = std::panic::AssertUnwindSafe(|| framer.push(b"bc", |_| panic!("of the closure")));
    assert!(std::panic::catch_unwind(push).is_err());
    let error = framer.push(b"\x01d", |_| panic!("a frame")).expect_err("out of step");
    assert!(matches!(error, Error::CodecFault { .. }), "{error}");
}

/// Gives its answers from the last to the first, whatever the input.
struct Scripted {
    answers: Vec<Decoded<&'static [u8]>>,
}

impl Codec for Scripted {
    type Item<'a> = &'a [u8];

    fn decode<'a>(&mut self, _: &'a [u8]) -> Result<Decoded<&'a [u8]>, Error> {
        Ok(self.answers.pop().expect("as many answers as calls"))
    }

    fn encode(&mut self, _: &[u8], _: &mut Vec<u8>) -> Result<(), Error> {
        Ok(())
    }

    fn frame_len_max(&self) -> usize {
        100
    }
}
