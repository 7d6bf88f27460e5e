//! Violations of a WebSocket peer, each with the rule of RFC 6455 that it breaks.

use ringway_wire::websocket::{Arrival, CloseCode, FrameFault, MessageReader, WebSocketMessage};

const MESSAGE_MAX: usize = 1000;

/// A frame of a client whose mask changes nothing.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = match payload.len() {
        len @ 0..126 => vec![first, 0x80 | len as u8],
        len => vec![first, 0x80 | 126, (len >> 8) as u8, len as u8],
    };
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(payload);
    frame
}

/// The violation that a server reports, and the messages before it.
fn read(input: &[u8], piece: usize) -> (usize, Option<FrameFault>) {
    let mut reader = MessageReader::of_client(MESSAGE_MAX);
    let mut arrivals = 0;
    for mut piece in input.chunks(piece) {
        loop {
            match reader.next(&mut piece) {
                Ok(Some(_)) => arrivals += 1,
                Ok(None) => break,
                Err(fault) => {
                    assert_eq!(reader.next(&mut &frame(0x81, b"more")[..]), Err(fault));
                    assert_eq!(reader.capacity(), 0, "a reader that has failed holds nothing");
                    return (arrivals, Some(fault));
                }
            }
        }
    }
    (arrivals, None)
}

#[track_caller]
fn check(frames: &[Vec<u8>], fault: FrameFault, code: u16) {
    let good = frame(0x81, b"good");
    let input = [&good[..], &frames.concat(), &good].concat();
    for piece in 1..=input.len() {
        assert_eq!(read(&input, piece), (1, Some(fault)), "in pieces of {piece}");
    }
    assert_eq!(fault.code().as_u16(), code);
}

#[test]
fn a_wrong_head_is_refused() {
    for bit in [0x40, 0x20, 0x10] {
        check(&[frame(0x81 | bit, b"x")], FrameFault::ReservedBit, 1002);
    }
    for opcode in (3..8).chain(11..16) {
        check(&[frame(0x80 | opcode, b"")], FrameFault::Opcode(opcode), 1002);
    }
    check(&[vec![0x81, 1, b'x']], FrameFault::Unmasked, 1002);
    check(&[vec![0x82, 0xFE, 0, 125, 0, 0, 0, 0]], FrameFault::LengthForm, 1002);
    let long = [&[0x82, 0xFF][..], &65_535_u64.to_be_bytes(), &[0; 4]].concat();
    check(&[long], FrameFault::LengthForm, 1002);
    let longest = [&[0x82, 0xFF][..], &[0xFF; 8], &[0; 4]].concat();
    check(&[longest], FrameFault::LengthForm, 1002);
}

#[test]
fn a_client_refuses_a_masked_frame() {
    let mut client = MessageReader::of_server(MESSAGE_MAX);
    assert_eq!(client.next(&mut &frame(0x81, b"x")[..]), Err(FrameFault::Masked));
}

#[test]
fn control_frames_are_short_and_whole() {
    for opcode in [8, 9, 10] {
        check(&[frame(opcode, b"")], FrameFault::ControlFragmented, 1002);
        // Two bytes show it, so the server does not wait for the payload.
        check(&[vec![0x80 | opcode, 0x80 | 126]], FrameFault::ControlTooLong, 1002);
        check(&[vec![0x80 | opcode, 0x80 | 127]], FrameFault::ControlTooLong, 1002);
    }
}

#[test]
fn fragments_follow_a_beginning_and_end_before_the_next_one() {
    check(&[frame(0x80, b"x")], FrameFault::NothingToContinue, 1002);
    check(&[frame(0x00, b"x")], FrameFault::NothingToContinue, 1002);
    for second in [0x01, 0x02, 0x81, 0x82] {
        let frames = [frame(0x01, b"a"), frame(second, b"b")];
        check(&frames, FrameFault::MessageInMessage, 1002);
    }
    check(&[frame(0x01, b""), frame(0x81, b"b")], FrameFault::MessageInMessage, 1002);
}

#[test]
fn a_message_is_too_long_by_its_head_or_by_its_fragments() {
    let fault = FrameFault::TooLong { max: MESSAGE_MAX };
    let announced = [&[0x82, 0xFF][..], &(1_u64 << 40).to_be_bytes(), &[0; 4]].concat();
    check(&[announced], fault, 1009);
    check(&[frame(0x02, &[1; 600]), frame(0x80, &[1; 401])], fault, 1009);
    let endless: Vec<_> =
        std::iter::once(0x02).chain([0; 1000]).map(|first| frame(first, b"x")).collect();
    check(&endless, fault, 1009);
}

#[test]
fn a_text_is_utf_8_wherever_it_is_cut() {
    for bad in [&b"\xFF"[..], b"a\xC0\xAF", b"\xED\xA0\x80", b"\xF4\x90\x80\x80", b"\xE2\x82"] {
        check(&[frame(0x81, bad)], FrameFault::NotUtf8, 1007);
        for cut in 0..=bad.len() {
            let frames = [frame(0x01, &bad[..cut]), frame(0x80, &bad[cut..])];
            check(&frames, FrameFault::NotUtf8, 1007);
        }
    }
    // The fragment that breaks the rule is the last one that the server reads.
    check(&[frame(0x01, b"\xE2"), frame(0x00, b"x")], FrameFault::NotUtf8, 1007);
}

#[test]
fn a_close_frame_has_a_code_that_may_be_sent_and_a_reason_in_utf_8() {
    check(&[frame(0x88, b"\x03")], FrameFault::CloseLength, 1002);
    let bad = [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535];
    for code in bad.map(CloseCode::from) {
        let close = frame(0x88, &code.as_u16().to_be_bytes());
        check(&[close], FrameFault::CloseCode(code), 1002);
    }
    check(&[frame(0x88, b"\x03\xE8\xFF")], FrameFault::NotUtf8, 1007);
}

#[test]
fn what_follows_a_close_frame_is_ignored() {
    let input = [frame(0x88, b"\x03\xE8bye"), frame(0x81, b"late"), vec![0xFF; 100]].concat();
    for piece in 1..=input.len() {
        assert_eq!(read(&input, piece), (1, None), "in pieces of {piece}");
    }
}

/// Memory follows what has come: a head is a few bytes, and may announce the largest message.
#[test]
fn what_a_head_announces_is_not_reserved() {
    let (message_max, mut reader) = (64 << 20, MessageReader::of_client(64 << 20));
    let head = [&[0x82, 0xFF][..], &(message_max as u64).to_be_bytes(), &[0; 4]].concat();
    assert_eq!(reader.next(&mut &head[..]), Ok(None));
    assert_eq!(reader.capacity(), 0);
    assert_eq!(reader.next(&mut &[1; 100][..]), Ok(None));
    assert!(reader.capacity() <= 16 << 10, "{}", reader.capacity());
    let mut taken = 100;
    while taken < message_max {
        let piece = vec![1; (message_max - taken).min(100_000)];
        taken += piece.len();
        let arrival = reader.next(&mut &piece[..]).expect("bytes of the message");
        assert_eq!(arrival.is_some(), taken == message_max);
        assert!(reader.capacity() <= 2 * taken.max(16 << 10), "{} of {taken}", reader.capacity());
    }
    assert_eq!(reader.capacity(), 0, "between two messages there is no memory");
}

/// Copying stays proportional to what was sent: memory doubles, however small the fragments are.
#[test]
fn a_message_of_many_fragments_moves_its_memory_rarely() {
    let mut reader = MessageReader::of_client(1 << 20);
    let (mut moves, mut capacity) = (0, 0);
    for first in std::iter::once(0x02).chain(std::iter::repeat_n(0x00, 100_000)) {
        assert_eq!(reader.next(&mut &frame(first, b"x")[..]), Ok(None));
        moves += usize::from(reader.capacity() != capacity);
        capacity = reader.capacity();
    }
    assert!(moves <= 20, "{moves} moves for 17 doublings");
    let arrival = reader.next(&mut &frame(0x80, b"")[..]).expect("the end of the message");
    let Some(Arrival::Message(WebSocketMessage::Binary(bytes))) = arrival else {
        panic!("{arrival:?}");
    };
    assert_eq!(bytes.len(), 100_001);
}
