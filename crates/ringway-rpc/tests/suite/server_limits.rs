//! Refused, queued and shed calls.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Instant;

use ringway_rpc::{Code, Context, Next, ServerHandle, Status};
use ringway_wire::native::{Body, Open, OpenError};

use crate::support;
use crate::support::caller::{Answer, Caller};
use crate::support::echo::{Echo, serve};
use crate::support::{LIMIT, end, eventually, socket_addr};

fn check_refused(handle: &ServerHandle, answer: &Answer) {
    assert_eq!(answer.code, Code::ResourceExhausted);
    assert!(answer.refused, "it is told that it was not executed: {answer:?}");
    assert!(handle.stats().refused > 0);
}

#[test]
fn method_runs_its_declared_number_of_calls_and_queues_the_rest() {
    let echo = Echo::default();
    let handle = serve(&echo, |server| server);
    let mut caller = Caller::connect(socket_addr(&handle));
    let calls: Vec<_> = (0..8).map(|_| caller.open("echo.Echo/Limited", b"10")).collect();
    for stream in calls {
        assert_eq!(caller.answer(stream).ok(), "10");
    }
    assert_eq!(echo.seen.most.load(Ordering::SeqCst), 2);
    assert_eq!(handle.stats().refused, 0);
    end(handle);
}

#[test]
fn full_queue_drops_its_oldest_call() {
    let handle = serve(&Echo::default(), |server| server.queue_room(1));
    let mut caller = Caller::connect(socket_addr(&handle));
    let running: Vec<_> = (0..2).map(|_| caller.open("echo.Echo/Limited", b"60")).collect();
    let pushed_out = caller.open("echo.Echo/Limited", b"1");
    let waits = caller.open("echo.Echo/Limited", b"2");
    check_refused(&handle, &caller.answer(pushed_out));
    for stream in running {
        caller.answer(stream).ok();
    }
    assert_eq!(caller.answer(waits).ok(), "2");
    assert_eq!(handle.stats().shed, 1);
    end(handle);
}

#[test]
fn calls_that_wait_too_long_are_shed() {
    let handle = serve(&Echo::default(), |server| server);
    let mut caller = Caller::connect(socket_addr(&handle));
    let running: Vec<_> = (0..2).map(|_| caller.open("echo.Echo/Limited", b"700")).collect();
    let waits: Vec<_> = (0..4).map(|_| caller.open("echo.Echo/Limited", b"1")).collect();
    for stream in waits {
        check_refused(&handle, &caller.answer(stream));
    }
    assert_eq!(handle.stats().shed, 4);
    for stream in running {
        caller.answer(stream).ok();
    }
    end(handle);
}

#[test]
fn call_whose_deadline_passes_in_the_queue_is_not_run() {
    let echo = Echo::default();
    let handle = serve(&echo, |server| server);
    let mut caller = Caller::connect(socket_addr(&handle));
    let running: Vec<_> = (0..2).map(|_| caller.open("echo.Echo/Limited", b"60")).collect();
    let late = caller.open_with("echo.Echo/Limited", Some(b"0"), true, |open| {
        open.timeout = Some(std::time::Duration::from_millis(20));
    });
    assert_eq!(caller.answer(late).code, Code::DeadlineExceeded);
    for stream in running {
        caller.answer(stream).ok();
    }
    assert_eq!(handle.stats().expired, 1);
    end(handle);
}

#[test]
fn server_has_a_limit_over_all_methods() {
    let echo = Echo::default();
    let handle = serve(&echo, |server| server.in_flight_max(3));
    let mut callers = [(); 2].map(|()| Caller::connect(socket_addr(&handle)));
    for _ in 0..3 {
        callers[0].open("echo.Echo/Hang", b"");
    }
    eventually("they run", || handle.stats().in_flight == 3);
    let answer = callers[1].call("echo.Echo/Hang", b"");
    check_refused(&handle, &answer);
    assert_eq!(echo.seen.begun.load(Ordering::SeqCst), 3);
    end_now(handle);
}

#[test]
fn client_respects_the_limit_of_a_connection() {
    let handle = serve(&Echo::default(), |server| server.in_flight_per_connection_max(2));
    let mut caller = Caller::connect(socket_addr(&handle));
    caller.call("echo.Echo/Say", b"the settings have come").ok();
    caller.open("echo.Echo/Hang", b"");
    caller.open("echo.Echo/Hang", b"");
    let open =
        ringway_wire::native::Open { name: "echo.Echo/Say", end: true, ..Default::default() };
    assert_eq!(caller.machine.open(open), Err(OpenError::Full));
    end_now(handle);
}

#[test]
fn interceptors_run_around_calls_in_order() {
    #[derive(Clone, PartialEq, Debug)]
    struct Tenant(String);
    let handle = serve(&Echo::default(), |server| {
        server
            .intercept(async |context: Context, next: Next| {
                let tenant = context.metadata().get("tenant").map(str::to_owned);
                let tenant = tenant.ok_or_else(|| Status::unauthenticated("which tenant?"))?;
                context.insert(Tenant(tenant));
                let reply = next.run(context.clone()).await;
                context.set_trailer("seen", if reply.is_ok() { "ok" } else { "failed" })?;
                reply
            })
            .intercept(async |context: Context, next: Next| {
                ringway_runtime::yield_now().await;
                let tenant = context.extension::<Tenant>().expect("the outer one has run");
                match &*tenant.0 {
                    "nobody" => Err(Status::permission_denied("not you")),
                    _ => next.run(context).await,
                }
            })
    });
    let mut caller = Caller::connect(socket_addr(&handle));
    assert_eq!(caller.call("echo.Echo/Say", b"x").code, Code::Unauthenticated);
    let trailers = |text: &str| vec![("seen".to_owned(), text.to_owned())];
    for (tenant, code, seen) in
        [("blue", Code::Ok, "ok"), ("nobody", Code::PermissionDenied, "failed")]
    {
        let mut meta = Vec::new();
        ringway_wire::native::MetaWriter::new(&mut meta).entry("tenant", tenant.as_bytes());
        let message = Some(&b"hello"[..]);
        let stream = caller.open_with("echo.Echo/Say", message, true, |open| open.meta = &meta);
        let answer = caller.answer(stream);
        assert_eq!((answer.code, answer.trailers), (code, trailers(seen)));
    }
    end(handle);
}

#[test]
fn method_without_a_limit_gets_an_adaptive_one() {
    let handle = serve(&Echo::default(), |server| server.adaptive_concurrency());
    let mut caller = Caller::connect(socket_addr(&handle));
    for _ in 0..3_000 {
        caller.call("echo.Echo/Say", b"x").ok();
    }
    // More calls at once than the initial limit: the rest waits or is refused.
    let calls: Vec<_> = (0..120).map(|_| caller.open("echo.Echo/Late", b"5")).collect();
    for stream in calls {
        let answer = caller.answer(stream);
        assert!(answer.code == Code::Ok || answer.refused, "{answer:?}");
    }
    end(handle);
}

#[test]
fn overloaded_server_sends_leases() {
    let echo = Echo::default();
    let handle = serve(&echo, |server| server.adaptive_concurrency().queue_room(2_000));
    let mut caller = Caller::connect(socket_addr(&handle));
    let all = caller.machine.capacity();
    let open = |caller: &mut Caller| {
        let (name, message) = ("echo.Echo/Late", Some(Body::Copy(b"20")));
        let opened = caller.machine.open(Open { name, message, end: true, ..Open::default() });
        caller.flush();
        opened
    };
    // As many calls as the client may make, until it may make fewer.
    let mut running = VecDeque::new();
    let deadline = Instant::now() + LIMIT;
    let leased = loop {
        assert!(Instant::now() < deadline, "the server says nothing");
        match open(&mut caller) {
            Ok(stream) => running.push_back(stream),
            Err(OpenError::Leased) => break running.len(),
            Err(OpenError::Full) => {} // until the server's settings are known
            Err(error) => panic!("{error:?}"),
        }
        if running.len() >= 300 || caller.machine.capacity() == 0 {
            check_done(&caller.answer(running.pop_front().expect("many")));
        }
    };
    assert!(leased <= 300 && all >= 128, "{leased} of {all}");
    for stream in running {
        check_done(&caller.answer(stream));
    }
    // One call after another is not too much.
    while caller.machine.capacity() < 500 {
        assert!(Instant::now() < deadline, "the server still says {}", caller.machine.capacity());
        caller.call("echo.Echo/Late", b"1").ok();
    }
    end(handle);
}

/// Calls that cross a lower lease are not executed.
fn check_done(answer: &Answer) {
    assert!(answer.code == Code::Ok || answer.refused, "{answer:?}");
}

fn end_now(handle: ServerHandle) {
    handle.abort();
    support::wait(handle);
}
