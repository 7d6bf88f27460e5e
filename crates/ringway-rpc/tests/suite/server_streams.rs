//! Streams of all kinds over real sockets.

use std::time::Duration;

use ringway_rpc::{Code, ServerHandle};

use crate::support::caller::Caller;
use crate::support::echo::{Echo, serve};
use crate::support::{end, eventually, socket_addr};

fn connected() -> (ServerHandle, Caller) {
    let handle = serve(&Echo::default(), |server| server);
    let caller = Caller::connect(socket_addr(&handle));
    (handle, caller)
}

#[test]
fn client_stream_has_one_reply() {
    let (handle, mut caller) = connected();
    let stream = caller.open_with("echo.Echo/Collect", Some(b"one "), false, |_| {});
    for message in [&b"two "[..], b"", b"three"] {
        caller.send(stream, message, false);
    }
    caller.finish(stream);
    assert_eq!(caller.answer(stream).ok(), "one two three");
    let at_once = caller.open_with("echo.Echo/Collect", Some(b"alone"), true, |_| {});
    assert_eq!(caller.answer(at_once).ok(), "alone");
    let empty = caller.open_with("echo.Echo/Collect", None, true, |_| {});
    assert_eq!(caller.answer(empty).ok(), "");
    end(handle);
}

#[test]
fn server_stream_has_many_replies() {
    let (handle, mut caller) = connected();
    for count in [0_u8, 1, 200] {
        let stream = caller.open("echo.Echo/Repeat", &[count, 7]);
        for _ in 0..count {
            assert_eq!(caller.message(stream).expect("one more"), [count, 7][..]);
        }
        let answer = caller.message(stream).expect_err("that was all");
        assert_eq!((answer.code, answer.body), (Code::Ok, None));
    }
    end(handle);
}

#[test]
fn streams_go_both_ways_at_once() {
    let (handle, mut caller) = connected();
    let streams: Vec<_> =
        (0..20).map(|_| caller.open_with("echo.Echo/Chat", None, false, |_| {})).collect();
    for round in 0..30_u32 {
        let message = round.to_le_bytes();
        for &stream in &streams {
            caller.send(stream, &message, false);
        }
        for &stream in streams.iter().rev() {
            assert_eq!(caller.message(stream).expect("an echo"), message[..]);
        }
    }
    for stream in streams {
        caller.finish(stream);
        assert_eq!(caller.message(stream).expect_err("the end").code, Code::Ok);
    }
    eventually("nothing is in flight", || handle.stats().in_flight == 0);
    end(handle);
}

#[test]
fn handler_ends_its_stream_early_with_a_status() {
    let (handle, mut caller) = connected();
    let failed = caller.open_with("echo.Echo/Chat", None, false, |_| {});
    caller.send(failed, b"fail", false);
    let answer = caller.message(failed).expect_err("it fails");
    assert_eq!((answer.code, &*answer.text), (Code::Aborted, "as the message wants"));
    let cancelled = caller.open_with("echo.Echo/Chat", None, false, |_| {});
    caller.send(cancelled, b"cancel", false);
    let answer = caller.message(cancelled).expect_err("it is cancelled");
    assert_eq!((answer.code, &*answer.text), (Code::Cancelled, "enough of this"));
    assert_eq!(caller.call("echo.Echo/Say", b"well").ok(), "well");
    eventually("nothing is in flight", || handle.stats().in_flight == 0);
    end(handle);
}

#[test]
fn slow_reader_stalls_only_its_own_stream() {
    let (handle, mut caller) = connected();
    let body = vec![200; 60_000];
    // Twelve megabytes that are not read.
    let stalled = caller.open("echo.Echo/Repeat", &body);
    let other = caller.open("echo.Echo/Repeat", &[3, 1]);
    for _ in 0..3 {
        assert_eq!(caller.message(other).expect("it goes on"), [3, 1][..]);
    }
    assert_eq!(caller.message(other).expect_err("the end").code, Code::Ok);
    assert_eq!(caller.call("echo.Echo/Say", b"well").ok(), "well");
    for _ in 0..200 {
        assert_eq!(caller.message(stalled).expect("one more").len(), body.len());
    }
    assert_eq!(caller.message(stalled).expect_err("the end").code, Code::Ok);
    end(handle);
}

#[test]
fn messages_beyond_the_window_arrive() {
    let (handle, mut caller) = connected();
    let large = vec![9; 3 << 20];
    let stream = caller.open_with("echo.Echo/Chat", Some(&large), false, |open| {
        open.initial_credit = 65_536;
    });
    for _ in 0..3 {
        assert_eq!(caller.message(stream).expect("an echo").len(), large.len());
        caller.send(stream, &large, false);
    }
    assert_eq!(caller.message(stream).expect("an echo").len(), large.len());
    caller.finish(stream);
    assert_eq!(caller.message(stream).expect_err("the end").code, Code::Ok);
    end(handle);
}

#[test]
fn cancelled_and_late_streams_end() {
    let (handle, mut caller) = connected();
    let cancelled = caller.open_with("echo.Echo/Collect", Some(b"x"), false, |_| {});
    eventually("it runs", || handle.stats().in_flight == 1);
    caller.cancel(cancelled, "changed my mind");
    eventually("it has ended", || handle.stats().in_flight == 0);
    let late = caller.open_with("echo.Echo/Collect", Some(b"x"), false, |open| {
        open.timeout = Some(Duration::from_millis(30));
    });
    assert_eq!(caller.answer(late).code, Code::DeadlineExceeded);
    eventually("it has ended", || handle.stats().in_flight == 0);
    end(handle);
}
