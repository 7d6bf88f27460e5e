//! What this driver does when the kernel ends what it had asked it to go on with.

use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::IntoRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, mpsc};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use socket2::SockRef;

use super::*;
use crate::buf::BufferCounts;
use crate::core::wake_descriptor;
use crate::sys::tests::refuse;

fn driver() -> (Uring, Arc<OwnedFd>) {
    let eventfd = wake_descriptor().expect("a descriptor is free");
    let counts = BufferCounts { message: 16, bulk: 16, datagram: 16 };
    let pools = Pools::new(counts, &Arc::downgrade(&eventfd)).expect("address space");
    (Uring::new(&pools, Arc::clone(&eventfd)).expect("this kernel has io_uring"), eventfd)
}

/// The kernel ends a multishot poll when it has no room for a completion, among others.
#[test]
fn a_core_is_still_woken_after_the_poll_of_its_eventfd_has_ended() {
    let (mut driver, eventfd) = driver();
    let mut events = Vec::new();
    for _ in 0..3 {
        driver.ring.cancel(tag(kind::EVENTFD, 0), tag(kind::CANCEL, 0));
        for _ in 0..3 {
            driver.turn(Wait::Poll, &mut events).expect("the ring works");
        }
        let signal = Arc::clone(&eventfd);
        let other = thread::spawn(move || {
            rustix::io::write(&signal, &1u64.to_ne_bytes()).expect("the count has room");
        });
        // Without the poll this sleeps for ever.
        driver.turn(Wait::Forever, &mut events).expect("the ring works");
        other.join().expect("no panic");
        assert!(events.is_empty(), "{events:?}");
        let mut count = [0; 8];
        rustix::io::read(&*eventfd, &mut count).expect("it was written to");
    }
}

/// The fault of one connection that was gone before it could be accepted is not the listener's.
#[test]
fn accepting_goes_on_after_a_connection_that_was_aborted() {
    let (mut driver, _eventfd) = driver();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let bound: SocketAddr = listener.local_addr().expect("bound");
    driver.register(Key::FIRST, listener.into_raw_fd());
    for errno in [libc::ECONNABORTED, libc::EPROTO, libc::ENETUNREACH] {
        // As though one had been armed, and the kernel had ended it.
        let handle = &mut driver.handles[Key::FIRST.index()];
        (handle.accepting, handle.in_flight) = (true, handle.in_flight + 1);
        let user_data = tag(kind::ACCEPT, Key::FIRST.bits());
        let mut events = Vec::new();
        let failed = Completion { user_data, result: -errno, flags: 0 };
        driver.on_accept(Key::FIRST, failed, &mut events);
        assert!(events.is_empty(), "{events:?}");
        let _client = TcpStream::connect(bound).expect("it listens");
        while events.is_empty() {
            driver.turn(Wait::AtMost(Duration::from_secs(1)), &mut events).expect("the ring works");
        }
        let [Event::Accepted { fd, .. }] = events[..] else { panic!("{events:?}") };
        driver.close_unregistered(fd);
        driver.accept_stop(Key::FIRST);
        let mut events = Vec::new();
        while events.is_empty() {
            driver.turn(Wait::AtMost(Duration::from_secs(1)), &mut events).expect("the ring works");
        }
        assert!(matches!(events[..], [Event::AcceptEnded { errno: libc::ECANCELED, .. }]));
    }
}

/// A kernel that has no memory takes nothing, and tells nobody when it has some.
#[test]
fn a_kernel_without_memory_keeps_no_core_in_its_wait() {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let (mut driver, _eventfd) = driver();
        let (near, _far) = UnixStream::pair().expect("two sockets");
        driver.register(Key::FIRST, near.into_raw_fd());
        driver.turn(Wait::Poll, &mut Vec::new()).expect("the ring works");
        refuse(libc::SYS_io_uring_enter, libc::EAGAIN);
        let segments = vec![b"urgent".as_slice().into()];
        driver.send(Key::FIRST, SendBatch { segments, to: None, urgent: true });
        let before = driver.counters().syscalls;
        let mut events = Vec::new();
        driver.turn(Wait::Forever, &mut events).expect("this passes");
        tell.send((events.len(), driver.counters().syscalls - before)).expect("the test waits");
    });
    let told = told.recv_timeout(Duration::from_secs(30)).expect("the wait ends");
    assert_eq!(told, (0, 1), "events, and calls");
}

/// The kernel finds that there is room, since the peer's end counts as that, and that there is none, and
/// tries at last on a thread of its own. A cancel does not find what it has in hand meanwhile.
#[test]
fn a_send_to_a_peer_that_has_ended_and_reads_nothing_ends_with_its_key() {
    for abort in [false, true] {
        let (mut driver, _eventfd) = driver();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut far =
            TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        let (near, _) = listener.accept().expect("it has connected");
        far.shutdown(Shutdown::Write).expect("connected");
        assert_eq!(near.peek(&mut [0]).expect("connected"), 0, "its end is here");
        driver.register(Key::FIRST, near.into_raw_fd());
        let segments = vec![vec![1; 16 << 20].into()];
        driver.send(Key::FIRST, SendBatch { segments, to: None, urgent: true });
        let mut events = Vec::new();
        let told = |events: &[Event], what: fn(&Event) -> bool| events.iter().any(what);
        while !told(&events, |event| matches!(event, Event::Progress { .. })) {
            driver.turn(Wait::Poll, &mut events).expect("the ring works");
        }
        driver.close(Key::FIRST, abort);
        let end = Instant::now() + Duration::from_secs(30);
        while !told(&events, |event| matches!(event, Event::Closed { .. })) {
            assert!(Instant::now() < end, "{events:?}");
            driver.turn(Wait::AtMost(Duration::from_secs(1)), &mut events).expect("the ring works");
        }
        let read = std::io::copy(&mut far, &mut std::io::sink());
        assert_eq!(read.is_err(), abort, "{read:?}");
    }
}

/// A receive takes the last bytes of a socket whose end is there already, and is told of nothing more.
#[test]
fn an_end_that_the_kernel_keeps_to_itself_is_found() {
    for receiver in receivers_of_last_words() {
        let (mut driver, _eventfd) = driver();
        receive_asking_first(&mut driver, receiver);
        let events = turn_until(&mut driver, is_recv_end);
        assert!(
            matches!(events[..], [Event::Received { .. }, Event::RecvEnded { .. }]),
            "{events:?}"
        );
        assert!(driver.overlooked.len() == 0, "an ended stream is not looked at again");
    }
}

/// Nobody has to wait until all streams are looked at.
#[test]
fn a_send_that_fails_finds_the_end_at_once() {
    for receiver in receivers_of_last_words() {
        let (mut driver, _eventfd) = driver();
        receive_asking_first(&mut driver, receiver);
        turn_until(&mut driver, |event| matches!(event, Event::Received { .. }));
        driver.overlooked = Overlooked::new();
        let segments = vec![b"answer".as_slice().into()];
        driver.send(Key::FIRST, SendBatch { segments, to: None, urgent: true });
        turn_until(&mut driver, is_recv_end);
    }
}

#[test]
fn a_slot_is_listed_once_however_many_streams_it_has_had() {
    let (mut driver, _eventfd) = driver();
    for generation in 0..3 {
        let (near, mut far) = UnixStream::pair().expect("two sockets");
        let key = Key::new(0, generation);
        driver.register(key, near.into_raw_fd());
        driver.recv_start(key, RecvClass::Message);
        far.write_all(b"some").expect("it is open");
        turn_until(&mut driver, |event| matches!(event, Event::Received { .. }));
        driver.close(key, false);
        turn_until(&mut driver, |event| matches!(event, Event::Closed { .. }));
        assert_eq!(driver.overlooked.len(), 1);
    }
}

/// Sockets at which everything has arrived: bytes, and the end of a peer that has left.
fn receivers_of_last_words() -> [OwnedFd; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut far = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
    let (reset, _) = listener.accept().expect("it has connected");
    far.write_all(b"last words").expect("it is open");
    SockRef::from(&far).set_linger(Some(Duration::ZERO)).expect("an option of sockets");
    drop(far);
    let (closed, mut far) = UnixStream::pair().expect("two sockets");
    far.write_all(b"last words").expect("it is open");
    drop(far);
    let receivers = [OwnedFd::from(reset), OwnedFd::from(closed)];
    for receiver in &receivers {
        let mut polled = [PollFd::new(receiver, PollFlags::RDHUP)];
        assert_eq!(poll(&mut polled, None), Ok(1), "the end arrives");
    }
    receivers
}

fn receive_asking_first(driver: &mut Uring, receiver: OwnedFd) {
    let fd = receiver.into_raw_fd();
    driver.register(Key::FIRST, fd);
    driver.top_up();
    let handle = &mut driver.handles[Key::FIRST.index()];
    (handle.recv, handle.in_flight) = (ArmState::Armed, 1);
    let data = tag(kind::RECV, Key::FIRST.bits());
    driver.ring.recv_multishot_asking_first(fd, RecvClass::Message as u16, data);
}

fn is_recv_end(event: &Event) -> bool {
    matches!(event, Event::RecvEnded { .. })
}

/// Turns as a core does, and never without waiting for something. Returns all events.
fn turn_until(driver: &mut Uring, wanted: impl Fn(&Event) -> bool) -> Vec<Event> {
    const LONG: Duration = Duration::from_secs(30);
    let mut events = Vec::new();
    let end = driver.now() + LONG;
    while !events.iter().any(&wanted) {
        assert!(driver.now() < end, "{events:?}");
        driver.turn(Wait::AtMost(LONG), &mut events).expect("the ring works");
    }
    events
}

/// As many as may wait at once: each costs a socket, and no thread of the kernel.
#[test]
fn peers_that_have_ended_and_read_nothing_cost_no_threads_and_still_get_everything() {
    const PEERS: u32 = 50;
    const BYTES: usize = 8 << 20;
    let (mut driver, _eventfd) = driver();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let payload = bytes::Bytes::from(vec![7; BYTES]);
    let mut peers = Vec::new();
    for index in 0..PEERS {
        let far = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        let (near, _) = listener.accept().expect("it has connected");
        far.shutdown(Shutdown::Write).expect("connected");
        assert_eq!(near.peek(&mut [0]).expect("connected"), 0, "its end is here");
        let key = Key::new(index, 1);
        driver.register(key, near.into_raw_fd());
        let segments = vec![payload.clone().into()];
        driver.send(key, SendBatch { segments, to: None, urgent: true });
        peers.push(far);
    }
    let mut events = Vec::new();
    let end = Instant::now() + Duration::from_secs(60);
    while driver.handles.iter().any(|handle| handle.full.is_none()) {
        assert!(Instant::now() < end, "{} threads", kernel_workers());
        driver.turn(Wait::AtMost(Duration::from_millis(10)), &mut events).expect("the ring works");
    }
    assert!(kernel_workers() <= limits::KERNEL_WORKERS_MAX as usize, "{}", kernel_workers());
    // The last ones first: nobody's progress is behind somebody who reads nothing.
    while let Some(mut far) = peers.pop() {
        let index = peers.len();
        let reader = thread::spawn(move || {
            let mut all = vec![0; BYTES];
            std::io::Read::read_exact(&mut far, &mut all)
                .map(|()| all.iter().all(|&byte| byte == 7))
        });
        let is_sent = |event: &Event| matches!(event, Event::Sent { key, errno: 0, .. } if key.index() == index);
        while !events.iter().any(is_sent) {
            assert!(Instant::now() < end, "{index} peers are left");
            driver.turn(Wait::AtMost(Duration::from_secs(1)), &mut events).expect("the ring works");
        }
        assert!(reader.join().expect("no panic").expect("connected"));
    }
}

/// Threads that the kernel runs for the ring of this thread.
fn kernel_workers() -> usize {
    let name = format!("iou-wrk-{}", rustix::thread::gettid().as_raw_nonzero());
    let tasks = std::fs::read_dir("/proc/self/task").expect("proc is mounted");
    let names =
        tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|comm| comm.trim_end() == name).count()
}
