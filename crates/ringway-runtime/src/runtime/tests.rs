//! Cores that fail: by a borrow that is never given back, so that the next turn panics as it would by a
//! fault of our own, or by a ring that is broken.

use std::future::pending;
use std::net::TcpStream;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use socket2::SockAddr;

use super::*;
use crate::core::with_current;
use crate::io::{ListenOptions, Listener};
use crate::sys::tests::refuse;
use crate::{sleep, spawn, yield_now};

/// Runs a check over each interface of the kernel.
fn on_each(check: fn(Backend)) {
    for backend in [Backend::Uring, Backend::Epoll] {
        check(backend);
    }
}

fn start(backend: Backend) -> Runtime {
    Runtime::builder().threads(2).backend(backend).start().expect("a runtime")
}

/// Makes the next turn of the calling core panic.
fn break_the_core() {
    with_current(|core| core.break_timers());
}

/// Has the ring of the calling core lose what the kernel said.
fn lose_completions() {
    with_current(|core| core.driver.borrow_mut().lose_completions());
}

/// Has the ring of the calling core refuse every further enter.
fn forbid_entering() {
    refuse(libc::SYS_io_uring_enter, libc::EIO);
}

/// Listens, takes one connection, and leaves both where only the core knows of them, receiving.
async fn serve(bound: mpsc::Sender<SockAddr>, served: mpsc::Sender<()>) {
    let any_port = std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into();
    let listener = Listener::bind(&any_port, ListenOptions::default()).expect("a port");
    bound.send(listener.local_addr().clone()).expect("the test listens");
    let stream = listener.accept().await.expect("accept").into_stream(&Rc::default());
    let stream = stream.expect("a stream");
    drop(spawn(async move { stream.recv().await.map(drop) }));
    yield_now().await; // it receives
    served.send(()).expect("the test listens");
    let _held = listener;
    pending::<()>().await;
}

#[test]
fn a_core_that_fails_tells_everybody_and_closes_its_sockets() {
    on_each(|backend| check_failure(backend, break_the_core, "core 0 panicked: "));
}

#[test]
fn a_ring_that_is_broken_for_good_ends_its_core_and_closes_its_sockets() {
    let lost = "core 0 failed: io_uring is broken: completions were lost";
    check_failure(Backend::Uring, lose_completions, lost);
    check_failure(Backend::Uring, forbid_entering, "core 0 failed: Input/output error");
}

/// Core 0 of two fails by `break_it`, which it tells so.
fn check_failure(backend: Backend, break_it: fn(), told: &str) {
    let runtime = start(backend);
    let [failing, other] = runtime.cores() else { panic!("two cores") };
    let (bound, is_bound) = mpsc::channel();
    let (served, is_served) = mpsc::channel();
    let waiting = failing.spawn(async move || serve(bound, served).await).expect("room");
    let bound = is_bound.recv().expect("it listens").as_socket().expect("inet");
    let mut client = TcpStream::connect(bound).expect("it listens");
    is_served.recv().expect("it accepts");

    let failed = runtime.failed();
    let broken = failing.spawn(async move || {
        break_it();
        sleep(Duration::from_millis(1)).await; // what is broken shows when the core has slept
    });
    let broken = broken.expect("room");
    let failure = failed.wait().expect("a core has failed");
    assert_eq!((failure.core(), failure.is_panic()), (0, told.contains("panicked")), "{failure}");
    assert!(failure.to_string().starts_with(told), "{failure}");
    // What was asked of it is answered, whether it had been done or not.
    let _done_or_not = broken.wait();
    assert!(waiting.wait().expect_err("its core is gone").to_string().contains("ended"));
    assert_eq!(failing.spawn(async || ()).err(), Some(SpawnError::Ended));
    let mut rest = Vec::new();
    client.set_read_timeout(Some(CLOSED_WITHIN)).expect("a timeout");
    let reset_or_end = std::io::Read::read_to_end(&mut client, &mut rest);
    let is_open = reset_or_end.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
    assert!(!is_open && rest.is_empty(), "{told}: a socket was left open");
    // The other one goes on, and the runtime remembers.
    assert_eq!(other.spawn(async || 7).expect("room").wait().expect("no panic"), 7);
    assert!(runtime.failed().wait().is_some());
    let error = runtime.shutdown().expect_err("a core had failed");
    assert!(error.to_string().starts_with(told), "{error}");
    assert!(TcpStream::connect(bound).is_err(), "nobody listens any more");
}

/// Far above what the end of a core takes.
const CLOSED_WITHIN: Duration = Duration::from_secs(30);

#[test]
fn a_main_tasks_core_that_fails_is_an_error() {
    on_each(|backend| {
        let main = async {
            break_the_core();
            pending::<()>().await;
        };
        let ended = Builder::default().threads(1).backend(backend).block_on(main);
        let error = ended.expect_err("the core has failed");
        assert!(error.to_string().starts_with("the core panicked: "), "{error}");
        // The thread is free again.
        let next = Builder::default().threads(1).backend(backend).block_on(async { 1 });
        assert_eq!(next.expect("a core"), 1);
    });
}

#[test]
fn a_future_that_waits_for_a_failure_is_woken() {
    on_each(|backend| {
        let runtime = start(backend);
        let (mut failed, mut dropped) = (runtime.failed(), runtime.failed());
        let (tell, waiting) = mpsc::channel();
        let waits = thread::spawn(move || {
            let main = async move {
                std::future::poll_fn(|cx| {
                    let polled = [&mut failed, &mut dropped].map(|f| Pin::new(f).poll(cx));
                    assert!(polled.iter().all(|poll| poll.is_pending()));
                    std::task::Poll::Ready(())
                })
                .await;
                drop(dropped);
                tell.send(()).expect("the test waits");
                failed.await
            };
            Builder::default().threads(1).backend(backend).block_on(main)
        });
        waiting.recv().expect("it waits");
        drop(runtime.cores()[1].spawn(async || break_the_core()).expect("room"));
        let failure = waits.join().expect("no panic").expect("a core");
        assert_eq!(failure.map(|failure| failure.core()), Some(1));
        assert!(runtime.shutdown().is_err());
    });
}

#[test]
fn a_place_is_pinned_unless_a_quota_pays_for_fewer_cpus() {
    use crate::affinity::CoreSet;
    use builder::Placement;
    let four = || Some(CoreSet::parse("0-3").expect("a set"));
    assert!(matches!(Placement::of(four(), 4), Placement::Pinned(set) if set.len() == 4));
    assert!(matches!(Placement::of(four(), 2), Placement::Floating(2)));
    assert!(matches!(Placement::of(None, 3), Placement::Floating(3)));
}
