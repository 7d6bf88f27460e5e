//! Messages between our ends, and between ours and those of tungstenite, which passes Autobahn's suite.

use std::io::{self, Read, Write};

use ringway_wire::websocket::{
    Arrival, CloseCode, Closing, MessageReader, WebSocketMessage, put_binary, put_close, put_ping,
    put_pong, put_text,
};
use tungstenite::Message;
use tungstenite::protocol::{Role, WebSocket};

const MESSAGE_MAX: usize = 1 << 20;
const MASK: [u8; 4] = [0x12, 0xF0, 0, 0xFF];

fn reader(is_of_client: bool) -> MessageReader {
    match is_of_client {
        true => MessageReader::of_client(MESSAGE_MAX),
        false => MessageReader::of_server(MESSAGE_MAX),
    }
}

fn read(is_of_client: bool, input: &[u8], piece: usize) -> Vec<Arrival> {
    let (mut reader, mut arrivals) = (reader(is_of_client), Vec::new());
    for mut piece in input.chunks(piece) {
        while let Some(arrival) = reader.next(&mut piece).expect("nothing wrong") {
            arrivals.push(arrival);
        }
    }
    assert_eq!(reader.unfinished(), None);
    arrivals
}

fn put(arrival: &Arrival, mask: Option<[u8; 4]>, out: &mut Vec<u8>) {
    match arrival {
        Arrival::Message(WebSocketMessage::Text(text)) => put_text(text, mask, out),
        Arrival::Message(WebSocketMessage::Binary(bytes)) => put_binary(bytes, mask, out),
        Arrival::Ping(payload) => put_ping(payload, mask, out),
        Arrival::Pong(payload) => put_pong(payload, mask, out),
        Arrival::Close(closing) => put_close(closing.code, &closing.reason, mask, out),
    }
}

/// One message of each kind, and of each form of a length.
fn samples() -> Vec<Arrival> {
    let text = |length: usize| Arrival::Message(WebSocketMessage::Text("ä€𝄞!".repeat(length / 10)));
    let bytes = |length: usize| {
        let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        Arrival::Message(bytes.into())
    };
    vec![
        text(0),
        text(70),
        text(1_000),
        text(70_000),
        bytes(0),
        bytes(125),
        bytes(126),
        bytes(65_535),
        bytes(65_536),
        Arrival::Ping(Vec::new()),
        Arrival::Ping(vec![7; 125]),
        Arrival::Pong(vec![1, 2, 3]),
        Arrival::Close(Closing { code: CloseCode::AWAY, reason: "tschüß".into() }),
    ]
}

#[test]
fn what_is_written_is_read_cut_anywhere() {
    for mask in [None, Some(MASK)] {
        let mut sent = Vec::new();
        samples().iter().for_each(|arrival| put(arrival, mask, &mut sent));
        for piece in [1, 2, 3, 5, 7, 13, 14, 100, 4096, sent.len()] {
            assert_eq!(read(mask.is_some(), &sent, piece), samples(), "in pieces of {piece}");
        }
    }
}

#[test]
fn control_frames_come_between_the_fragments_of_a_message() {
    let mut sent = vec![0x01, 0x03, b'a', 0xE2, 0x82];
    put_ping(b"?", None, &mut sent);
    sent.extend_from_slice(&[0x00, 0x00, 0x00, 0x02, 0xAC, b'b']);
    put_pong(b"!", None, &mut sent);
    sent.extend_from_slice(&[0x80, 0x01, b'c']);
    let expected =
        [Arrival::Ping(b"?".into()), Arrival::Pong(b"!".into()), Arrival::Message("a€bc".into())];
    for piece in 1..=sent.len() {
        assert_eq!(read(false, &sent, piece), expected, "in pieces of {piece}");
    }
}

#[test]
fn a_reader_knows_whether_it_is_inside_of_a_message() {
    let mut reader = reader(false);
    for (input, unfinished) in [
        (&[0x82][..], None),
        (&[0x02], Some(0)),
        (&[1], Some(1)),
        (&[2], None),
        (&[0x01, 0x01, b'a'], Some(1)),
        (&[0x89, 0x01, 0], Some(1)),
        (&[0x80, 0x00], None),
        (&[0x89, 0x01], None),
    ] {
        let mut rest = input;
        while reader.next(&mut rest).expect("nothing wrong").is_some() {}
        assert_eq!(reader.unfinished(), unfinished, "{input:?}");
    }
}

#[test]
fn a_reason_is_cut_at_a_character() {
    let mut sent = Vec::new();
    put_close(CloseCode::NORMAL, &"€".repeat(100), None, &mut sent);
    let closing = Closing { code: CloseCode::NORMAL, reason: "€".repeat(41) };
    assert_eq!(read(false, &sent, 1), [Arrival::Close(closing)]);
    sent.clear();
    put_close(CloseCode::NONE, "unheard", None, &mut sent);
    let closing = Closing { code: CloseCode::NONE, reason: String::new() };
    assert_eq!(read(false, &sent, 1), [Arrival::Close(closing)]);
}

/// The messages that tungstenite reads, and its replies.
struct Pipe<'a> {
    input: &'a [u8],
    output: Vec<u8>,
}

impl Read for Pipe<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.input.read(buffer)
    }
}

impl Write for Pipe<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn theirs(arrival: &Arrival) -> Message {
    match arrival {
        Arrival::Message(WebSocketMessage::Text(text)) => Message::text(text.clone()),
        Arrival::Message(WebSocketMessage::Binary(bytes)) => Message::binary(bytes.clone()),
        Arrival::Ping(payload) => Message::Ping(payload.clone().into()),
        Arrival::Pong(payload) => Message::Pong(payload.clone().into()),
        Arrival::Close(closing) => Message::Close(Some(tungstenite::protocol::CloseFrame {
            code: closing.code.as_u16().into(),
            reason: closing.reason.clone().into(),
        })),
    }
}

#[test]
fn tungstenite_reads_what_we_write() {
    for (role, mask) in [(Role::Server, Some(MASK)), (Role::Client, None)] {
        let mut sent = Vec::new();
        samples().iter().for_each(|arrival| put(arrival, mask, &mut sent));
        let pipe = Pipe { input: &sent, output: Vec::new() };
        let mut other = WebSocket::from_raw_socket(pipe, role, None);
        for sample in samples() {
            assert_eq!(other.read().expect("a message"), theirs(&sample));
        }
    }
}

#[test]
fn we_read_what_tungstenite_writes() {
    for role in [Role::Server, Role::Client] {
        let pipe = Pipe { input: &[], output: Vec::new() };
        let mut other = WebSocket::from_raw_socket(pipe, role, None);
        for sample in samples() {
            match &sample {
                Arrival::Close(_) => other.write(theirs(&sample)).unwrap_or_default(),
                _ => other.send(theirs(&sample)).expect("written"),
            }
        }
        let sent = &other.get_ref().output;
        assert_eq!(read(role == Role::Client, sent, 1000), samples());
    }
}
