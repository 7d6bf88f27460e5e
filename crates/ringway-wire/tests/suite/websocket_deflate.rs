//! permessage-deflate: messages that are compressed by themselves.

use ringway_wire::websocket::{
    Arrival, CloseCode, DataKind, FrameFault, MessageReader, WebSocketMessage, put_deflated,
    put_text,
};

const MAX: usize = 1 << 20;

/// The only thing that a server's frames are, however they are cut.
#[track_caller]
fn read(frames: &[u8]) -> Result<Option<Arrival>, FrameFault> {
    let read_in = |piece: usize| {
        let (mut reader, mut found) = (MessageReader::of_server(MAX).with_deflate(), Vec::new());
        for mut input in frames.chunks(piece) {
            while let Some(arrival) = reader.next(&mut input)? {
                found.push(arrival);
            }
        }
        assert!(found.len() < 2, "{found:?}");
        Ok(found.pop())
    };
    let whole = read_in(frames.len());
    assert_eq!(read_in(1), whole);
    whole
}

#[track_caller]
fn assert_text(frames: &[u8], text: &str) {
    assert_eq!(read(frames), Ok(Some(Arrival::Message(WebSocketMessage::from(text)))));
}

/// RFC 7692, section 7.2.3.
#[test]
fn examples_of_the_rfc_are_read() {
    assert_text(b"\xc1\x07\xf2\x48\xcd\xc9\xc9\x07\x00", "Hello");
    assert_text(b"\x41\x03\xf2\x48\xcd\x80\x04\xc9\xc9\x07\x00", "Hello");
    assert_text(b"\xc1\x0b\x00\x05\x00\xfa\xff\x48\x65\x6c\x6c\x6f\x00", "Hello");
    assert_text(b"\xc1\x08\xf3\x48\xcd\xc9\xc9\x07\x00\x00", "Hello");
    assert_text(b"\xc1\x0d\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00", "Hello");
    assert_text(b"\xc1\x01\x00", "");
    // Messages may still be sent as they are.
    assert_text(b"\x81\x02hi", "hi");
}

/// Otherwise it could ask for what another message has left behind.
#[test]
fn a_message_cannot_refer_to_what_was_before_it() {
    assert_text(b"\xc1\x07\xf2\x48\xcd\xc9\xc9\x07\x00", "Hello");
    let three_bytes_of_one_before = b"\xc1\x04\x02\x02\x00\x00";
    assert_eq!(read(three_bytes_of_one_before), Err(FrameFault::Compression));
}

#[test]
fn messages_of_every_size_come_back() {
    let text: String = (0..MAX / 2).map(|at| char::from(b'a' + (at * at / 7 % 23) as u8)).collect();
    for len in [0, 1, 63, 64, 65, 1_000, 40_000, 70_000, MAX / 2] {
        for mask in [None, Some([9, 8, 7, 200])] {
            let (mut frame, mut plain) = (Vec::new(), Vec::new());
            put_deflated(DataKind::Text, &text.as_bytes()[..len], mask, &mut frame);
            put_text(&text[..len], mask, &mut plain);
            assert!(frame.len() < plain.len() || len < 40_000, "{len}: {}", frame.len());
            assert!(frame.len() <= plain.len(), "{len}: {}", frame.len());
            assert!(len > 63 || frame == plain, "what is short is sent as it is");
            let mut reader = match mask {
                Some(_) => MessageReader::of_client(len).with_deflate(),
                None => MessageReader::of_server(len).with_deflate(),
            };
            let arrival = reader.next(&mut &frame[..]).expect("a good frame");
            let message = WebSocketMessage::from(&text[..len]);
            assert_eq!(arrival, Some(Arrival::Message(message)), "{len}");
            assert_eq!(reader.capacity(), 0);
        }
    }
}

#[test]
fn what_does_not_become_shorter_is_sent_as_it_is() {
    let mut state = 1_u64;
    let noise: Vec<u8> = (0..10_000)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    let mut frame = Vec::new();
    put_deflated(DataKind::Binary, &noise, None, &mut frame);
    assert_eq!((frame[0], frame.len()), (0x82, 4 + noise.len()));
    assert_eq!(read(&frame), Ok(Some(Arrival::Message(WebSocketMessage::from(noise)))));
}

#[test]
fn a_bomb_ends_at_the_limit() {
    let mut frame = Vec::new();
    put_deflated(DataKind::Binary, &vec![0; 16 << 20], None, &mut frame);
    assert!(frame.len() < 100_000, "it is one: {}", frame.len());
    for max in [0, 1, 1_000, MAX] {
        let mut reader = MessageReader::of_server(max).with_deflate();
        let mut input = &frame[..];
        let fault = loop {
            match reader.next(&mut input) {
                Ok(none) => assert!(none.is_none() && reader.is_unpacking(), "it is too long"),
                Err(fault) => break fault,
            }
        };
        assert_eq!((fault, fault.code()), (FrameFault::TooLong { max }, CloseCode::TOO_LONG));
        assert_eq!(reader.capacity(), 0);
    }
}

/// The whole message takes hundreds of milliseconds, in which nobody else would be served.
#[test]
fn a_long_message_is_decompressed_in_steps() {
    const LEN: usize = 20 << 20;
    const STEP: usize = 1 << 20;
    let mut frames = Vec::new();
    put_deflated(DataKind::Binary, &vec![7; LEN], None, &mut frames);
    put_deflated(DataKind::Text, b"behind it", None, &mut frames);
    let mut reader = MessageReader::of_server(LEN).with_deflate();
    let mut input = &frames[..];
    let mut steps = 0;
    let arrival = loop {
        let left = input.len();
        let held = reader.capacity();
        if let Some(arrival) = reader.next(&mut input).expect("good frames") {
            break arrival;
        }
        assert!(reader.is_unpacking() && (steps == 0 || input.len() == left));
        assert!(reader.unfinished().is_some_and(|held| held > 0));
        assert!(reader.capacity() <= 2 * held.max(2 * STEP), "{} of {held}", reader.capacity());
        steps += 1;
    };
    assert_eq!(arrival, Arrival::Message(WebSocketMessage::from(vec![7; LEN])));
    assert!((LEN / STEP / 2..=LEN / STEP).contains(&steps), "{steps}");
    assert_eq!((reader.is_unpacking(), reader.capacity()), (false, 0));
    let behind = Ok(Some(Arrival::Message(WebSocketMessage::from("behind it"))));
    assert_eq!(reader.next(&mut input), behind);
}

/// Bits as deflate writes them, the lowest first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    len: usize,
}

impl Bits {
    fn put(&mut self, value: u32, count: usize) {
        for at in 0..count {
            self.bytes.resize(self.len / 8 + 1, 0);
            self.bytes[self.len / 8] |= ((value >> at & 1) as u8) << (self.len % 8);
            self.len += 1;
        }
    }

    /// A block with tables of its own, in which nothing but its end stands.
    fn put_block_of_tables(&mut self) {
        const ORDER: [u32; 18] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1];
        const HEAD: [(u32, usize); 5] = [(0, 1), (2, 2), (0, 5), (0, 5), (14, 4)];
        const REST: [(u32, usize); 7] =
            [(1, 1), (127, 7), (1, 1), (107, 7), (0, 1), (0, 1), (0, 1)];
        HEAD.into_iter().for_each(|(value, count)| self.put(value, count));
        ORDER.into_iter().for_each(|symbol| self.put(u32::from(matches!(symbol, 18 | 1)), 3));
        // 138 and 118 lengths of zero, two of one, and the end of the block.
        REST.into_iter().for_each(|(value, count)| self.put(value, count));
    }
}

/// Such a block takes eleven bytes, and as long as some kilobytes of others.
#[test]
fn a_message_of_tables_is_decompressed_in_steps_as_well() {
    let mut bits = Bits::default();
    (0..20_000).for_each(|_| bits.put_block_of_tables());
    bits.put(0, 3); // a stored block, whose length is implied
    let mut frame = vec![0xc2, 127];
    frame.extend_from_slice(&(bits.bytes.len() as u64).to_be_bytes());
    frame.extend_from_slice(&bits.bytes);
    let (message, steps) = in_steps(&frame);
    assert_eq!(message, Ok(Some(Arrival::Message(WebSocketMessage::from(Vec::new())))));
    assert!(steps >= 5, "{} bytes in {steps} steps", frame.len());
}

/// What a frame contains, and how many steps come before the last.
fn in_steps(frame: &[u8]) -> (Result<Option<Arrival>, FrameFault>, usize) {
    let mut reader = MessageReader::of_server(MAX).with_deflate();
    let (mut input, mut steps) = (frame, 0);
    loop {
        let next = reader.next(&mut input);
        if !reader.is_unpacking() {
            return (next, steps);
        }
        steps += 1;
    }
}

/// A final block makes the decompressor begin anew, which costs far more than the two bytes that it takes.
#[test]
fn a_message_of_final_blocks_is_refused_unless_they_carry_something() {
    const EMPTY: &[u8] = b"\x03\x00";
    let compressed = |payload: &[u8]| {
        let mut frame = vec![0xc2, 127];
        frame.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        frame.extend_from_slice(payload);
        in_steps(&frame).0
    };
    let empty = |count: usize| [&EMPTY.repeat(count)[..], b"\x00"].concat();
    assert_eq!(compressed(&empty(0x8000)), Err(FrameFault::Compression));
    let block = [&b"\x01\x00\x08\xff\xf7"[..], &[7; 0x800]].concat();
    let message = WebSocketMessage::from(vec![7; 0x800 * 100]);
    let payload = [&block.repeat(100)[..], b"\x00"].concat();
    assert_eq!(compressed(&payload), Ok(Some(Arrival::Message(message))));
}

#[test]
fn a_message_of_the_longest_length_may_become_longer_on_its_way() {
    // Stored blocks, as some compressors write what cannot be shortened.
    let payload =
        [&b"\x00\x05\x00\xfa\xff12345"[..], b"\x00\x05\x00\xfa\xff67890", b"\x00"].concat();
    let frame = [&[0xc2, payload.len() as u8][..], &payload].concat();
    let mut reader = MessageReader::of_server(10).with_deflate();
    let message = WebSocketMessage::from(b"1234567890".to_vec());
    assert_eq!(reader.next(&mut &frame[..]), Ok(Some(Arrival::Message(message))));
    let mut reader = MessageReader::of_server(9).with_deflate();
    assert_eq!(reader.next(&mut &frame[..]), Err(FrameFault::TooLong { max: 9 }));
}

#[test]
fn a_reader_without_a_limit_reads_compressed_messages() {
    let mut reader = MessageReader::of_server(usize::MAX).with_deflate();
    let message = WebSocketMessage::from("Hello");
    let arrival = reader.next(&mut &b"\xc1\x07\xf2\x48\xcd\xc9\xc9\x07\x00"[..]);
    assert_eq!(arrival, Ok(Some(Arrival::Message(message))));
}

#[test]
fn wrong_messages_are_refused() {
    let cases: Vec<(&[u8], FrameFault)> = vec![
        (b"\xc1\x02\xff\xff", FrameFault::Compression),
        // "H" and half of a character.
        (b"\xc1\x08\x00\x02\x00\xfd\xff\x48\xc3\x00", FrameFault::NotUtf8),
        // The bit belongs to the first frame of a message.
        (b"\x41\x03\xf2\x48\xcd\xc0\x04\xc9\xc9\x07\x00", FrameFault::ReservedBit),
        (b"\xc9\x00", FrameFault::ReservedBit),
        (b"\xa1\x00", FrameFault::ReservedBit),
        (b"\x91\x00", FrameFault::ReservedBit),
    ];
    for (frames, fault) in cases {
        assert_eq!(read(frames), Err(fault), "{frames:?}");
    }
    assert_eq!(FrameFault::Compression.code(), CloseCode::INVALID);
}

#[test]
fn compressed_messages_are_refused_where_they_were_not_agreed_on() {
    let mut reader = MessageReader::of_server(MAX);
    let frame = b"\xc1\x07\xf2\x48\xcd\xc9\xc9\x07\x00";
    assert_eq!(reader.next_in_place(&mut &frame[..]), None);
    assert_eq!(reader.next(&mut &frame[..]), Err(FrameFault::ReservedBit));
    let mut reader = MessageReader::of_server(MAX).with_deflate();
    assert_eq!(reader.next_in_place(&mut &frame[..]), None, "it cannot be borrowed");
}
