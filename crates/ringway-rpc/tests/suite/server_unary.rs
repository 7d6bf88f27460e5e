//! Unary calls over real sockets.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ringway_rpc::{Code, ServerHandle, Side};
use ringway_wire::native::MetaWriter;

use crate::support::caller::{Caller, Heard};
use crate::support::echo::{Echo, serve};
use crate::support::{end, eventually, socket_addr};

fn connected() -> (Echo, ServerHandle, Caller) {
    let echo = Echo::default();
    let handle = serve(&echo, |server| server);
    let caller = Caller::connect(socket_addr(&handle));
    (echo, handle, caller)
}

#[test]
fn calls_are_answered_by_name_and_by_number() {
    let (_, handle, mut caller) = connected();
    assert_eq!(caller.call("echo.Echo/Say", b"by name").ok(), "by name");
    for text in ["first", "second"] {
        let message = Some(text.as_bytes());
        let stream = caller.open_with("echo.Echo/Say", message, true, |open| open.method = 1);
        assert_eq!(caller.answer(stream).ok(), text);
    }
    assert_eq!(caller.call("echo.Echo/Say", b"").ok(), "");
    end(handle);
}

#[test]
fn large_messages_go_both_ways() {
    let (_, handle, mut caller) = connected();
    for len in [4_096, 4_097, 65_536, 70_000, 3 << 20] {
        let message: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
        let answer = caller.call("echo.Echo/Say", &message).ok();
        assert!(answer == message, "{len} bytes come back as they were sent");
    }
    end(handle);
}

#[test]
fn replies_come_in_the_order_of_completion() {
    let (_, handle, mut caller) = connected();
    let slow = caller.open("echo.Echo/Late", b"500");
    let faster = caller.open("echo.Echo/Late", b"200");
    let at_once = caller.open("echo.Echo/Say", b"now");
    let answered = (0..3).map(|_| match caller.next() {
        Heard::Response(stream, answer) => {
            answer.ok();
            stream
        }
        other => panic!("{other:?}"),
    });
    assert_eq!(answered.collect::<Vec<_>>(), [at_once, faster, slow]);
    end(handle);
}

#[test]
fn panics_are_internal_and_affect_no_other_call() {
    let (_, handle, mut caller) = connected();
    let waiting = caller.open("echo.Echo/Late", b"60");
    for method in ["echo.Echo/Panic", "echo.Echo/PanicLate"] {
        let answer = caller.call(method, b"a secret");
        assert_eq!(answer.code, Code::Internal);
        assert!(!answer.text.contains("secret"), "nothing of the panic is told: {}", answer.text);
    }
    assert_eq!(caller.answer(waiting).ok(), "60");
    assert_eq!(caller.call("echo.Echo/Panic", b"").ok(), "", "the place of the method is sound");
    assert_eq!(handle.stats().panicked, 2);
    end(handle);
}

#[test]
fn failures_have_their_text_and_trailers() {
    let (_, handle, mut caller) = connected();
    let answer = caller.call("echo.Echo/Fail", b"no such user");
    assert_eq!((answer.code, &*answer.text), (Code::NotFound, "no such user"));
    assert_eq!(answer.trailers, [("shard".to_owned(), "7".to_owned())]);
    end(handle);
}

#[test]
fn unknown_methods_are_unimplemented() {
    let (_, handle, mut caller) = connected();
    let answer = caller.call("echo.Echo/Nothing", b"");
    assert_eq!(answer.code, Code::Unimplemented);
    assert!(answer.text.contains("echo.Echo/Nothing"), "{}", answer.text);
    for _ in 0..2 {
        let stream = caller.open_with("no.Service/At", Some(b""), true, |open| open.method = 5);
        assert_eq!(caller.answer(stream).code, Code::Unimplemented);
    }
    let json = caller.open_with("echo.Echo/Say", Some(b"{}"), true, |open| open.codec = 2);
    let answer = caller.answer(json);
    assert_eq!(answer.code, Code::Unimplemented);
    assert!(answer.text.contains("JSON"), "{}", answer.text);
    assert_eq!(handle.stats().unknown_methods, 3);
    assert_eq!(caller.call("echo.Echo/Say", b"well").ok(), "well");
    end(handle);
}

#[test]
fn unary_call_has_exactly_one_message() {
    let (_, handle, mut caller) = connected();
    let none = caller.open_with("echo.Echo/Say", None, true, |_| {});
    assert_eq!(caller.answer(none).code, Code::Unimplemented);
    let later = caller.open_with("echo.Echo/Say", None, false, |_| {});
    caller.send(later, b"after all", true);
    assert_eq!(caller.answer(later).ok(), "after all");
    let never = caller.open_with("echo.Echo/Say", None, false, |_| {});
    caller.finish(never);
    assert_eq!(caller.answer(never).code, Code::Unimplemented);
    let two = caller.open_with("echo.Echo/Hang", Some(b"1"), false, |_| {});
    caller.send(two, b"2", true);
    assert_eq!(caller.answer(two).code, Code::Unimplemented);
    end(handle);
}

#[test]
fn deadlines_end_calls() {
    let (echo, handle, mut caller) = connected();
    let stream = caller.open_with("echo.Echo/Hang", Some(b""), true, |open| {
        open.timeout = Some(Duration::from_millis(40));
    });
    assert_eq!(caller.answer(stream).code, Code::DeadlineExceeded);
    eventually("the handler is dropped", || echo.seen.dropped.load(Ordering::SeqCst) == 1);
    // The declared timeout applies to callers that set none; this caller sets one.
    assert_eq!(caller.call("echo.Echo/Soon", b"60").ok(), "60");
    end(handle);
}

#[test]
fn cancelled_call_drops_its_handler() {
    let (echo, handle, mut caller) = connected();
    let stream = caller.open("echo.Echo/Hang", b"");
    eventually("it runs", || echo.seen.begun.load(Ordering::SeqCst) == 1);
    caller.cancel(stream, "changed my mind");
    eventually("the handler is dropped", || echo.seen.dropped.load(Ordering::SeqCst) == 1);
    assert_eq!(caller.call("echo.Echo/Say", b"still here").ok(), "still here");
    assert_eq!((handle.stats().cancelled, handle.stats().in_flight), (1, 0));
    end(handle);
}

#[test]
fn lost_connection_cancels_its_calls() {
    let (echo, handle, mut caller) = connected();
    for _ in 0..3 {
        caller.open("echo.Echo/Hang", b"");
    }
    eventually("they run", || echo.seen.begun.load(Ordering::SeqCst) == 3);
    drop(caller);
    eventually("the handlers are dropped", || echo.seen.dropped.load(Ordering::SeqCst) == 3);
    eventually("nothing is in flight", || handle.stats().in_flight == 0);
    end(handle);
}

#[test]
fn waiting_handlers_block_no_other_call() {
    let (echo, handle, mut caller) = connected();
    let waiting: Vec<_> = (0..50).map(|_| caller.open("echo.Echo/Hang", b"")).collect();
    for _ in 0..200 {
        caller.call("echo.Echo/Say", b"quick").ok();
    }
    eventually("only they are left", || handle.stats().in_flight == 50);
    for stream in waiting {
        caller.cancel(stream, "not needed");
    }
    eventually("the handlers are dropped", || echo.seen.dropped.load(Ordering::SeqCst) == 50);
    end(handle);
}

#[test]
fn calls_are_counted_by_method() {
    let (_, handle, mut caller) = connected();
    for _ in 0..3 {
        caller.call("echo.Echo/Say", b"12345").ok();
    }
    caller.call("echo.Echo/Fail", b"");
    let metrics = handle.metrics();
    let say = metrics.method(Side::Server, "echo.Echo/Say").expect("it was called");
    assert_eq!((say.started, say.ended(), say.bytes_in, say.bytes_out), (3, 3, 15, 15));
    let fail = metrics.method(Side::Server, "echo.Echo/Fail").expect("as well");
    assert_eq!(fail.with_code(Code::NotFound), 1);
    end(handle);
}

#[test]
fn failure_with_a_long_text_keeps_its_code() {
    let (_, handle, mut caller) = connected();
    for len in [10, 16_000, 16_384, 20_000, 1 << 20] {
        let text = vec![b'x'; len];
        let answer = caller.call("echo.Echo/Fail", &text);
        assert_eq!(answer.code, Code::NotFound, "{len}: {}", answer.text.len());
        assert!(text.starts_with(answer.text.as_bytes()), "as much of it as fits");
        assert_eq!(answer.text.len() == len, len < 16_300, "{}", answer.text.len());
    }
    end(handle);
}

#[test]
fn timeout_in_the_metadata_precedes_that_in_the_header() {
    let (_, handle, mut caller) = connected();
    let (short, long) = (Duration::from_millis(10), Duration::from_secs(3_600));
    for (head, meta, ends_in_time) in [(long, short, false), (short, long, true)] {
        let mut said = Vec::new();
        MetaWriter::new(&mut said).timeout_us(meta.as_micros() as u64);
        let stream = caller.open_with("echo.Echo/Late", Some(b"200"), true, |open| {
            (open.timeout, open.meta) = (Some(head), &said);
        });
        let code = if ends_in_time { Code::Ok } else { Code::DeadlineExceeded };
        assert_eq!(caller.answer(stream).code, code, "{head:?} and {meta:?}");
    }
    end(handle);
}
