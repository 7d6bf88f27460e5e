//! Fuzz functions that feed arbitrary bytes to a machine: the result must not depend on where they
//! are cut, and the output must consist of whole frames.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::frames::{FrameHeader, HEADER_LEN, PREFACE};
use super::{
    Body, Connection, Event, Http2Client, Http2Config, Http2Server, Key, Known, Line, NewRequest,
    Outgoing, Resolver, Role, StreamHandle, Violation, Vocabulary,
};

/// A resolver that knows `:path` alone.
#[derive(Debug)]
pub(super) struct Paths;

impl Resolver for Paths {
    fn key(&self, _: &[u8]) -> Option<Key> {
        None
    }

    fn value(&self, key: Key, value: &[u8]) -> Known {
        Known { value: value.len() as u64, keep: key == Key::PATH }
    }
}

/// What a machine made of the peer's bytes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heard {
    events: Vec<String>,
    /// Content of streams that have ended.
    contents: BTreeMap<u32, Vec<u8>>,
    error: Option<Violation>,
    sent: Vec<u8>,
}

/// Feeds a server: the first byte says whether the preface precedes the input, the second how the
/// input is cut.
pub fn server(data: &[u8]) {
    let [form, cut, input @ ..] = data else { return };
    let mut wire = if form & 1 == 0 { PREFACE.to_vec() } else { Vec::new() };
    wire.extend_from_slice(input);
    let run = |step: usize| {
        let vocabulary = Arc::new(Vocabulary::new(Paths));
        let mut server = Http2Server::new(config(*form), vocabulary, Duration::ZERO);
        feed(&mut server, &wire, step, answer)
    };
    same(run, *cut);
}

/// Feeds a client that has opened three streams, as [`server`] does a server.
pub fn client(data: &[u8]) {
    let [form, cut, input @ ..] = data else { return };
    let run = |step: usize| {
        let vocabulary = Arc::new(Vocabulary::new(Paths));
        let mut client = Http2Client::new(config(*form), vocabulary, Duration::ZERO);
        for (len, end) in [(10, true), (0, false), (70_000, true)] {
            let body = Some(Body::Shared(vec![7; len].into()));
            let request = NewRequest { head: &[Line::Static(3)], prefix: b"pre", body, end };
            client.open(request).expect("room");
        }
        feed(&mut client, input, step, |_, _, _| {})
    };
    same(run, *cut);
}

fn config(form: u8) -> Http2Config {
    let tight = Http2Config { max_streams: 2, max_header_list: 100, ..Http2Config::default() };
    if form & 2 == 0 { Http2Config::default() } else { tight }
}

fn same(run: impl Fn(usize) -> Heard, cut: u8) {
    let whole = run(usize::MAX);
    for step in [1, usize::from(cut) + 1] {
        assert_eq!(run(step), whole, "in pieces of {step}");
    }
}

/// Acts as a handler that answers ended requests, some with more than the initial window.
fn answer(server: &mut Http2Server, stream: StreamHandle, turn: usize) {
    let head = [Line::Static(8), Line::Fixed { id: 0, name: b"x", value: b"y" }];
    let trailers: &[Line<'_>] = if turn.is_multiple_of(2) { &head[1..] } else { &[] };
    let len = if turn.is_multiple_of(3) { 100_000 } else { 10 };
    let body = Body::Shared(vec![1; len].into());
    server.respond(stream, &head, b"12345", body, trailers).expect("open");
}

fn feed<R: Role>(
    machine: &mut Connection<R>,
    wire: &[u8],
    step: usize,
    mut answer: impl FnMut(&mut Connection<R>, StreamHandle, usize),
) -> Heard {
    let (mut outcome, mut partial) = (Heard::default(), BTreeMap::<u32, Vec<u8>>::new());
    'wire: for mut piece in wire.chunks(step) {
        loop {
            let event = match machine.receive(&mut piece, Duration::ZERO) {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(violation) => {
                    let again = machine.receive(&mut piece, Duration::ZERO).map(|_| ());
                    assert_eq!(again, Err(violation), "an error stays");
                    outcome.error = Some(violation);
                    break 'wire;
                }
            };
            if let Some(stream) = note(&event, &mut outcome, &mut partial) {
                answer(machine, stream, outcome.events.len());
            }
            if let Event::Reset { stream, .. } | Event::Failed { stream, .. } = event {
                machine.let_go(stream);
            }
        }
        assert!(piece.is_empty(), "no event, and bytes are left");
    }
    machine.transmit(usize::MAX, &mut |out| match out {
        Outgoing::Copy(bytes) => outcome.sent.extend_from_slice(bytes),
        Outgoing::Shared(bytes) => outcome.sent.extend_from_slice(&bytes),
    });
    check_frames(&outcome.sent);
    outcome
}

/// Records an event independently of how the input was cut; returns the stream that the peer ended,
/// if any.
fn note(
    event: &Event<'_>,
    outcome: &mut Heard,
    partial: &mut BTreeMap<u32, Vec<u8>>,
) -> Option<StreamHandle> {
    let (stream, data, end) = match event {
        Event::Head { stream, data, end } => {
            outcome.events.push(format!("head {stream}"));
            (*stream, &**data, *end)
        }
        Event::Data { stream, data, end } => (*stream, &**data, *end),
        Event::Trailers { stream } => (*stream, &[][..], true),
        Event::Leaving { code, last, reason } => {
            outcome.events.push(format!("{code} {last} {:?}", &**reason));
            return None;
        }
        other => {
            outcome.events.push(format!("{other:?}"));
            return None;
        }
    };
    let content = partial.entry(stream.id()).or_default();
    content.extend_from_slice(data);
    if !end {
        return None;
    }
    outcome.events.push(format!("end {stream}"));
    outcome.contents.insert(stream.id(), std::mem::take(content));
    Some(stream)
}

/// The types of the frames that a machine sent.
pub(crate) fn check_frames(sent: &[u8]) -> Vec<u8> {
    let mut rest = sent.strip_prefix(PREFACE).unwrap_or(sent);
    let mut kinds = Vec::new();
    while let Some((head, behind)) = rest.split_first_chunk::<HEADER_LEN>() {
        let header = FrameHeader::decode(head);
        assert_eq!(header.check(1 << 24), Ok(()), "our own frames are right");
        kinds.push(header.kind);
        (_, rest) = behind.split_at_checked(header.len as usize).expect("and whole");
    }
    assert!(rest.is_empty());
    kinds
}
