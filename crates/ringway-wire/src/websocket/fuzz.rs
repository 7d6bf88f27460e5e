//! Any bytes as the frames of a peer.

use super::{
    Arrival, DataKind, FrameFault, MessageReader, WebSocketMessage, put_binary, put_close,
    put_deflated, put_ping, put_pong, put_text,
};

/// Longest message, small enough to be exceeded.
const MESSAGE_MAX: usize = 200;

/// The first byte tells who sends them and how they are cut.
pub fn fuzz(data: &[u8]) {
    let Some((&form, stream)) = data.split_first() else {
        return;
    };
    let (is_of_client, deflates) = (form & 0x80 != 0, form & 0x40 != 0);
    let (of, piece) = ((is_of_client, deflates), usize::from(form & 0x3F) + 1);
    let whole = read(of, stream, stream.len().max(1));
    for piece in [1, piece] {
        assert_eq!(read(of, stream, piece), whole, "in pieces of {piece}");
    }
    let mut again = Vec::new();
    for arrival in &whole.0 {
        put(arrival, is_of_client.then_some([7, 1, 255, 0]), deflates, &mut again);
    }
    assert_eq!(read(of, &again, again.len().max(1)), (whole.0, Ok(())));
}

fn reader((is_of_client, deflates): (bool, bool)) -> MessageReader {
    let reader = match is_of_client {
        true => MessageReader::of_client(MESSAGE_MAX),
        false => MessageReader::of_server(MESSAGE_MAX),
    };
    if deflates { reader.with_deflate() } else { reader }
}

fn read(of: (bool, bool), stream: &[u8], piece: usize) -> (Vec<Arrival>, Result<(), FrameFault>) {
    let (mut reader, mut arrivals) = (reader(of), Vec::new());
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

fn put(arrival: &Arrival, mask: Option<[u8; 4]>, deflates: bool, out: &mut Vec<u8>) {
    if let (Arrival::Message(message), true) = (arrival, deflates) {
        let kind = message.as_text().map_or(DataKind::Binary, |_| DataKind::Text);
        return put_deflated(kind, message.as_bytes(), mask, out);
    }
    match arrival {
        Arrival::Message(WebSocketMessage::Text(text)) => put_text(text, mask, out),
        Arrival::Message(WebSocketMessage::Binary(bytes)) => put_binary(bytes, mask, out),
        Arrival::Ping(payload) => put_ping(payload, mask, out),
        Arrival::Pong(payload) => put_pong(payload, mask, out),
        Arrival::Close(closing) => put_close(closing.code, &closing.reason, mask, out),
    }
}
