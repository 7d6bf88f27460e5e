//! Fuzz functions that feed arbitrary input to a server or a client machine.

use std::time::Duration;

use super::{
    Body, Client, ClientEvent, Config, Flags, FrameKind, HEADER_LEN, Header, Open, Outgoing,
    PREFACE, PREFACE_LEN, Reply, Server, ServerEvent, Settings, StreamId, Violation,
};

/// Feeds `data` to a server, whole and in pieces: events, error and output must be equal, and the
/// output must consist of whole frames.
pub fn server(data: &[u8]) {
    let Some((&[form, cut], stream)) = data.split_first_chunk() else {
        return;
    };
    let input = greeted(form, stream);
    let whole = serve(form, input.chunks(input.len().max(1)));
    for piece_len in [1, usize::from(cut) + 1] {
        assert_eq!(serve(form, input.chunks(piece_len)), whole, "in pieces of {piece_len}");
    }
}

/// Feeds `data` to a client with open calls, as [`server`] does.
pub fn client(data: &[u8]) {
    let Some((&[form, cut], stream)) = data.split_first_chunk() else {
        return;
    };
    let input = greeted(form, stream);
    let whole = ask(form, input.chunks(input.len().max(1)));
    for piece_len in [1, usize::from(cut) + 1] {
        assert_eq!(ask(form, input.chunks(piece_len)), whole, "in pieces of {piece_len}");
    }
}

/// Everything that a machine produced.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    events: Vec<String>,
    error: Option<Violation>,
    sent: Vec<u8>,
}

/// The peer's bytes; unless `form` forbids it, they start with a valid preface and SETTINGS, which
/// a fuzzer would hardly find.
fn greeted(form: u8, stream: &[u8]) -> Vec<u8> {
    if form & 1 != 0 {
        return stream.to_vec();
    }
    let settings = Header {
        len: 0,
        kind: FrameKind::Settings,
        flags: Flags::NONE,
        meta_len: 0,
        stream: StreamId::CONNECTION,
        aux: 0,
    };
    [&PREFACE, &settings.encode()[..], stream].concat()
}

fn config(form: u8) -> Config {
    let mut config = Config::default();
    if form & 2 != 0 {
        config.settings = Settings { max_message: 64, max_meta: 16, ..Settings::default() };
    }
    config
}

fn serve<'i>(form: u8, pieces: impl Iterator<Item = &'i [u8]>) -> Outcome {
    let mut server = Server::new(config(form), Duration::ZERO);
    if form & 4 != 0 {
        server.lease(2);
    }
    let mut outcome = Outcome { events: Vec::new(), error: None, sent: Vec::new() };
    for mut piece in pieces {
        match serve_piece(&mut server, &mut piece, &mut outcome.events) {
            Ok(()) => assert!(piece.is_empty(), "no event, and bytes are left"),
            Err(violation) => {
                let again = server.receive(&mut piece, Duration::ZERO).map(|_| ());
                assert_eq!(again, Err(violation.clone()), "an error stays");
                outcome.error = Some(violation);
                break;
            }
        }
    }
    server.transmit(usize::MAX, &mut |out| append(&mut outcome.sent, &out));
    assert!(outcome.error.is_none() || !server.has_output());
    // A server that received no preface sends nothing but its lease.
    check_frames(&outcome.sent);
    outcome
}

fn serve_piece(
    server: &mut Server,
    piece: &mut &[u8],
    events: &mut Vec<String>,
) -> Result<(), Violation> {
    while let Some(event) = server.receive(piece, Duration::ZERO)? {
        events.push(asked(&event));
        handle(server, &event, events.len());
    }
    Ok(())
}

/// Acts as a handler that answers some calls at once, streams to some, and leaves others open.
fn handle(server: &mut Server, event: &ServerEvent<'_>, turn: usize) {
    match event {
        ServerEvent::Request { stream, message, .. } => match turn % 4 {
            0 => {
                let message = message.as_deref().map(Body::Copy);
                assert!(server.respond(*stream, Reply { status: 0, meta: &[], message }).is_some());
            }
            1 => {
                server.send(*stream, b"\x06\0", Body::Copy(b"first")).expect("just opened");
            }
            2 => {
                let long = vec![7; 100_000].into();
                let reply = Reply { status: 0, meta: &[], message: Some(Body::Shared(long)) };
                assert!(server.respond(*stream, reply).is_some());
            }
            _ => {}
        },
        ServerEvent::Message { stream, .. } => server.taken(*stream, 1),
        ServerEvent::End { stream } => {
            server.respond(*stream, Reply { status: 5, meta: &[], message: None });
        }
        _ => {}
    }
}

fn ask<'i>(form: u8, pieces: impl Iterator<Item = &'i [u8]>) -> Outcome {
    let mut client = Client::new(config(form), Duration::ZERO);
    let mut outcome = Outcome { events: Vec::new(), error: None, sent: Vec::new() };
    let long = vec![1; 70_000];
    for (message, end) in [(&b"unary"[..], true), (b"stream", false), (&long, true)] {
        let message = Some(Body::Copy(message));
        let call = Open { method: 1, name: "a.B/C", message, end, ..Open::default() };
        client.open(call).expect("nothing is open");
    }
    client.cancel(StreamId::new(0, 1), 1, "");
    client.transmit(usize::MAX, &mut |out| append(&mut outcome.sent, &out));
    for mut piece in pieces {
        match ask_piece(&mut client, &mut piece, &mut outcome.events) {
            Ok(()) => assert!(piece.is_empty(), "no event, and bytes are left"),
            Err(violation) => {
                let again = client.receive(&mut piece, Duration::ZERO).map(|_| ());
                assert_eq!(again, Err(violation.clone()), "an error stays");
                outcome.error = Some(violation);
                break;
            }
        }
    }
    client.transmit(usize::MAX, &mut |out| append(&mut outcome.sent, &out));
    check_frames(&outcome.sent);
    outcome
}

fn ask_piece(
    client: &mut Client,
    piece: &mut &[u8],
    events: &mut Vec<String>,
) -> Result<(), Violation> {
    while let Some(event) = client.receive(piece, Duration::ZERO)? {
        events.push(told(&event));
        match event {
            ClientEvent::Message { stream, .. } => client.taken(stream, 1),
            ClientEvent::Capacity | ClientEvent::Response { .. } | ClientEvent::Failed { .. } => {
                let _ = client.open(Open { end: true, ..Open::default() });
            }
            _ => {}
        }
    }
    Ok(())
}

/// Formats an event without the difference between borrowed and owned bytes.
fn asked(event: &ServerEvent<'_>) -> String {
    match event {
        ServerEvent::Request { stream, head, meta, message, end } => {
            format!("{stream} {head:?} {:?} {:?} {end}", &**meta, message.as_deref())
        }
        ServerEvent::Message { stream, message, end } => format!("{stream} {:?} {end}", &**message),
        ServerEvent::Cancelled { stream, code, reason } => {
            format!("{stream} {code} {:?}", &**reason)
        }
        ServerEvent::PeerLeaving { code, reason } => format!("leaving {code} {:?}", &**reason),
        ServerEvent::Named { method, meta } => format!("{method} {:?}", &**meta),
        ServerEvent::End { .. }
        | ServerEvent::Failed { .. }
        | ServerEvent::Writable { .. }
        | ServerEvent::Guest { .. } => format!("{event:?}"),
    }
}

/// Formats a client's event, as `asked` does a server's.
fn told(event: &ClientEvent<'_>) -> String {
    match event {
        ClientEvent::Initial { stream, meta } => format!("{stream} initial {:?}", &**meta),
        ClientEvent::Message { stream, message } => format!("{stream} {:?}", &**message),
        ClientEvent::Response { stream, status, meta, message } => {
            format!("{stream} {status} {:?} {:?}", &**meta, message.as_deref())
        }
        ClientEvent::Leaving { code, drain_ms, accepted, reason } => {
            format!("leaving {code} {drain_ms} {accepted} {:?}", &**reason)
        }
        ClientEvent::Failed { .. } | ClientEvent::Writable { .. } | ClientEvent::Capacity => {
            format!("{event:?}")
        }
    }
}

fn append(sent: &mut Vec<u8>, out: &Outgoing<'_>) {
    match out {
        Outgoing::Copy(bytes) => sent.extend_from_slice(bytes),
        Outgoing::Shared(bytes) => sent.extend_from_slice(bytes),
    }
}

/// Checks that the output is an optional preface and whole, consistent frames.
fn check_frames(sent: &[u8]) {
    let mut rest = sent;
    if let Some(behind) = sent.strip_prefix(&PREFACE) {
        rest = behind;
        assert_eq!(sent.len() - rest.len(), PREFACE_LEN);
    }
    while let Some((head, behind)) = rest.split_first_chunk::<HEADER_LEN>() {
        let header = Header::decode(head).expect("our own frames are consistent");
        (_, rest) = behind.split_at_checked(header.len as usize).expect("and whole");
    }
    assert!(rest.is_empty());
}
