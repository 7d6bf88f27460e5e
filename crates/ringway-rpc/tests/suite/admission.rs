//! Nothing is bought before it is admitted: requests count from their heads on, with what they take.

use ringway_rpc::{Code, Compression, ServerHandle};
use ringway_wire::grpc::{Compression as By, compress, prefix};
use ringway_wire::http2::StreamHandle;
use ringway_wire::native::{Body, Open};

use crate::support::caller::Caller;
use crate::support::echo::{Echo, serve};
use crate::support::grpc_caller::GrpcCaller;
use crate::support::web_service::{Reports, start};
use crate::support::{end, eventually, socket_addr};

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

/// Heads of calls by the Connect protocol whose bodies do not come.
fn open_bodiless(caller: &mut GrpcCaller, count: usize) -> Vec<StreamHandle> {
    let open = |_| caller.open_with("web.v1.Web/Put", &JSON, b"", false);
    (0..count).map(open).collect()
}

/// Waits until so many of the calls are answered, and returns the others.
fn unanswered(
    caller: &mut GrpcCaller,
    calls: &[StreamHandle],
    answered: usize,
) -> Vec<StreamHandle> {
    caller.until("they are refused", |came| {
        came.values().filter(|it| it.has_ended || it.reset.is_some()).count() >= answered
    });
    let (ended, open): (Vec<StreamHandle>, Vec<StreamHandle>) =
        calls.iter().partition(|call| caller.seen(**call).has_ended);
    for call in &ended {
        assert_eq!(caller.seen(*call).field(":status"), Some("503"));
    }
    open
}

/// The failure of each call that has failed.
fn failures(caller: &GrpcCaller, calls: &[StreamHandle]) -> Vec<(u8, String)> {
    let seen = calls.iter().map(|call| caller.seen(*call)).filter(|it| it.has_ended);
    seen.map(|it| (it.status().0, it.status().1.to_owned())).collect()
}

fn until_failed(caller: &mut GrpcCaller, count: usize) {
    caller
        .until("they are refused", |came| came.values().filter(|it| it.has_ended).count() >= count);
}

fn leave(handle: ServerHandle, caller: GrpcCaller) {
    drop(caller);
    eventually("nothing is left", || {
        let stats = handle.stats();
        (stats.in_flight, stats.unread_bytes) == (0, 0)
    });
    end(handle);
}

#[test]
fn requests_without_a_body_count_as_calls_in_flight() {
    let handle = start(Reports::default(), |server| server.in_flight_max(8));
    let mut caller = GrpcCaller::connect(socket_addr(&handle));
    let calls = open_bodiless(&mut caller, 20);
    let open = unanswered(&mut caller, &calls, 12);
    assert_eq!(open.len(), 8);
    assert_eq!(handle.stats().in_flight, 0, "no call has begun");
    for call in open {
        caller.put(call, b"\"on\"", true);
        assert_eq!(caller.answer(call).field(":status"), Some("200"));
    }
    let late = open_bodiless(&mut caller, 1)[0];
    caller.put(late, b"\"and on\"", true);
    assert_eq!(caller.answer(late).content, b"\"and on\"");
    leave(handle, caller);
}

#[test]
fn requests_without_a_body_count_with_the_memory_that_they_take() {
    let handle = start(Reports::default(), |server| server.unread_bytes_max(512 << 10));
    let mut caller = GrpcCaller::connect(socket_addr(&handle));
    let calls = open_bodiless(&mut caller, 100);
    let open = unanswered(&mut caller, &calls, 60);
    assert!((4..=40).contains(&open.len()), "{} are let in", open.len());
    assert!(handle.stats().unread_bytes <= 512 << 10);
    for call in open {
        caller.reset(call);
    }
    leave(handle, caller);
}

#[test]
fn incomplete_calls_of_grpc_count_as_calls_in_flight() {
    let handle = serve(&Echo::default(), |server| server.in_flight_max(4));
    let mut caller = GrpcCaller::connect(socket_addr(&handle));
    let calls: Vec<_> =
        (0..10).map(|_| caller.open_with("echo.Echo/Say", &[], b"", false)).collect();
    until_failed(&mut caller, 6);
    let failed = failures(&caller, &calls);
    assert_eq!(failed.len(), 6);
    assert!(failed.iter().all(|(code, text)| *code == 8 && text.contains("in_flight_max")));
    leave(handle, caller);
}

#[test]
fn an_open_stream_of_connect_counts_once() {
    let handle = serve(&Echo::default(), |server| server.in_flight_max(2));
    let mut caller = GrpcCaller::connect(socket_addr(&handle));
    let kind = [("content-type", "application/connect+octet-stream")];
    let open = |caller: &mut GrpcCaller| caller.open_with("echo.Echo/Chat", &kind, b"", false);
    for running in 1..=2 {
        open(&mut caller);
        eventually("it runs", || handle.stats().in_flight == running);
    }
    let third = open(&mut caller);
    assert_eq!(caller.answer(third).field(":status"), Some("503"));
    leave(handle, caller);
}

#[test]
fn incomplete_native_calls_count_as_calls_in_flight() {
    let handle = serve(&Echo::default(), |server| server.in_flight_max(2));
    let mut caller = Caller::connect(socket_addr(&handle));
    // One whose end is missing, and one whose message is.
    let endless = caller.open_with("echo.Echo/Say", Some(b"hi"), false, |_| {});
    let long = vec![7; 200_000];
    let open = Open {
        name: "echo.Echo/Say",
        message: Some(Body::Copy(&long)),
        end: true,
        ..Open::default()
    };
    let partly = caller.machine.open(open).expect("room");
    caller.send_some(100_000);
    eventually("they came", || handle.stats().unread_bytes > 10_000);
    let mut other = Caller::connect(socket_addr(&handle));
    let answer = other.call("echo.Echo/Say", b"me too");
    assert_eq!(
        (answer.code, answer.text.contains("in_flight_max")),
        (Code::ResourceExhausted, true)
    );
    assert_eq!(handle.stats().in_flight, 0, "no call has begun");
    caller.finish(endless);
    assert_eq!(caller.answer(endless).ok(), "hi");
    assert_eq!(caller.answer(partly).ok().len(), long.len());
    assert_eq!(other.call("echo.Echo/Say", b"now").ok(), "now");
    end(handle);
}

#[test]
fn what_a_handler_holds_of_a_decompressed_message_counts_until_its_call_ends() {
    const LEN: usize = 4 << 20;
    let all = Compression::of_all_services();
    let handle = serve(&Echo::default(), |server| server.compression(all));
    let bomb = compress(By::Zstd, &vec![0; LEN]).expect("it is shorter");
    let bomb = [&prefix(bomb.len() as u32, true)[..], &bomb].concat();
    let mut caller = GrpcCaller::connect(socket_addr(&handle));
    let fields = [("grpc-encoding", "zstd")];
    let open = |caller: &mut GrpcCaller| caller.open_with("echo.Echo/Hang", &fields, &bomb, true);
    let calls: Vec<_> = (0..40).map(|_| open(&mut caller)).collect();
    until_failed(&mut caller, 20);
    let failed = failures(&caller, &calls);
    assert!(failed.iter().all(|(code, text)| *code == 8 && text.contains("decompressed")));
    let running = handle.stats().in_flight;
    assert!((8..=17).contains(&running), "64 MiB of them: {running}");
    for call in calls {
        caller.reset(call);
    }
    eventually("they are over", || handle.stats().in_flight == 0);
    let again = open(&mut caller);
    eventually("there is room again", || handle.stats().in_flight == 1);
    caller.reset(again);
    leave(handle, caller);
}

#[test]
fn metadata_of_waiting_calls_counts_with_what_it_takes() {
    let handle = serve(&Echo::default(), |server| server.unread_bytes_max(1 << 20));
    let mut caller = GrpcCaller::connect(socket_addr(&handle));
    let names: Vec<_> = (0..300).map(|number| format!("x-{number}")).collect();
    let fields: Vec<_> = names.iter().map(|name| (&**name, "v")).collect();
    let content = crate::support::grpc_caller::framed(b"");
    let mut hang = || {
        let call = caller.open_with("echo.Echo/Hang", &fields, &content, true);
        // Taken in by the time that the next one is answered: many at once may cost the connection.
        caller.call("echo.Echo/Say", b"");
        call
    };
    let calls: Vec<_> = (0..80).map(|_| hang()).collect();
    caller.until("they are refused", |came| {
        let has_ended = |call: &&StreamHandle| came.get(&call.id()).is_some_and(|it| it.has_ended);
        calls.iter().filter(has_ended).count() >= 40
    });
    let failed = failures(&caller, &calls);
    let is_told = |(code, text): &(u8, String)| *code == 8 && text.contains("unread_bytes_max");
    assert!(failed.iter().all(is_told), "{failed:?}");
    assert!(handle.stats().in_flight >= 20 && handle.stats().unread_bytes <= 2 << 20);
    leave(handle, caller);
}
