use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use ringway_runtime::block_on;
use ringway_wire::native::{Body, Config, MetaWriter, Open, Outgoing, Reply, Server, ServerEvent};

use super::*;
use crate::call::metadata::Metadata;
use crate::client::config::ClientConfig;
use crate::client::outcome::CallOutcome;
use crate::connection::driver::Clock;
use crate::waiters::poll_with;

const MS: Duration = Duration::from_millis(1);
const DEADLINE: Duration = Duration::from_millis(50);

/// SETTINGS of HTTP/2, with nothing in it.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

/// RST_STREAM of the first stream.
fn reset(error: u8) -> Vec<u8> {
    vec![0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, error]
}

/// HEADERS that are all of the response on the first stream.
fn trailers(status: &str) -> Vec<u8> {
    let block = [
        b"\x88\x0f\x10\x10application/grpc\x00\x0bgrpc-status".as_slice(),
        &[status.len() as u8],
        status.as_bytes(),
    ];
    let block = block.concat();
    [&[0, 0, block.len() as u8, 1, 5, 0, 0, 0, 1][..], &block].concat()
}

/// The outcome of a gRPC call whose response arrives at this time.
fn ends(answer: Vec<u8>, at: Duration) -> CallOutcome {
    let context =
        PoolContext::new(Arc::new(ClientConfig::plain()), Clock::since(Instant::now()), 0);
    let server = "grpc://127.0.0.1:1".parse().expect("an address");
    let machine = context.config.machine(&server, Duration::ZERO);
    let mut state = ConnectionState::new(context, EndpointId(0), machine);
    let open = Open { name: "a.B/C", timeout: Some(DEADLINE), end: true, ..Open::default() };
    let (stream, _) = state.machine.open(open).expect("there is room");
    let mut pending = PendingCalls::new();
    let call = pending.insert((), stream, Waker::noop().clone());
    state.calls.enter(stream, StreamUse::Unary(call), DEADLINE);
    state.poll_transmit(usize::MAX, &mut |_| {});
    let input = View::from([SETTINGS, &answer].concat());
    let (ended, taken) = state.handle_input(Some(&input), at, &mut pending, &mut Vec::new());
    assert!(ended == 1 && taken.is_ok(), "{taken:?}");
    match poll_with(Waker::noop(), |waker| pending.poll(call, waker, &mut None)) {
        Poll::Ready(ended) => ended.outcome,
        Poll::Pending => panic!("it has ended"),
    }
}

#[test]
fn whoever_notices_a_deadline_first_the_caller_is_told_of_it() {
    let checked = block_on(async {
        for (answer, at, told) in [
            (reset(8), DEADLINE - MS, Code::Cancelled),
            (reset(8), DEADLINE, Code::DeadlineExceeded),
            (reset(2), DEADLINE, Code::Internal),
            (trailers("1"), DEADLINE - MS, Code::Cancelled),
            (trailers("1"), DEADLINE + MS, Code::DeadlineExceeded),
            (trailers("5"), DEADLINE + MS, Code::NotFound),
        ] {
            let status = ends(answer, at).expect_err("no reply");
            assert_eq!(status.code(), told, "{status:?} after {at:?}");
        }
    });
    checked.expect("a core");
}

/// What a caller gets of a call whose server sends this metadata before its reply.
fn initial(meta: &[u8]) -> Metadata {
    let context =
        PoolContext::new(Arc::new(ClientConfig::plain()), Clock::since(Instant::now()), 0);
    let address = "tcp://127.0.0.1:1".parse().expect("an address");
    let machine = context.config.machine(&address, Duration::ZERO);
    let mut state = ConnectionState::new(context, EndpointId(0), machine);
    let open =
        Open { name: "a.B/C", message: Some(Body::Copy(b"x")), end: true, ..Open::default() };
    let (stream, _) = state.machine.open(open).expect("there is room");
    let mut pending = PendingCalls::new();
    let call = pending.insert((), stream, Waker::noop().clone());
    state.calls.enter(stream, StreamUse::Unary(call), NEVER);
    let append = |bytes: &mut Vec<u8>, out: Outgoing<'_>| match out {
        Outgoing::Copy(part) => bytes.extend_from_slice(part),
        Outgoing::Shared(part) => bytes.extend_from_slice(&part),
    };
    let (mut up, mut down) = (Vec::new(), Vec::new());
    state.poll_transmit(usize::MAX, &mut |out| append(&mut up, out));
    let mut server = Server::new(Config::default(), Duration::ZERO);
    let mut input = &up[..];
    while let Some(event) = server.receive(&mut input, Duration::ZERO).expect("sound") {
        if let ServerEvent::Request { stream, .. } = event {
            server.send_initial(stream, meta).expect("it is open");
            let message = Some(Body::Copy(b"x"));
            server.respond(stream, Reply { status: 0, meta: &[], message });
        }
    }
    server.transmit(usize::MAX, &mut |out| append(&mut down, out));
    let input = View::from(down);
    let taken = state.handle_input(Some(&input), Duration::ZERO, &mut pending, &mut Vec::new());
    assert!(taken.0 == 1 && taken.1.is_ok());
    let ended = pending.take_ended(call).expect("it has ended");
    ended.outcome.expect("a reply").meta.expect("metadata").initial
}

#[test]
fn an_entry_before_the_reply_that_breaks_the_rules_costs_no_other_one() {
    let checked = block_on(async {
        let mut meta = Vec::new();
        let mut writer = MetaWriter::new(&mut meta);
        writer.entry("tenant", b"blue").entry("no good", b"x").entry("shard", b"\n");
        writer.entry("shard", b"7");
        let read = initial(&meta);
        assert_eq!(
            (read.get("tenant"), read.get("shard"), read.len()),
            (Some("blue"), Some("7"), 2)
        );
    });
    checked.expect("a core");
}
