//! What happens where a seccomp profile refuses calls, where the kernel takes a part of what it was
//! handed, and where a waker is not a plain number. Filters are of one thread, and last as long.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Weak;
use std::task::{Context, RawWaker, RawWakerVTable, Waker};
use std::time::{Duration, Instant};

use io_uring::opcode;
use io_uring::squeue::Flags;
use io_uring::types::Fd;
use socket2::SockAddr;

use super::{Ring, SendTable};
use crate::buf::{BufferCounts, Pools};
use crate::core::wake_descriptor;
use crate::driver::uring::{Completion, SendOutcome, Uring, kind, tag};
use crate::driver::{Key, RecvClass, SendBatch};
use crate::io::{DatagramSocket, ListenOptions, Stream};
use crate::limits::SUBMISSION_BYTES_MAX;
use crate::sync::{CancellationToken, Mutex, Notify, Semaphore, channel, oneshot};
use crate::{Backend, Builder, CoreHandle, sleep};

/// Has the kernel answer `call` with `errno` on this thread from now on.
pub(crate) fn refuse(call: i64, errno: i32) {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const ANSWER: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut filter = [
        step(LOAD, 0, 0, 0), // the call's number stands first
        step(IF_EQUAL, 0, 1, call as u32),
        step(ANSWER, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
        step(ANSWER, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the kernel copies the program within the call, which lives on this frame.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
    };
    assert_eq!(refused, 0, "no seccomp here: {}", std::io::Error::last_os_error());
}

impl Ring {
    /// As [`recv_multishot`](Self::recv_multishot), but asks the socket what has happened before it reads
    /// for the first time: as though all of it had come between its first read and that question.
    pub(crate) fn recv_multishot_asking_first(&mut self, fd: RawFd, group: u16, user_data: u64) {
        const MULTISHOT_AND_POLL_FIRST: u16 = 2 | 1;
        let receive = opcode::Recv::new(Fd(fd), std::ptr::null_mut(), 0);
        let receive = receive.buf_group(group).ioprio(MULTISHOT_AND_POLL_FIRST).build();
        self.push(receive.flags(Flags::BUFFER_SELECT).user_data(user_data));
    }
}

/// Runs `test` on a thread that ends with its filters.
fn on_a_thread_of_its_own(test: fn()) {
    std::thread::spawn(test).join().expect("the test's thread");
}

fn block_on<F: Future + 'static>(backend: Backend, main: F) -> std::io::Result<F::Output>
where
    F::Output: 'static,
{
    Builder::default().threads(1).backend(backend).block_on(main)
}

async fn interface() -> String {
    sleep(Duration::from_millis(1)).await;
    CoreHandle::current().backend().to_owned()
}

/// A profile may allow a ring to be made and not to be entered.
#[test]
fn a_ring_that_may_not_be_entered_is_told_at_the_start() {
    on_a_thread_of_its_own(|| {
        refuse(libc::SYS_io_uring_enter, libc::EPERM);
        let error = block_on(Backend::Uring, interface()).expect_err("io_uring is refused");
        assert!(error.to_string().contains("forbidden"), "{error}");
        let fallen_back = block_on(Backend::Auto, interface()).expect("epoll is allowed");
        assert!(fallen_back.starts_with("epoll"), "{fallen_back}");
    });
}

/// The kernel was told of no operation, so it cannot write any of the buffers.
#[test]
fn a_ring_that_was_never_entered_keeps_no_buffer() {
    on_a_thread_of_its_own(|| {
        refuse(libc::SYS_io_uring_enter, libc::EPERM);
        let eventfd = wake_descriptor().expect("an eventfd");
        let pools = Pools::new(BufferCounts::USUAL, &Weak::new()).expect("memory");
        assert!(Uring::new(&pools, eventfd).is_err(), "io_uring is refused");
        for class in RecvClass::ALL {
            assert_eq!(Rc::strong_count(pools.of(class)), 1, "{class:?} buffers are kept");
        }
    });
}

/// What was lent to the ring that is not used would be missing for good.
#[test]
fn who_falls_back_to_epoll_has_all_the_buffers() {
    on_a_thread_of_its_own(|| {
        let usual = block_on(Backend::Epoll, datagrams_shared()).expect("epoll is allowed");
        refuse(libc::SYS_io_uring_enter, libc::EPERM);
        let fallen_back = block_on(Backend::Auto, datagrams_shared()).expect("epoll is allowed");
        assert_eq!(fallen_back, usual);
    });
}

/// How many datagrams can be kept without a copy, which depends on how many buffers are free.
async fn datagrams_shared() -> usize {
    let loopback: SockAddr = SocketAddr::from(([127, 0, 0, 1], 0)).into();
    let socket = DatagramSocket::bind(&loopback, ListenOptions::default()).expect("an address");
    let mut kept = Vec::new();
    loop {
        socket.send_to(vec![0; 40_000], socket.local_addr());
        let (datagram, _) = socket.recv_from().await.expect("a datagram");
        match datagram.share(..) {
            Some(bytes) => kept.push(bytes),
            None => return kept.len(),
        }
    }
}

#[test]
fn a_ring_that_may_not_be_made_is_told_at_the_start() {
    on_a_thread_of_its_own(|| {
        refuse(libc::SYS_io_uring_setup, libc::EPERM);
        let error = block_on(Backend::Uring, interface()).expect_err("io_uring is refused");
        assert!(error.to_string().contains("forbidden"), "{error}");
        let fallen_back = block_on(Backend::Auto, interface()).expect("epoll is allowed");
        assert!(fallen_back.starts_with("epoll"), "{fallen_back}");
    });
}

#[test]
fn without_fine_waits_timers_are_late_rather_than_early() {
    for errno in [libc::ENOSYS, libc::EPERM] {
        let waits: fn() = match errno {
            libc::ENOSYS => || check_coarse_waits(libc::ENOSYS),
            _ => || check_coarse_waits(libc::EPERM),
        };
        on_a_thread_of_its_own(waits);
    }
}

fn check_coarse_waits(errno: i32) {
    refuse(libc::SYS_epoll_pwait2, errno);
    let interface = block_on(Backend::Epoll, async {
        for wait in [Duration::from_micros(300), Duration::from_micros(2_500)] {
            let began = Instant::now();
            sleep(wait).await;
            assert!(began.elapsed() >= wait, "a timer fired early");
        }
        interface().await
    });
    let interface = interface.expect("epoll needs no fine waits");
    assert!(interface.contains("whole milliseconds"), "{interface}");
}

/// A kernel without memory takes a part of the queue, and the sends of that enter are not settled.
/// One of them fails, its slot is used again, and so stands twice on the list of the next settling.
#[test]
fn a_send_in_a_slot_that_is_listed_twice_is_settled_once() {
    let mut ring = Ring::new(io_uring::IoUring::new(8).expect("a ring"));
    let (near, _far) = UnixStream::pair().expect("a pair of sockets");
    let (first, second) = (Key::new(0, 0), Key::new(1, 0));
    let mut sends = SendTable::default();
    let send = |sends: &mut SendTable, ring: &mut Ring, key, bytes: usize| {
        let batch = SendBatch { segments: vec![vec![7; bytes].into()], ..SendBatch::default() };
        sends.send(ring, key, near.as_raw_fd(), batch);
    };
    send(&mut sends, &mut ring, first, 1);
    let user_data = tag(kind::SEND, Key::new(0, 1).bits());
    let failed = Completion { user_data, result: -libc::EPIPE, flags: 0 };
    let told = sends.complete(&mut ring, failed, |_| true);
    assert!(matches!(told, Some(SendOutcome::Finished(sent)) if sent.key == first));
    send(&mut sends, &mut ring, second, 2 * SUBMISSION_BYTES_MAX);
    assert!(sends.settle(&mut ring, |_| true).is_none(), "half of it has yet to be handed over");
    assert_eq!(ring.queued(), 3, "two sends, and the second half of one");
    let sent = sends.settle(&mut ring, |_| true).expect("now all of it is");
    assert_eq!((sent.key, sent.bytes, sent.errno), (second, 2 * SUBMISSION_BYTES_MAX, 0));
    assert!(sends.settle(&mut ring, |_| true).is_none() && !sends.is_unsettled());
}

thread_local! {
    static CLONED: RefCell<Option<Rc<dyn Fn()>>> = const { RefCell::new(None) };
}

/// A waker of another executor, whose clone calls back.
fn calls_back_when_cloned() -> Waker {
    fn clone(data: *const ()) -> RawWaker {
        if let Some(call_back) = CLONED.take() {
            call_back();
        }
        RawWaker::new(data, &VTABLE)
    }
    static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, |_| (), |_| (), |_| ());
    // SAFETY: no function of the table looks at the data.
    unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &VTABLE)) }
}

/// Polls a future that has to wait; meanwhile the clone of its waker does `call_back`.
fn check_clone<F: Future>(future: F, call_back: impl Fn() + 'static) {
    let waker = calls_back_when_cloned();
    CLONED.set(Some(Rc::new(call_back)));
    assert!(pin!(future).poll(&mut Context::from_waker(&waker)).is_pending());
    assert!(CLONED.take().is_none(), "the waker was not cloned");
}

#[test]
fn a_waker_may_use_the_primitive_that_clones_it() {
    let (notify, token) = (Rc::new(Notify::new()), CancellationToken::new());
    let own = notify.clone();
    check_clone(notify.notified(), move || drop(own.notified()));
    let own = token.clone();
    check_clone(token.cancelled(), move || drop(Box::pin(own.child())));
    let semaphore = Semaphore::new(1);
    let (held, own) = (semaphore.try_acquire(1).expect("free"), semaphore.clone());
    check_clone(semaphore.acquire(1), move || drop(own.try_acquire(1)));
    drop(held);
    assert_eq!(semaphore.available(), 1);
    let mutex = Rc::new(Mutex::new(()));
    let (held, own) = (mutex.try_lock(), mutex.clone());
    check_clone(mutex.lock(), move || assert!(own.try_lock().is_none()));
    drop(held);
    let (sender, receiver) = channel::bounded(1);
    let own = receiver.clone();
    check_clone(receiver.recv(), move || assert!(own.try_recv().is_err()));
    sender.try_send(1).expect("room");
    let own = sender.clone();
    check_clone(sender.send(2), move || assert!(own.try_send(3).is_err()));
}

/// What the clone of a waker does may be what the poll would have waited for.
#[test]
fn what_a_clone_of_a_waker_brings_about_is_seen_by_its_poll() {
    let notify = Rc::new(Notify::new());
    let (own, waker) = (notify.clone(), calls_back_when_cloned());
    CLONED.set(Some(Rc::new(move || own.notify_one())));
    let mut notified = pin!(notify.notified());
    assert!(notified.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());

    let (sender, receiver) = oneshot::channel();
    let own = Cell::new(Some(sender));
    CLONED.set(Some(Rc::new(move || own.take().expect("cloned once").send(7).expect("it waits"))));
    assert!(pin!(receiver).poll(&mut Context::from_waker(&waker)).is_ready());

    let (mut sender, receiver) = oneshot::channel::<()>();
    let own = Cell::new(Some(receiver));
    CLONED.set(Some(Rc::new(move || own.set(None))));
    assert!(sender.poll_closed(&mut Context::from_waker(&waker)).is_ready());
}

/// The same of a stream: the end of its pace is told to whoever waits for room at that moment, and to nobody
/// later.
#[test]
fn what_a_clone_of_a_waker_does_to_a_stream_is_seen_by_the_poll_that_clones_it() {
    let has_room = block_on(Backend::Auto, async {
        let (near, _never_reads) = UnixStream::pair().expect("a pair of sockets");
        let stream = Rc::new(Stream::adopt(near.into(), &Rc::default()).expect("a socket"));
        stream.set_paced(true);
        stream.write(&vec![7; 4 * 1024 * 1024]);
        let mut noop = Context::from_waker(Waker::noop());
        assert!(stream.poll_room(&mut noop).is_pending());
        let (own, waker) = (stream.clone(), calls_back_when_cloned());
        CLONED.set(Some(Rc::new(move || own.set_paced(false))));
        stream.poll_room(&mut Context::from_waker(&waker)).is_ready()
    });
    assert!(has_room.expect("a core"), "it waits for what has happened");
}
