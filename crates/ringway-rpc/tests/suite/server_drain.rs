//! The end of a server, from its clients' view.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ringway_rpc::{Code, ServingStatus};
use ringway_wire::native::{Client, Config, OpenError, Settings};

use crate::support::caller::{Caller, Heard};
use crate::support::echo::{Echo, serve};
use crate::support::{eventually, socket_addr, wait};

#[test]
fn running_calls_finish_and_late_ones_are_not_executed() {
    let echo = Echo::default();
    let handle = serve(&echo, |server| server);
    let mut caller = Caller::connect(socket_addr(&handle));
    let running: Vec<_> = (0..20).map(|_| caller.open("echo.Echo/Late", b"150")).collect();
    eventually("they run", || handle.stats().in_flight == 20);
    handle.shutdown();
    // Sent before the GOAWAY was received: the machine refuses it, or the client knows already.
    let mut late = Vec::new();
    let deadline = Instant::now() + Duration::from_millis(100);
    while Instant::now() < deadline && late.len() < 60 {
        late.push(caller.open("echo.Echo/Say", b"late"));
    }
    for stream in running {
        assert_eq!(caller.answer(stream).ok(), "150");
    }
    for stream in late {
        let answer = caller.answer(stream);
        assert!(answer.code == Code::Ok || answer.refused, "{answer:?}");
    }
    caller.closed();
    wait(handle);
}

#[test]
fn the_drain_is_announced() {
    let handle = serve(&Echo::default(), |server| server);
    let mut caller = Caller::connect(socket_addr(&handle));
    let running = caller.open("echo.Echo/Late", b"80");
    eventually("it runs", || handle.stats().in_flight == 1);
    handle.shutdown();
    assert!(matches!(caller.next(), Heard::Leaving(0)), "without a fault of anybody's");
    let open = ringway_wire::native::Open { name: "echo.Echo/Say", ..Default::default() };
    assert_eq!(caller.machine.open(open), Err(OpenError::Draining));
    assert_eq!(caller.answer(running).ok(), "80");
    caller.closed();
    wait(handle);
}

#[test]
fn calls_left_at_the_drain_timeout_are_unavailable() {
    let echo = Echo::default();
    let handle = serve(&echo, |server| server.drain_timeout(Duration::from_millis(150)));
    let mut caller = Caller::connect(socket_addr(&handle));
    let hangs = caller.open("echo.Echo/Hang", b"");
    let streams = caller.open_with("echo.Echo/Chat", Some(b"x"), false, |_| {});
    eventually("they run", || handle.stats().in_flight == 2);
    handle.shutdown();
    assert_eq!(caller.answer(hangs).code, Code::Unavailable);
    assert_eq!(caller.answer(streams).code, Code::Unavailable);
    caller.closed();
    let stats = handle.clone();
    wait(handle);
    assert_eq!(echo.seen.dropped.load(Ordering::SeqCst), 1);
    assert_eq!(stats.stats().cut_off, 2);
}

#[test]
fn call_that_exceeds_a_limit_during_a_drain_is_answered() {
    let echo = Echo::default();
    let handle = serve(&echo, |server| server);
    let mut caller = Caller::connect(socket_addr(&handle));
    // It is echoed, and the reply is longer than this client takes.
    let settings = Settings { max_message: 10, ..Settings::default() };
    caller.machine = Client::new(Config { settings, ..Config::default() }, Duration::ZERO);
    let stream = caller.open_with("echo.Echo/Chat", Some(b"short"), false, |_| {});
    assert_eq!(caller.message(stream).expect("it is echoed"), "short");
    handle.shutdown();
    assert!(matches!(caller.next(), Heard::Leaving(0)));
    caller.send(stream, b"longer than ten bytes", false);
    let answer = caller.answer(stream);
    assert_eq!(answer.code, Code::ResourceExhausted, "{answer:?}");
    caller.closed();
    let stats = handle.clone();
    wait(handle);
    assert_eq!(stats.stats().cut_off, 0);
}

#[test]
fn health_changes_before_the_server_stops() {
    let handle = serve(&Echo::default(), |server| {
        server.drain_delay(Duration::from_millis(200)).drain_timeout(Duration::from_secs(5))
    });
    let mut caller = Caller::connect(socket_addr(&handle));
    assert_eq!(handle.health().of("echo.Echo"), Some(ServingStatus::Serving));
    handle.shutdown();
    eventually("it is told", || handle.health().of("echo.Echo") == Some(ServingStatus::NotServing));
    assert_eq!(caller.call("echo.Echo/Say", b"still served").ok(), "still served");
    caller.closed();
    wait(handle);
}

#[test]
fn no_call_fails_while_a_server_drains_under_load() {
    let handle = serve(&Echo::default(), |server| server);
    let address = socket_addr(&handle);
    let stop = Arc::new(AtomicBool::new(false));
    let load = |method: &'static str| {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || {
            let mut caller = Caller::connect(address);
            let mut done = 0_usize;
            while !stop.load(Ordering::SeqCst) {
                let open = ringway_wire::native::Open {
                    name: method,
                    message: Some(ringway_wire::native::Body::Copy(b"3")),
                    end: true,
                    ..Default::default()
                };
                let Ok(stream) = caller.machine.open(open) else { break };
                caller.flush();
                let answer = caller.answer(stream);
                assert!(answer.code == Code::Ok || answer.refused, "{answer:?}");
                done += usize::from(answer.code == Code::Ok);
            }
            done
        })
    };
    let threads = [load("echo.Echo/Say"), load("echo.Echo/Late"), load("echo.Echo/Say")];
    let metrics = || handle.metrics().methods.iter().map(|method| method.started).sum::<u64>();
    eventually("there is load", || metrics() > 500);
    handle.shutdown();
    for thread in threads {
        assert!(thread.join().expect("no call fails") > 0);
    }
    stop.store(true, Ordering::SeqCst);
    wait(handle);
}
