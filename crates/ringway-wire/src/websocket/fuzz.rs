//! Any bytes as the frames of a peer.

use super::{
    Arrival, FrameFault, MessageReader, WebSocketMessage, put_binary, put_close, put_ping,
    put_pong, put_text,
};

/// Longest message, small enough to be exceeded.
const MESSAGE_MAX: usize = 200;

/// The first byte tells who sends them and how they are cut.
pub fn fuzz(data: &[u8]) {
    let Some((&form, stream)) = data.split_first() else {
        return;
    };
    let (is_of_client, piece) = (form & 0x80 != 0, usize::from(form & 0x7F) + 1);
    let whole = read(is_of_client, stream, stream.len().max(1));
    for piece in [1, piece] {
        assert_eq!(read(is_of_client, stream, piece), whole, "in pieces of {piece}");
    }
    let mut again = Vec::new();
    for arrival in &whole.0 {
        put(arrival, is_of_client.then_some([7, 1, 255, 0]), &mut again);
    }
    assert_eq!(read(is_of_client, &again, again.len().max(1)), (whole.0, Ok(())));
}

fn reader(is_of_client: bool) -> MessageReader {
    match is_of_client {
        true => MessageReader::of_client(MESSAGE_MAX),
        false => MessageReader::of_server(MESSAGE_MAX),
    }
}

fn read(is_of_client: bool, stream: &[u8], piece: usize) -> (Vec<Arrival>, Result<(), FrameFault>) {
    let (mut reader, mut arrivals) = (reader(is_of_client), Vec::new());
    for mut input in stream.chunks(piece) {
        loop {
            match reader.next(&mut input) {
                Ok(Some(arrival)) => arrivals.push(arrival),
                Ok(None) => break,
                Err(fault) => {
                    assert_eq!(reader.next(&mut &stream[..]), Err(fault));
                    return (arrivals, Err(fault));
                }
            }
        }
        assert!(input.is_empty());
        assert!(reader.capacity() <= MESSAGE_MAX + 256);
    }
    (arrivals, Ok(()))
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
