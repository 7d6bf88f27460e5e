//! Cores that fail: by a borrow that is never given back, so that the next turn panics as it would by a
//! fault of our own, or by a ring that is broken.

use std::cell::RefCell;
use std::future::pending;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::mpsc;
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use socket2::SockAddr;

use super::*;
use crate::contain::contain;
use crate::core::with_current;
use crate::io::{DatagramSocket, ListenOptions, Listener, Pressure, Stream};
use crate::sync::testing::Count;
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

fn any_port() -> SockAddr {
    std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()
}

/// Listens, takes one connection, and leaves both where only the core knows of them, receiving.
async fn serve(bound: mpsc::Sender<SockAddr>, served: mpsc::Sender<()>) {
    let listener = Listener::bind(&any_port(), ListenOptions::default()).expect("a port");
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
    let lost = "core 0 failed: io_uring is broken: the kernel lost completions";
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
    assert!(is_closed(&mut client), "{told}: a socket was left open");
    // The other one goes on, and the runtime remembers.
    assert_eq!(other.spawn(async || 7).expect("room").wait().expect("no panic"), 7);
    assert!(runtime.failed().wait().is_some());
    let error = runtime.shutdown().expect_err("a core had failed");
    assert!(error.to_string().starts_with(told), "{error}");
    assert!(TcpStream::connect(bound).is_err(), "nobody listens any more");
}

/// Whether the other end of a connection that carries nothing is closed.
fn is_closed(peer: &mut TcpStream) -> bool {
    peer.set_read_timeout(Some(CLOSED_WITHIN)).expect("a timeout");
    let mut rest = Vec::new();
    let ended = peer.read_to_end(&mut rest);
    rest.is_empty() && !ended.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

/// Far above what the end of a core takes.
const CLOSED_WITHIN: Duration = Duration::from_secs(30);

/// Runs `check` with each way in which a core fails, on a thread of its own.
fn on_each_failure(check: fn(Backend, fn())) {
    let ways: [(Backend, fn()); 4] = [
        (Backend::Epoll, break_the_core),
        (Backend::Uring, break_the_core),
        (Backend::Uring, lose_completions),
        (Backend::Uring, forbid_entering),
    ];
    for (backend, break_it) in ways {
        thread::spawn(move || check(backend, break_it)).join().expect("the check's thread");
    }
}

/// Breaks the core of a main task when that has made what `keep` answers; this outlives the core.
fn outliving<T: 'static, F: Future<Output = T>>(
    backend: Backend,
    break_it: fn(),
    keep: impl FnOnce() -> F + 'static,
) -> T {
    let kept = Rc::new(RefCell::new(None));
    let its = Rc::clone(&kept);
    let main = async move {
        let made = keep().await;
        *its.borrow_mut() = Some(made);
        break_it();
        pending::<()>().await;
    };
    let ended = Builder::default().threads(1).backend(backend).block_on(main);
    ended.expect_err("the core has failed");
    kept.take().expect("it was made before")
}

#[test]
fn whoever_waits_for_a_socket_of_a_core_that_fails_is_told() {
    on_each_failure(check_waiting);
}

fn check_waiting(backend: Backend, break_it: fn()) {
    let peer = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = SockAddr::from(peer.local_addr().expect("bound"));
    let (count, guard) = (Arc::<Count>::default(), Rc::new(()));
    let (waker, held) = (Waker::from(Arc::clone(&count)), Rc::clone(&guard));
    let (_reads_nothing, full) = deaf_receiver();
    let kept = outliving(backend, break_it, async move || {
        let listener = Listener::bind(&any_port(), ListenOptions::default()).expect("a port");
        let socket = full_socket(&full, || Bytes::from_static(b"unsent")).await;
        let stream = Stream::connect(&to).await.expect("it listens");
        stream.hold_until_closed(held);
        let mut cx = Context::from_waker(&waker);
        assert!(stream.poll_recv(&mut cx).is_pending());
        assert!(listener.poll_accept(&mut cx).is_pending());
        assert!(socket.poll_recv_from(&mut cx).is_pending());
        assert!(pin!(socket.drained()).poll(&mut cx).is_pending());
        (listener, socket, stream)
    });
    assert_eq!(count.woken(), 4, "each is told");
    assert_eq!(Rc::strong_count(&guard), 1, "the guard is dropped");
    let mut peer = peer.accept().expect("it was connected").0;
    assert!(is_closed(&mut peer), "the descriptor is closed, whoever holds the stream");
    let (listener, socket, stream) = kept;
    let mut cx = Context::from_waker(Waker::noop());
    assert!(stream.poll_recv(&mut cx).map(|end| end.is_err()).is_ready());
    assert!(stream.failure().is_some_and(|error| error.to_string().contains("core")));
    assert!(listener.poll_accept(&mut cx).map(|end| end.is_err()).is_ready());
    assert!(socket.poll_recv_from(&mut cx).map(|end| end.is_err()).is_ready());
    assert!(pin!(socket.drained()).poll(&mut cx).is_ready());
}

/// A receiver of datagrams that takes none off its queue.
fn deaf_receiver() -> (UnixDatagram, SockAddr) {
    let name = format!("ringway deaf {} {:?}", std::process::id(), thread::current().id());
    let address = UnixAddr::from_abstract_name(&name).expect("a name");
    let receiver = UnixDatagram::bind_addr(&address).expect("an address");
    (receiver, SockAddr::unix(format!("\0{name}")).expect("a short name"))
}

/// A socket that has queued as much as it may for a receiver that takes no more.
async fn full_socket(to: &SockAddr, datagram: fn() -> Bytes) -> DatagramSocket {
    let unnamed = SockAddr::unix("").expect("no name");
    let socket = DatagramSocket::bind(&unnamed, ListenOptions::default()).expect("a socket");
    let mut sent = 1;
    while sent > 0 {
        sent = 0;
        // The one that is refused is dropped here.
        let send = || socket.send_to(datagram(), to);
        while contain("a refused datagram", send) == Some(Pressure::Low) {
            sent += 1;
        }
        yield_now().await;
    }
    socket
}

struct Panics;

impl Drop for Panics {
    fn drop(&mut self) {
        panic!("a destructor");
    }
}

impl AsRef<[u8]> for Panics {
    fn as_ref(&self) -> &[u8] {
        &[7; 4_096]
    }
}

struct PanicsWhenDropped(Panics);

impl Wake for PanicsWhenDropped {
    fn wake(self: Arc<Self>) {
        assert!(!self.0.as_ref().is_empty());
    }
}

/// Where one destructor that panics is left to the unwinding of another, the process is aborted.
#[test]
fn destructors_that_panic_do_no_harm_to_the_end_of_a_core_that_fails() {
    on_each_failure(check_destructors);
}

fn check_destructors(backend: Backend, break_it: fn()) {
    let peer = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = SockAddr::from(peer.local_addr().expect("bound"));
    let (_reads_nothing, full) = deaf_receiver();
    drop(outliving(backend, break_it, async move || {
        let stream = Stream::connect(&to).await.expect("it listens");
        while stream.write(&[0; 65_536]) == Pressure::Low {}
        yield_now().await;
        for _ in 0..3 {
            stream.send(Bytes::from_owner(Panics));
            stream.hold_until_closed(Panics);
            let waker = Waker::from(Arc::new(PanicsWhenDropped(Panics)));
            assert!(stream.poll_recv(&mut Context::from_waker(&waker)).is_pending());
        }
        let socket = full_socket(&full, || Bytes::from_owner(Panics)).await;
        (stream, socket)
    }));
}

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
