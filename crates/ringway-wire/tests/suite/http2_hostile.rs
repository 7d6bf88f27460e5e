//! Limits on the rate of what a peer may do: each flood ends the connection, and ordinary use does not.

use std::time::Duration;

use ringway_wire::http2::{
    Body, Connection, ErrorCode, Event, Http2Client, Http2Config, Http2Server, NewRequest,
    NoStream, Serving, StreamHandle, Violation,
};

use crate::support::http2::*;

fn greeted() -> Http2Server {
    let mut server = server();
    let greeting = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
    assert!(server.receive(&mut &greeting[..], NOW).expect("well-formed").is_none());
    output(&mut server, usize::MAX);
    server
}

/// Sends what `wire` makes until the server closes the connection, at most a hundred thousand times, all at `now`.
/// Returns the number of times. Handlers end as soon as they are told to, and the output is read.
fn flood(
    server: &mut Http2Server,
    now: Duration,
    wire: impl Fn(u32) -> Vec<u8>,
) -> (u32, Violation) {
    for at in 0..100_000 {
        let wire = wire(at);
        let mut input = &wire[..];
        loop {
            match server.receive(&mut input, now) {
                Ok(Some(Event::Reset { stream, .. } | Event::Failed { stream, .. })) => {
                    server.let_go(stream);
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(violation) => {
                    let code = violation.code();
                    assert_eq!(code, ErrorCode::ENHANCE_YOUR_CALM);
                    assert_eq!(ends(&output(server, usize::MAX)).last(), Some(&(0, code)));
                    return (at, violation);
                }
            }
        }
        output(server, usize::MAX);
    }
    panic!("the server bears it for ever");
}

/// Does the same on a new connection.
fn check(wire: impl Fn(u32) -> Vec<u8>, most: u32, expected: Violation) {
    let (count, violation) = flood(&mut greeted(), NOW, wire);
    assert_eq!(violation, expected);
    assert!(count >= most / 2 && count <= most, "{count} of {most}");
}

#[test]
fn rapid_reset() {
    let reset = |at: u32| {
        let id = 2 * at + 1;
        [request(id, 0), frame(RST_STREAM, 0, id, &[0, 0, 0, 8])].concat()
    };
    check(reset, 4_096, Violation::TooManyResets);
}

/// Opens streams one after another and resets each one `after` its open. Returns how many were delivered.
fn give_up(count: u32, after: Duration) -> Result<u32, Violation> {
    let (mut server, mut told) = (greeted(), 0);
    for at in 0..count {
        let (id, now) = (2 * at + 1, Duration::from_micros(10) * at);
        let reset = frame(RST_STREAM, 0, id, &[0, 0, 0, 8]);
        for (wire, now) in [(request(id, 0), now), (reset, now + after)] {
            let mut input = &wire[..];
            while let Some(event) = server.receive(&mut input, now)? {
                if let Event::Reset { stream, .. } = event {
                    told += 1;
                    server.let_go(stream);
                }
            }
        }
        output(&mut server, usize::MAX);
    }
    Ok(told)
}

#[test]
fn streams_that_have_run_are_reset_at_any_rate() {
    assert_eq!(give_up(100_000, Duration::from_micros(5)), Ok(100_000));
    assert_eq!(give_up(100_000, Duration::ZERO), Err(Violation::TooManyResets));
}

#[test]
fn streams_that_the_peer_has_us_reset() {
    let update = |id: u32| frame(WINDOW_UPDATE, 0, id, &[0; 4]);
    check(
        |at| [request(2 * at + 1, 0), update(2 * at + 1)].concat(),
        4_096,
        Violation::TooManyResets,
    );
    let wrong = |at: u32| frame(HEADERS, END_HEADERS, 2 * at + 1, &block(&[("X", "y")]));
    check(wrong, 4_096, Violation::TooManyResets);
}

#[test]
fn calls_that_come_to_their_end_earn_resets() {
    let mut server = greeted();
    for at in 0..20_000 {
        let (done, given_up) = (4 * at + 1, 4 * at + 3);
        let reset = frame(RST_STREAM, 0, given_up, &[0, 0, 0, 8]);
        let wire = [request(done, END_STREAM), request(given_up, 0), reset].concat();
        let mut input = &wire[..];
        while let Some(event) = server.receive(&mut input, NOW).expect("ordinary") {
            match event {
                Event::Head { stream, end: true, .. } => {
                    server
                        .respond(stream, RESPONSE, &[], Body::Copy(b"x"), TRAILERS)
                        .expect("open");
                }
                Event::Reset { stream, .. } => server.let_go(stream),
                _ => {}
            }
        }
        output(&mut server, usize::MAX);
    }
    assert_eq!(server.in_flight(), 0);
}

/// grpc-go measures the path, by one PING for each DATA frame that has come while none was under way.
#[test]
fn data_earns_pings() {
    let mut server = greeted();
    for at in 0..20_000 {
        let wire = [request(2 * at + 1, END_STREAM), frame(PING, 0, 0, &[0; 8])].concat();
        let mut input = &wire[..];
        while let Some(event) = server.receive(&mut input, NOW).expect("ordinary") {
            if let Event::Head { stream, .. } = event {
                let body = Body::Copy(b"x");
                server.respond(stream, RESPONSE, &[], body, TRAILERS).expect("open");
            }
        }
        output(&mut server, usize::MAX);
    }
}

#[test]
fn pings_and_settings() {
    check(|_| frame(PING, 0, 0, &[0; 8]), 512, Violation::TooManyPings);
    check(|_| frame(SETTINGS, 0, 0, &[]), 16, Violation::TooManySettings);
    // From here on gRPC clients send fewer pings.
    let (mut server, ping) = (greeted(), frame(PING, 0, 0, &[0; 8]));
    while server.receive(&mut &ping[..], NOW).is_ok() {}
    assert!(output(&mut server, usize::MAX).ends_with(b"\0\0\0\x0btoo_many_pings"));
    // An occasional one is accepted.
    let mut server = greeted();
    for at in 0..10_000 {
        let now = Duration::from_millis(300) * at;
        let wire = [frame(PING, 0, 0, &[0; 8]), frame(SETTINGS, 0, 0, &[])].concat();
        server.receive(&mut &wire[..], now).expect("ordinary");
        output(&mut server, usize::MAX);
    }
}

#[test]
fn frames_that_bring_nothing() {
    let opened = |next: Vec<u8>| move |at: u32| if at == 0 { request(1, 0) } else { next.clone() };
    let budget = (16 << 10) + 4;
    for next in [
        frame(DATA, 0, 1, &[]),
        frame(DATA, PADDED, 1, &[3, 0, 0, 0]),
        frame(PRIORITY, 0, 3, &[0; 5]),
        frame(99, 0, 0, b"unknown"),
        frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]),
        frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
        frame(SETTINGS, ACK, 0, &[]),
        frame(PING, ACK, 0, &[0; 8]),
        frame(GOAWAY, 0, 0, &[0; 8]),
    ] {
        check(opened(next), budget, Violation::TooManyIdleFrames);
    }
}

#[test]
fn resets_of_streams_that_have_ended() {
    let late = |at: u32| match at {
        0 => [request(1, 0), frame(RST_STREAM, 0, 1, &[0; 4])].concat(),
        _ => frame(RST_STREAM, 0, 1, &[0; 4]),
    };
    check(late, (16 << 10) + 4, Violation::TooManyIdleFrames);
}

#[test]
fn frames_on_streams_that_are_over() {
    // We have reset one of them, and the other has ended by itself.
    let reset = |late: Vec<u8>| {
        move |at: u32| match at {
            0 => frame(HEADERS, END_HEADERS, 1, &block(&[("X", "y")])),
            _ => late.clone(),
        }
    };
    let update = frame(WINDOW_UPDATE, 0, 1, &(1_u32 << 20).to_be_bytes());
    let budget = (16 << 10) + 4;
    for late in [frame(DATA, END_STREAM, 1, &[]), update.clone()] {
        check(reset(late), budget, Violation::TooManyIdleFrames);
    }
    let in_window = (1 << 20) / 64;
    let late = reset(frame(DATA, 0, 1, &[0; 64]));
    check(late, in_window + budget, Violation::TooManyIdleFrames);
    let ended = move |at: u32| match at {
        0 => [request(1, 0), frame(RST_STREAM, 0, 1, &[0; 4])].concat(),
        _ => update.clone(),
    };
    check(ended, budget, Violation::TooManyIdleFrames);
    // Sent before the reset was received, in frames of an ordinary length.
    let mut server = greeted();
    let wrong = frame(HEADERS, END_HEADERS, 1, &block(&[("X", "y")]));
    server.receive(&mut &wrong[..], NOW).expect("the stream's fault");
    let late = frame(DATA, 0, 1, &[0; 8 << 10]);
    for _ in 0..20_000 {
        server.receive(&mut &late[..], NOW).expect("ordinary");
        output(&mut server, usize::MAX);
    }
}

#[test]
fn messages_of_a_round_trip_behind_an_early_answer_are_borne() {
    let mut server = greeted();
    for id in [1, 3, 5] {
        let wire = request(id, 0);
        let opened = server.receive(&mut &wire[..], NOW).expect("well-formed");
        let Some(Event::Head { stream, .. }) = opened else { panic!("{opened:?}") };
        server.head(stream, TRAILERS, true).expect("open");
        server.reset(stream, ErrorCode::NO_ERROR);
        output(&mut server, usize::MAX);
    }
    // Each stream has a window of 1 MiB.
    let late = [1, 3, 5].map(|id| frame(DATA, 0, id, &[0; 50])).concat();
    for _ in 0..20_000 {
        let told = server.receive(&mut &late[..], NOW).expect("an honest client");
        assert!(told.is_none());
        output(&mut server, usize::MAX);
    }
    let ends = [1, 3, 5].map(|id| frame(DATA, END_STREAM, id, &[])).concat();
    assert!(server.receive(&mut &ends[..], NOW).expect("an honest client").is_none());
}

#[test]
fn messages_of_a_round_trip_behind_a_cancelled_call_are_borne() {
    let mut client = client();
    hear(&mut client, &frame(SETTINGS, 0, 0, &setting(3, 100)), NOW);
    let new = NewRequest { head: REQUEST, end: true, ..NewRequest::default() };
    let stream = client.open(new).expect("room");
    let id = stream.id();
    hear(&mut client, &frame(HEADERS, END_HEADERS, id, &block(&[(":status", "200")])), NOW);
    client.reset(stream, ErrorCode::CANCEL);
    let late = frame(DATA, 0, id, &[0; 50]);
    for _ in 0..20_000 {
        hear(&mut client, &late, NOW);
    }
}

/// Opens streams and cancels each at once while there is room. Returns the number of streams.
fn storm(client: &mut Http2Client, end: impl Fn(&mut Http2Client, u32, StreamHandle)) -> u32 {
    let mut count = 0;
    while client.capacity() > 0 && count < 10_000 {
        let request = NewRequest { head: REQUEST, ..NewRequest::default() };
        let stream = client.open(request).expect("room");
        end(client, stream.id(), stream);
        count += 1;
    }
    count
}

/// Takes the client's waiting events.
fn hear(client: &mut Http2Client, wire: &[u8], now: Duration) {
    let mut input = wire;
    while client.receive(&mut input, now).expect("well-formed").is_some() {}
}

#[test]
fn a_client_resets_no_more_than_servers_bear() {
    // Both by its own choice and because of the server.
    let cancel = |client: &mut Http2Client, _, stream| client.reset(stream, ErrorCode::CANCEL);
    let wrong = |client: &mut Http2Client, id, _| {
        hear(client, &frame(HEADERS, END_HEADERS, id, &block(&[("X", "y")])), NOW);
    };
    let ways: [fn(&mut Http2Client, u32, StreamHandle); 2] = [cancel, wrong];
    for end in ways {
        let mut client = client();
        hear(&mut client, &frame(SETTINGS, 0, 0, &setting(3, 1_000)), NOW);
        assert_eq!(storm(&mut client, end), 1_500);
        let sent = output(&mut client, usize::MAX);
        assert_eq!(ends(&sent).len(), 500);
        assert_eq!((client.in_flight(), client.capacity()), (1_000, 0));
        // A hundred more per second.
        let next = client.poll_timeout().expect("alive");
        assert!(next <= Duration::from_millis(10), "{next:?}");
        let now = Duration::from_secs(1);
        client.handle_timeout(now).expect("alive");
        assert_eq!(ends(&output(&mut client, usize::MAX)).len(), 100);
        assert_eq!((client.in_flight(), client.capacity()), (900, 100));
        // What the server still sends on them is accepted.
        let id = 2 * 1_400 + 1;
        let head = frame(HEADERS, END_HEADERS, id, &block(&[(":status", "200")]));
        hear(&mut client, &[head, frame(DATA, END_STREAM, id, b"late")].concat(), now);
    }
}

#[test]
fn a_client_of_a_server_without_a_limit_keeps_a_bounded_number_of_cancelled_streams() {
    let mut client = client();
    hear(&mut client, &frame(SETTINGS, 0, 0, &[]), NOW);
    let mut count = 0;
    while client.capacity() > 0 && count < 100_000 {
        let request = NewRequest { head: REQUEST, ..NewRequest::default() };
        let stream = client.open(request).expect("room");
        client.reset(stream, ErrorCode::CANCEL);
        output(&mut client, usize::MAX);
        count += 1;
    }
    assert_eq!((count, client.in_flight()), ((64 << 10) + 500, 64 << 10));
    let request = NewRequest { head: REQUEST, ..NewRequest::default() };
    assert_eq!(client.open(request), Err(NoStream::Full));
    // Once some RST_STREAMs have left there is room again, and the caller is told.
    client.handle_timeout(Duration::from_secs(1)).expect("alive");
    let event = client.receive(&mut &[][..], Duration::from_secs(1)).expect("alive");
    assert!(matches!(event, Some(Event::Capacity)));
    assert_eq!(client.capacity(), 100);
}

#[test]
fn a_dialogue_of_small_messages_is_ordinary() {
    let mut server = greeted();
    let open = request(1, 0);
    let Some(Event::Head { stream, .. }) = server.receive(&mut &open[..], NOW).expect("fine")
    else {
        panic!("no request");
    };
    server.head(stream, RESPONSE, false).expect("open");
    // One message, and a window update for each message that came back.
    let wire = [frame(DATA, 0, 1, b"x"), frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1])].concat();
    for _ in 0..100_000 {
        let mut input = &wire[..];
        while let Some(event) = server.receive(&mut input, NOW).expect("ordinary") {
            assert_eq!(told(&event), "data 1 \"x\" false");
            server.taken(stream, 1);
            server.send(stream, &[], Body::Copy(b"y"), false).expect("open");
        }
        output(&mut server, usize::MAX);
    }
}

#[test]
fn answers_that_nobody_reads() {
    // Four pings every second or two for hours, while no byte of output is taken.
    let mut server = greeted();
    let mut count = 0;
    let violation = loop {
        let now = Duration::from_millis(10) * count;
        match server.receive(&mut &frame(PING, 0, 0, &[0; 8])[..], now) {
            Ok(_) => count += 1,
            Err(violation) => break violation,
        }
        assert!(count < 20_000);
    };
    assert_eq!(violation, Violation::AnswersUnread);
    assert_eq!(count, 16 << 10);
}

#[test]
fn a_peer_that_takes_nothing_loses_its_stream() {
    let mut server = greeted();
    let open = request(1, END_STREAM);
    let Some(Event::Head { stream, .. }) = server.receive(&mut &open[..], NOW).expect("fine")
    else {
        panic!("no request");
    };
    let body = Body::Shared(vec![7; 100_000].into());
    server.respond(stream, RESPONSE, &[], body, TRAILERS).expect("open");
    output(&mut server, usize::MAX);
    assert_eq!(server.unsent(stream), 100_000 - 65_535);
    // It still answers pings, so it is not silent.
    let mut now = NOW;
    while now < Duration::from_secs(310) {
        now += Duration::from_secs(20);
        let settings = frame(SETTINGS, ACK, 0, &[]);
        if let Some(event) = server.receive(&mut &settings[..], now).expect("fine") {
            assert_eq!(told(&event), "failed 1 CANCEL");
            assert!(now > Duration::from_secs(300), "{now:?}");
            assert_eq!(ends(&output(&mut server, 9_999)), [(1, ErrorCode::CANCEL)]);
            return;
        }
        server.handle_timeout(now).expect("it answers");
    }
    panic!("the stream lives for ever");
}

#[test]
fn changed_settings_have_their_time_however_long_the_connection_was_quiet() {
    let config = Http2Config { ping_after: Duration::from_secs(600), ..Http2Config::default() };
    let mut server = Connection::<Serving>::new(config, vocabulary(), NOW);
    let said = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &frame(SETTINGS, ACK, 0, &[])].concat();
    assert!(server.receive(&mut &said[..], NOW).expect("fine").is_none());
    let at = Duration::from_secs(500);
    server.set_memory_pressure(true);
    assert!(server.poll_timeout() <= Some(at), "it asks for the time");
    server.handle_timeout(at).expect("nobody has had time to answer");
    output(&mut server, usize::MAX);
    let late = at + Duration::from_secs(30);
    assert_eq!(server.poll_timeout(), Some(late));
    assert_eq!(server.handle_timeout(late), Err(Violation::SettingsTimeout));
}

#[test]
fn half_a_preface_and_settings_without_an_answer() {
    let mut server = server();
    server.receive(&mut &PREFACE[..10], NOW).expect("so far");
    assert_eq!(server.poll_timeout(), Some(Duration::from_secs(3)));
    let error = server.handle_timeout(Duration::from_secs(3));
    assert_eq!(error, Err(Violation::HandshakeTimeout));
    let mut server = greeted();
    let pong = frame(PING, ACK, 0, &[0; 8]);
    server.receive(&mut &pong[..], Duration::from_secs(29)).expect("fine");
    assert_eq!(server.poll_timeout(), Some(Duration::from_secs(30)));
    let error = server.handle_timeout(Duration::from_secs(30));
    assert_eq!(error, Err(Violation::SettingsTimeout));
}

#[test]
fn a_block_of_one_byte_fields_costs_no_more_than_the_list_that_is_kept() {
    // The largest entry, and the largest block with a reference to it in each byte.
    let mut server = greeted();
    let long = [&b"\x40\x01x\x7f\xc9\x1e"[..], &[b'v'; 4_040]].concat();
    let bomb = vec![0xbe; 12_000];
    let wire = frame(HEADERS, END_HEADERS | END_STREAM, 1, &[long, bomb].concat());
    let event = server.receive(&mut &wire[..], NOW);
    // The list is cut off at its limit, so the request's own fields may be missing; its
    // receiver must report that the list was too long.
    assert!(matches!(event, Ok(Some(Event::Head { .. }))));
    assert!(server.fields().is_cut());
    let kept: usize =
        server.fields().iter().map(|(name, value)| name.len() + value.len() + 32).sum();
    assert!(kept <= 16 << 10, "{kept}");
}
