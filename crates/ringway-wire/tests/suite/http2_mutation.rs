//! Valid sessions with some bytes changed: no machine panics, exceeds its memory, or sends output that
//! makes no sense.
//!
//! `RINGWAY_MUTATIONS` sets the number of changed sessions of each role.

use ringway_wire::http2::{
    Body, Connection, Event, Http2Client, Http2Server, NewRequest, Role, Violation,
};

use crate::support::grpc_sessions::{self, GRPC_SESSIONS};
use crate::support::http2::*;
use crate::support::{Random, for_seeds};

/// The sessions of each role by default.
const SESSIONS: u64 = 2_000;

/// A client's calls and a server's answers, as bytes of the wire.
fn session() -> (Vec<u8>, Vec<u8>) {
    let (mut client, mut server) = (client(), server());
    let (mut up, mut down) = (Vec::new(), Vec::new());
    for round in 0..3 {
        open_some(&mut client, round);
        for _ in 0..4 {
            let sent = output(&mut client, usize::MAX);
            let mut input = &sent[..];
            while let Some(event) = server.receive(&mut input, NOW).expect("well-formed") {
                serve(&mut server, &event);
            }
            up.extend(sent);
            let sent = output(&mut server, usize::MAX);
            let mut input = &sent[..];
            while let Some(event) = client.receive(&mut input, NOW).expect("well-formed") {
                listen(&mut client, &event);
            }
            down.extend(sent);
        }
    }
    (up, down)
}

fn open_some(client: &mut Http2Client, round: usize) {
    for len in [0, 20, 3_000] {
        let body = vec![round as u8; len];
        let body = Some(Body::Copy(&body));
        let request = NewRequest { head: REQUEST, prefix: b"12345", body, end: len != 20 };
        let Ok(stream) = client.open(request) else { continue };
        if len == 20 {
            client.finish(stream, TRAILERS).expect("open");
        }
    }
    client.ping(round as u32);
}

fn serve(server: &mut Http2Server, event: &Event<'_>) {
    let stream = match event {
        Event::Head { stream, end: true, .. } | Event::Data { stream, end: true, .. } => stream,
        Event::Trailers { stream } => stream,
        Event::Data { stream, data, .. } | Event::Head { stream, data, .. } => {
            return server.taken(*stream, data.len());
        }
        Event::Reset { stream, .. } | Event::Failed { stream, .. } => {
            return server.let_go(*stream);
        }
        _ => return,
    };
    let body = Body::Shared(vec![9; stream.id() as usize % 7 * 1_000].into());
    let _ = server.respond(*stream, RESPONSE, b"12345", body, TRAILERS);
}

fn listen(client: &mut Http2Client, event: &Event<'_>) {
    if let Event::Data { stream, data, .. } | Event::Head { stream, data, .. } = event {
        client.taken(*stream, data.len());
    }
}

/// Changes, removes, inserts and doubles some bytes.
fn mutate(random: &mut Random, wire: &[u8]) -> Vec<u8> {
    let mut wire = wire.to_vec();
    for _ in 0..1 + random.below(4) {
        if wire.is_empty() {
            break;
        }
        let at = random.below(wire.len());
        match random.below(6) {
            0 => wire[at] = random.next() as u8,
            1 => wire[at] ^= 1 << random.below(8),
            2 => drop(wire.drain(at..(at + random.below(20)).min(wire.len()))),
            3 => drop(wire.splice(at..at, [random.next() as u8])),
            4 => {
                let part = wire[at..(at + random.below(60)).min(wire.len())].to_vec();
                let to = random.below(wire.len());
                wire.splice(to..to, part);
            }
            _ => wire.truncate(at + 1),
        }
    }
    wire
}

fn feed<R: Role>(
    random: &mut Random,
    machine: &mut Connection<R>,
    wire: &[u8],
    handle: impl Fn(&mut Connection<R>, &Event<'_>),
) {
    let (mut sent, mut error) = (Vec::new(), None);
    'wire: for mut piece in random.pieces(wire, 700) {
        loop {
            match machine.receive(&mut piece, NOW) {
                Ok(Some(event)) => handle(machine, &event),
                Ok(None) => break,
                Err(violation) => {
                    assert_eq!(machine.receive(&mut piece, NOW).map(|_| ()), Err(violation));
                    assert_eq!(machine.poll_timeout(), None);
                    error = Some(violation);
                    break 'wire;
                }
            }
        }
        assert!(piece.is_empty() && machine.incomplete_len() <= (64 << 10) + 16_393);
        assert!(machine.in_flight() <= 1_024);
        sent.extend(output(machine, random.below(3_000)));
    }
    sent.extend(output(machine, usize::MAX));
    // Who speaks something else is told nothing more, in the middle of a frame if need be. Else this
    // panics when there are not whole frames only.
    if error != Some(Violation::NotHttp2) {
        frames(&sent);
    }
    assert_eq!(machine.output_len(), 0);
}

#[test]
fn changed_sessions_are_borne() {
    let sessions = std::env::var("RINGWAY_MUTATIONS").ok().and_then(|count| count.parse().ok());
    let (up, down) = session();
    for_seeds(sessions.unwrap_or(SESSIONS), |random| {
        let wire = mutate(random, &up);
        feed(random, &mut server(), &wire, serve);
        let wire = mutate(random, &down);
        let mut client = client();
        (0..3).for_each(|round| open_some(&mut client, round));
        feed(random, &mut client, &wire, listen);
    });
}

#[test]
fn an_unchanged_session_goes_well() {
    let (up, down) = session();
    assert!(up.len() > 9_000 && down.len() > 9_000);
    for_seeds(20, |random| {
        let mut server = server();
        feed(random, &mut server, &up, serve);
        assert_eq!(server.in_flight(), 0);
        let mut client = client();
        (0..3).for_each(|round| open_some(&mut client, round));
        feed(random, &mut client, &down, listen);
        assert_eq!(client.in_flight(), 0);
    });
}

/// The changed corpus of a fuzz target: the target's checks hold for more than its files.
fn check_corpus(target: &str, run: fn(&[u8])) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/");
    let folder = std::path::Path::new(folder).join(target);
    let entries = folder.read_dir().expect("the corpus is part of the repository");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("one").path()).collect();
    files.sort();
    let inputs: Vec<_> = files.iter().map(|file| std::fs::read(file).expect("readable")).collect();
    let sessions = std::env::var("RINGWAY_MUTATIONS").ok().and_then(|count| count.parse().ok());
    for_seeds(sessions.unwrap_or(SESSIONS), |random| {
        let mut input = inputs[random.below(inputs.len())].clone();
        if random.below(3) == 0 {
            input.extend_from_slice(&inputs[random.below(inputs.len())][2..]);
        }
        run(&mutate(random, &input));
    });
}

#[test]
fn changed_inputs_of_the_fuzzer_say_the_same_however_they_are_cut() {
    check_corpus("http2_server", ringway_wire::fuzz::http2_server);
    check_corpus("http2_client", ringway_wire::fuzz::http2_client);
    check_corpus("http2_hpack", ringway_wire::fuzz::http2_hpack);
    check_corpus("grpc_codec", ringway_wire::fuzz::grpc_codec);
    check_corpus("grpc_server", ringway_wire::fuzz::grpc_server);
}

#[test]
fn changed_sessions_of_grpc_say_the_same_however_they_are_cut() {
    let sessions = std::env::var("RINGWAY_MUTATIONS").ok().and_then(|count| count.parse().ok());
    for_seeds(sessions.unwrap_or(SESSIONS), |random| {
        let [session, other] = [(); 2].map(|()| &GRPC_SESSIONS[random.below(GRPC_SESSIONS.len())]);
        let mut frames = session.clone();
        grpc_sessions::mutate(&mut frames, other, random);
        let form = [1 + 2 * random.below(8) as u8, random.below(256) as u8];
        ringway_wire::fuzz::grpc_server(&[&form[..], &frames.concat()].concat());
    });
}
