//! Buffers, descriptors, counters and wake-ups.

use std::process::Command;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::Fixture;
use super::rig::{Endpoint, Rig, assert_same, pattern};
use crate::buf::Segment;
use crate::driver::{Driver, RecvClass, Wait};
use crate::limits::MESSAGE_BUFFER_BYTES;

pub(super) fn syscalls_are_counted<F: Fixture>(rig: &mut Rig<F>) {
    let (client, server) = rig.pair();
    rig.recv_start(server, RecvClass::Message);
    let before = rig.driver.counters().syscalls;
    rig.send_all(client, b"counted");
    assert_eq!(rig.received(server, 7), b"counted");
    let between = rig.driver.counters().syscalls;
    assert!(between > before);
    rig.close(client, false);
    rig.close(server, false);
    assert!(rig.driver.counters().syscalls > between);
}

/// A message over TCP costs one call to send it, one to wait for it and one to receive it at most:
/// nothing asks again whether there is more.
pub(super) fn a_message_needs_three_calls<F: Fixture>(rig: &mut Rig<F>) {
    const MESSAGES: u64 = 200;
    let (client, server) = rig.pair();
    rig.recv_start(server, RecvClass::Message);
    rig.settle();
    let before = rig.driver.counters().syscalls;
    for _ in 0..MESSAGES {
        rig.send_all(client, b"a message");
        assert_eq!(rig.received(server, 9), b"a message");
    }
    let calls = rig.driver.counters().syscalls - before;
    assert!(calls < MESSAGES * 7 / 2, "{calls} calls for {MESSAGES} messages");
    rig.close(client, false);
    rig.close(server, false);
}

pub(super) fn peek_tells_of_work<F: Fixture>(rig: &mut Rig<F>) {
    let (client, server) = rig.pair();
    rig.recv_start(server, RecvClass::Message);
    rig.settle();
    assert!(!rig.driver.peek(), "nothing is there");
    rig.send_all(client, b"work");
    let received = |rig: &mut Rig<F>| rig.of(server).received.len() == 4;
    let limit = Instant::now() + Duration::from_secs(10);
    while !received(rig) {
        assert!(Instant::now() < limit, "peek told of nothing");
        if rig.driver.peek() {
            rig.turn(Wait::Poll);
        }
    }
    rig.close(client, false);
    rig.close(server, false);
}

pub(super) fn eventfd_wakes_each_time<F: Fixture>(rig: &mut Rig<F>) {
    rig.settle();
    for _ in 0..50 {
        if !rig.signal() {
            return;
        }
        let start = Instant::now();
        rig.turn(Wait::AtMost(Duration::from_secs(20)));
        assert!(start.elapsed() < Duration::from_secs(10), "slept through a signal");
        rig.settle();
        assert!(rig.signal() && peeks_soon(rig), "peek did not tell of a signal");
        rig.settle();
        assert!(!rig.driver.peek(), "a signal is told once");
    }
}

fn peeks_soon<F: Fixture>(rig: &mut Rig<F>) -> bool {
    let limit = Instant::now() + Duration::from_secs(10);
    while Instant::now() < limit {
        if rig.driver.peek() {
            return true;
        }
    }
    false
}

pub(super) fn wait_ends_in_time<F: Fixture>(rig: &mut Rig<F>) {
    rig.settle();
    let start = rig.driver.now();
    let wait = Duration::from_millis(20);
    while rig.driver.now() - start < wait {
        let rest = wait.saturating_sub(rig.driver.now() - start);
        assert_eq!(rig.turn(Wait::AtMost(rest)), 0);
    }
    assert!(rig.driver.now() - start < Duration::from_secs(10));
}

/// Counted in a process of its own, since other tests open descriptors meanwhile.
pub(super) fn descriptors_return_to_base<F: Fixture>(rig: &mut Rig<F>) {
    if std::env::var_os(OWN_PROCESS).is_none() {
        return repeat_in_own_process();
    }
    open_and_close(rig);
    let base = F::descriptors_open(&rig.driver);
    for _ in 0..5 {
        open_and_close(rig);
    }
    assert_eq!(F::descriptors_open(&rig.driver), base);
}

/// The descriptor limit ends accepting and nothing else; what waited is accepted afterwards.
pub(super) fn accept_outlives_the_descriptor_limit<F: Fixture>(rig: &mut Rig<F>) {
    if rig.driver.is_simulated() {
        return; // Its limit is a matter of its own tests, the process's means nothing to it.
    }
    if std::env::var_os(OWN_PROCESS).is_none() {
        return repeat_in_own_process();
    }
    // Before accepting starts: io_uring notes the limit when it takes the operation.
    let limits = Rlimit { current: Some(128), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limits).expect("lowering is allowed");
    let (listener, addr) = rig.listen(&F::stream_addr());
    rig.accept_start(listener);
    rig.settle();
    let fd = rig.driver.open_stream(&addr).expect("a descriptor is free");
    let client = rig.endpoint(fd);
    let another = || eventfd(0, EventfdFlags::CLOEXEC).ok();
    let fillers: Vec<_> = std::iter::from_fn(another).collect();
    assert!(!fillers.is_empty());

    rig.driver.connect(client.key, &addr);
    rig.drive("the end of accepting", |rig| !rig.of(listener).accept_ends.is_empty());
    assert_eq!(rig.of(listener).accept_ends, [libc::EMFILE]);
    assert!(rig.of(listener).accepted.is_empty());
    drop(fillers);
    rig.accept_start(listener);
    let server = rig.accepted(listener);
    rig.recv_start(server, RecvClass::Message);
    rig.send_all(client, b"in time");
    assert_eq!(rig.received(server, 7), b"in time");
    for endpoint in [client, server, listener] {
        rig.close(endpoint, false);
    }
}

/// Runs the current test again where no other test runs.
pub(super) fn repeat_in_own_process() {
    let thread = std::thread::current();
    let name = thread.name().expect("the harness names threads after their tests");
    let this = std::env::current_exe().expect("the test binary");
    let mut alone = Command::new(this);
    alone.args(["--exact", name, "--test-threads", "2"]).env(OWN_PROCESS, "1");
    let output = alone.output().expect("the test binary runs");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
}

pub(super) const OWN_PROCESS: &str = "RINGWAY_TEST_OWN_PROCESS";

/// Every way in which a descriptor comes and goes.
fn open_and_close<F: Fixture>(rig: &mut Rig<F>) {
    let (listener, addr) = rig.listen(&F::stream_addr());
    rig.accept_start(listener);
    for abort in [false, true] {
        let client = rig.connect(&addr);
        let server = rig.accepted(listener);
        rig.recv_start(server, RecvClass::Message);
        rig.recv_start(client, RecvClass::Bulk);
        rig.send(server, vec![pattern(0, 24 << 20).into()]);
        rig.close(server, abort);
        rig.close(client, !abort);
    }
    let over_limit = rig.connect(&addr);
    let fd = rig.accepted_fd(listener);
    rig.driver.close_unregistered(fd);
    // These connect while the listener closes: some are accepted after the close was asked for.
    let late: Vec<_> = (0..8).map(|_| rig.connect(&addr)).collect();
    rig.close(listener, false);
    for fd in std::mem::take(&mut rig.of(listener).accepted) {
        rig.driver.close_unregistered(fd);
    }
    let (datagrams, _) = rig.bind_datagram();
    rig.recv_start(datagrams, RecvClass::Datagram);
    for endpoint in late.into_iter().chain([over_limit, datagrams]) {
        rig.close(endpoint, false);
    }
}

/// Eight streams over one or two buffers.
pub(super) fn starvation_loses_nothing<F: Fixture>(rig: &mut Rig<F>) {
    let pairs: Vec<_> = (0..8).map(|_| rig.pair()).collect();
    let wanted: Vec<_> = (0..8).map(|at| pattern(at * 777, 300_000)).collect();
    for (&(client, server), bytes) in pairs.iter().zip(&wanted) {
        rig.recv_start(server, RecvClass::Message);
        rig.send(client, vec![bytes.clone().into()]);
    }
    for (&(client, server), bytes) in pairs.iter().zip(&wanted) {
        assert_same(&rig.received(server, bytes.len()), bytes);
        assert_eq!(rig.sent(client), (bytes.len(), 0));
    }
    let starved = rig.driver.counters().starved;
    assert!(starved > 0, "so few buffers were enough?");
    let fillings: usize = wanted.iter().map(|it| it.len().div_ceil(MESSAGE_BUFFER_BYTES)).sum();
    assert!(starved <= 2 * fillings as u64, "no more are tried than there are buffers: {starved}");
    close_all(rig, pairs);
}

/// A receive that waits for a buffer goes on as soon as one ends on another thread.
pub(super) fn a_buffer_that_comes_home_wakes_the_driver<F: Fixture>(rig: &mut Rig<F>) {
    if !F::IS_WOKEN {
        return;
    }
    let (client, server) = rig.pair();
    rig.holds_views = true;
    rig.recv_start(server, RecvClass::Message);
    rig.send_all(client, &pattern(0, 16_384));
    rig.drive("bytes", |rig| !rig.of(server).views.is_empty());
    let kept = rig.of(server).views[0].share(..).expect("it is worth its buffer");
    let pool = rig.pools.message.clone();
    let taken: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
    rig.send(client, vec![pattern(0, 8 << 20).into()]);
    rig.drive("want of a buffer", |rig| rig.driver.counters().starved > 0);
    rig.settle();
    // What is left of the first view is the shared part, which ends elsewhere.
    drop(rig.of(server).views.remove(0));
    let before = rig.of(server).views.len();
    let asleep = Instant::now();
    let ends_elsewhere = std::thread::spawn(move || drop(kept));
    while rig.of(server).views.len() == before {
        rig.turn(Wait::AtMost(Duration::from_secs(20)));
        assert!(asleep.elapsed() < Duration::from_secs(10), "slept through a buffer");
    }
    ends_elsewhere.join().expect("no panic");
    rig.of(server).views.clear();
    drop(taken);
    rig.close(server, true);
    rig.close(client, false);
}

/// Streams that hold all buffers of their class take none from datagrams, and the other way round.
pub(super) fn classes_of_receives_leave_each_other_their_buffers<F: Fixture>(rig: &mut Rig<F>) {
    let (client, server) = rig.pair();
    let (near, _) = rig.bind_datagram();
    let (far, far_addr) = rig.bind_datagram();
    rig.recv_start(far, RecvClass::Datagram);
    rig.holds_views = true;
    rig.recv_start(server, RecvClass::Bulk);
    rig.send(client, vec![pattern(0, 24 << 20).into()]);
    rig.drive("want of a buffer", |rig| rig.driver.counters().starved > 0);
    for _ in 0..3 {
        rig.send_to(near, b"not bulk", &far_addr);
        rig.drive("a datagram", |rig| !rig.of(far).datagrams.is_empty());
        assert_eq!(rig.of(far).datagrams.remove(0).0, b"not bulk");
    }
    rig.of(server).views.clear();
    let pool = rig.pools.datagram.clone();
    let taken: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
    rig.drive("bytes", |rig| !rig.of(server).views.is_empty());
    drop(taken);
    rig.close(client, true);
    rig.of(server).views.clear();
    for endpoint in [server, near, far] {
        rig.close(endpoint, false);
    }
}

/// While views are kept nothing is received; when they go, everything follows.
pub(super) fn held_buffers_park_receives<F: Fixture>(rig: &mut Rig<F>) {
    let pairs: Vec<_> = (0..4).map(|_| rig.pair()).collect();
    rig.holds_views = true;
    for &(client, server) in &pairs {
        rig.recv_start(server, RecvClass::Message);
        rig.send_all(client, &pattern(0, 60_000));
    }
    let held = |rig: &mut Rig<F>| -> usize {
        pairs.iter().map(|&(_, server)| rig.of(server).views.len()).sum()
    };
    rig.drive("both buffers in use", |rig| held(rig) == 2);
    rig.settle();
    assert_eq!(held(rig), 2);
    let before = rig.driver.counters();
    rig.settle();
    let idle_calls = rig.driver.counters().syscalls - before.syscalls;
    assert!(idle_calls < 100, "{idle_calls} calls while no buffer was free");

    rig.holds_views = false;
    for &(_, server) in &pairs {
        for view in std::mem::take(&mut rig.of(server).views) {
            rig.of(server).received.extend_from_slice(&view);
        }
    }
    for &(_, server) in &pairs {
        assert_same(&rig.received(server, 60_000), &pattern(0, 60_000));
    }
    close_all(rig, pairs);
}

/// A receive that waits for a buffer must not keep the same stream's send from giving it back.
pub(super) fn parked_receive_lets_the_send_go_on<F: Fixture>(rig: &mut Rig<F>) {
    let (client, server) = rig.pair();
    rig.holds_views = true;
    rig.recv_start(server, RecvClass::Message);
    let request = pattern(0, 200_000);
    rig.send(client, vec![request.clone().into()]);
    rig.drive("want of a buffer", |rig| rig.driver.counters().starved > 0);
    let views = std::mem::take(&mut rig.of(server).views);
    let echoed: usize = views.iter().map(|view| view.len()).sum();
    let ballast = pattern(0, 24 << 20);
    let mut batch = vec![Segment::from(ballast.clone())];
    batch.extend(views.into_iter().map(Segment::from));
    rig.holds_views = false;
    rig.send(server, batch);
    rig.settle();
    assert_eq!(rig.of(server).sent, [], "nobody reads");

    rig.recv_start(client, RecvClass::Bulk);
    let got = rig.received(client, ballast.len() + echoed);
    assert_same(&got[..ballast.len()], &ballast);
    assert_same(&got[ballast.len()..], &request[..echoed]);
    assert_eq!(rig.sent(server), (got.len(), 0));
    assert_same(&rig.received(server, request.len() - echoed), &request[echoed..]);
    close_all(rig, vec![(client, server)]);
}

fn close_all<F: Fixture>(rig: &mut Rig<F>, pairs: Vec<(Endpoint, Endpoint)>) {
    for (client, server) in pairs {
        rig.close(client, false);
        rig.close(server, false);
    }
}
