//! Spawns and wakes between cores and threads, and the end of a runtime.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;

use ringway_runtime::io::{DatagramSocket, Incoming, ListenOptions, Next, Stream};
use ringway_runtime::{
    Backend, CoreHandle, Runtime, SpawnError, now, sleep, spawn, spawn_blocking, yield_now,
};

use crate::support;
use crate::support::held::open_descriptors;
use crate::support::{alone, any_port, block_on, listen};

on_every_kernel_driver!(
    plain_threads_spawn_on_cores,
    cores_spawn_on_each_other,
    a_remote_handle_is_awaited_or_waited_for,
    a_core_does_not_block_until_its_own_task_has_ended,
    a_remote_panic_is_an_error_for_its_waiter_only,
    the_future_of_a_remote_task_need_not_be_send,
    a_core_that_ends_tells_whoever_waits,
    a_core_that_is_behind_says_full,
    a_core_that_is_behind_takes_in_no_more_than_it_can_run,
    a_task_is_woken_by_foreign_threads,
    blocking_work_answers_its_core,
    a_wake_reaches_a_sleeping_core_every_time,
    a_dropped_runtime_ends_its_cores,
    a_thread_is_one_core_at_a_time,
    tasks_spawned_by_destructors_do_not_keep_a_core,
);

fn two_cores(backend: Backend) -> Runtime {
    let builder = Runtime::builder().threads(2).backend(backend);
    builder.start().expect("a runtime")
}

fn plain_threads_spawn_on_cores(backend: Backend) {
    const THREADS: u64 = 4;
    const SPAWNS: u64 = 1_000;
    let runtime = two_cores(backend);
    let spawn_all = |thread: u64| {
        let mut sum = 0;
        for number in 0..SPAWNS {
            let core = &runtime.cores()[(number % 2) as usize];
            let remote = core.spawn(async move || thread * SPAWNS + number);
            sum += remote.expect("room").wait().expect("no panic");
        }
        sum
    };
    let sum: u64 = thread::scope(|scope| {
        let threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || spawn_all(thread))).collect();
        let sums = threads.into_iter().map(|thread| thread.join());
        sums.map(|sum| sum.expect("no panic")).sum()
    });
    let all = THREADS * SPAWNS;
    assert_eq!(sum, all * (all - 1) / 2);
    runtime.shutdown().expect("no core failed");
}

fn cores_spawn_on_each_other(backend: Backend) {
    const ROUNDS: u32 = 5_000; // two spawns each
    let runtime = two_cores(backend);
    let [first, second] = runtime.cores() else { panic!("two cores") };
    let (home, away) = (first.clone(), second.clone());
    let game = first.spawn(async move || {
        let mut ball = 0;
        for _ in 0..ROUNDS {
            let home = home.clone();
            let returned = away.spawn(async move || {
                let there = ball + 1;
                let back = home.spawn(async move || there + 1).expect("room");
                back.await.expect("no panic")
            });
            ball = returned.expect("room").await.expect("no panic");
        }
        ball
    });
    assert_eq!(game.expect("room").wait().expect("no panic"), ROUNDS * 2);
    runtime.shutdown().expect("no core failed");
}

fn a_remote_handle_is_awaited_or_waited_for(backend: Backend) {
    let runtime = two_cores(backend);
    let remote = runtime.cores()[1].spawn(async || {
        yield_now().await;
        "from afar"
    });
    assert_eq!(remote.expect("room").wait().expect("no panic"), "from afar");
    let remote = runtime.cores()[1].spawn(async || sleep(ms(2)).await);
    block_on(backend, remote.expect("room"))
        .expect("a core")
        .expect("awaited on another runtime's core");
    // A handle nobody keeps lets its task run.
    let (tell, told) = mpsc::channel();
    let remote = runtime.cores()[0].spawn(async move || tell.send(()).is_ok());
    drop(remote.expect("room"));
    told.recv().expect("it ran");
}

fn a_core_does_not_block_until_its_own_task_has_ended(backend: Backend) {
    let runtime = two_cores(backend);
    let other = runtime.cores()[1].clone();
    let waits = runtime.cores()[0].spawn(async move || {
        let own = CoreHandle::current().spawn(async || "own").expect("room");
        let refused = own.wait().expect_err("it would wait for ever");
        (refused.to_string(), other.spawn(async || "other").expect("room").wait())
    });
    let (refused, other) = waits.expect("room").wait().expect("no panic");
    assert!(refused.contains("await the handle"), "{refused}");
    assert_eq!(other.expect("no panic"), "other");
}

const fn ms(count: u64) -> std::time::Duration {
    std::time::Duration::from_millis(count)
}

fn a_remote_panic_is_an_error_for_its_waiter_only(backend: Backend) {
    let runtime = two_cores(backend);
    let core = &runtime.cores()[0];
    let other = core.spawn(async || {
        sleep(ms(5)).await;
        1
    });
    let failing = core.spawn(async || -> u8 { panic!("over there") });
    let error = failing.expect("room").wait().expect_err("it panicked");
    assert!(error.is_panic() && error.to_string().contains("over there"), "{error}");
    assert_eq!(other.expect("room").wait().expect("not touched by it"), 1);
    runtime.shutdown().expect("no core failed");
}

fn the_future_of_a_remote_task_need_not_be_send(backend: Backend) {
    let runtime = two_cores(backend);
    let remote = runtime.cores()[0].spawn(async || {
        let local = Rc::new(41);
        let inner = spawn({
            let local = local.clone();
            async move { *local + 1 }
        });
        inner.await.expect("no panic")
    });
    assert_eq!(remote.expect("room").wait().expect("no panic"), 42);
}

fn a_core_that_ends_tells_whoever_waits(backend: Backend) {
    let runtime = two_cores(backend);
    let core = runtime.cores()[1].clone();
    let forever = core.spawn(async || std::future::pending::<()>().await);
    let forever = forever.expect("room");
    for _ in 0..2 {
        core.spawn(async || ()).expect("room").wait().expect("no panic"); // so that it has turned
    }
    runtime.shutdown().expect("no core failed");
    let error = forever.wait().expect_err("its core has ended");
    assert!(!error.is_panic() && !error.is_aborted());
    assert!(error.to_string().contains("ended"), "{error}");
    let late = core.spawn(async || 1);
    assert_eq!(late.err(), Some(SpawnError::Ended));
    assert!(core.counters().turns > 0, "counters stay readable");
}

/// Blocks a core until the sender is dropped.
fn block(core: &CoreHandle) -> mpsc::Sender<()> {
    let (release, gate) = mpsc::channel();
    let (tell, entered) = mpsc::channel();
    let blocked = core.spawn(async move || {
        tell.send(()).expect("the test waits for it");
        let _released: Result<(), _> = gate.recv();
    });
    drop(blocked.expect("room"));
    entered.recv().expect("the core took it");
    release
}

fn a_core_that_is_behind_says_full(backend: Backend) {
    let runtime = two_cores(backend);
    let core = &runtime.cores()[0];
    let release = block(core);
    let mut accepted = Vec::new();
    let refused = loop {
        match core.spawn(async || 1_usize) {
            Ok(remote) => accepted.push(remote),
            Err(error) => break error,
        }
        assert!(accepted.len() <= 1_000_000, "the mailbox has no bound");
    };
    assert_eq!(refused, SpawnError::Full);
    assert!(accepted.len() > 1_000, "a burst of {} is refused", accepted.len());
    drop(release);
    let count = accepted.len();
    let ran: usize = accepted.into_iter().map(|remote| remote.wait().expect("no panic")).sum();
    assert_eq!(ran, count);
    let again = core.spawn(async || 2).expect("room again");
    assert_eq!(again.wait().expect("no panic"), 2);
    runtime.shutdown().expect("no core failed");
}

fn a_core_that_is_behind_takes_in_no_more_than_it_can_run(backend: Backend) {
    const LIVE_MAX: usize = 4_096; // a quarter of a full mailbox
    let runtime = two_cores(backend);
    let core = &runtime.cores()[0];
    let release = block(core);
    let live = Arc::new(AtomicUsize::new(0));
    let mut accepted = Vec::new();
    loop {
        let live = live.clone();
        let remote = core.spawn(async move || {
            let together = live.fetch_add(1, Ordering::Relaxed);
            yield_now().await;
            live.fetch_sub(1, Ordering::Relaxed);
            together
        });
        match remote {
            Ok(remote) => accepted.push(remote),
            Err(_full) => break,
        }
    }
    drop(release);
    let together = accepted.into_iter().map(|remote| remote.wait().expect("no panic")).max();
    assert!(together < Some(LIVE_MAX), "{together:?} at once");
    runtime.shutdown().expect("no core failed");
}

/// A flag that another thread sets.
#[derive(Clone, Default)]
struct Flag(Arc<(AtomicBool, Mutex<Option<Waker>>)>);

impl Flag {
    fn set(&self) {
        self.0.0.store(true, Ordering::SeqCst);
        if let Some(waker) = self.0.1.lock().expect("no panic").take() {
            waker.wake();
        }
    }
}

impl Future for Flag {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        *self.0.1.lock().expect("no panic") = Some(cx.waker().clone());
        match self.0.0.load(Ordering::SeqCst) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

fn a_task_is_woken_by_foreign_threads(backend: Backend) {
    block_on(backend, async {
        for _ in 0..200 {
            let flags: Vec<_> = (0..5).map(|_| Flag::default()).collect();
            let setters = flags.clone();
            let thread = thread::spawn(move || setters.iter().for_each(Flag::set));
            let waiting: Vec<_> = flags.into_iter().map(spawn).collect();
            for task in waiting {
                task.await.expect("no panic");
            }
            thread.join().expect("no panic");
        }
    })
    .expect("every wake arrived");
}

fn blocking_work_answers_its_core(backend: Backend) {
    block_on(backend, async {
        for number in 0..300 {
            let work = spawn_blocking(move || number * 2).expect("room");
            assert_eq!(work.await.expect("no panic"), number * 2);
        }
        let failing = spawn_blocking(|| panic!("in the pool")).expect("room");
        assert!(failing.await.is_err());
    })
    .expect("every answer arrived");
}

/// Each wake reaches a core that is about to sleep, or sleeps.
fn a_wake_reaches_a_sleeping_core_every_time(backend: Backend) {
    let builder = Runtime::builder().threads(1).backend(backend);
    let runtime = builder.spin(ms(0)).start().expect("a runtime");
    let core = &runtime.cores()[0];
    for number in 0..5_000 {
        let remote = core.spawn(async move || number).expect("room");
        assert_eq!(remote.wait().expect("no panic"), number);
    }
    let counters = core.counters();
    assert!(counters.wakes > 0, "nobody ever had to wake it");
    assert!(counters.wakes <= 5_001, "more wakes than messages");
    runtime.shutdown().expect("no core failed");
}

fn a_dropped_runtime_ends_its_cores(backend: Backend) {
    let runtime = two_cores(backend);
    let (held, watch) = mpsc::channel::<()>();
    let task = runtime.cores()[0].spawn(async move || {
        let _held = held;
        std::future::pending::<()>().await;
    });
    drop(task.expect("room"));
    drop(runtime);
    assert!(watch.recv().is_err(), "its tasks are dropped");
}

fn a_thread_is_one_core_at_a_time(backend: Backend) {
    let inner = block_on(backend, async move {
        let inner = ringway_runtime::Builder::default().threads(1);
        inner.block_on(async {}).map_err(|error| error.to_string())
    });
    let message = inner.expect("the outer one runs").expect_err("nested");
    assert!(message.contains("already"), "{message}");
    block_on(backend, async { now() }).expect("one after another is fine");
}

struct SpawnsWhenDropped(u32);

impl Drop for SpawnsWhenDropped {
    fn drop(&mut self) {
        if let Some(left) = self.0.checked_sub(1) {
            let next = SpawnsWhenDropped(left);
            drop(spawn(async move {
                let _held = next;
                std::future::pending::<()>().await;
            }));
        }
    }
}

fn tasks_spawned_by_destructors_do_not_keep_a_core(backend: Backend) {
    let core = block_on(backend, async {
        let listener = listen();
        drop(spawn(async move {
            let _held = (SpawnsWhenDropped(3), listener);
            std::future::pending::<()>().await;
        }));
        yield_now().await;
        CoreHandle::current()
    });
    let late = core.expect("it ended").spawn(async || ());
    assert_eq!(late.err(), Some(SpawnError::Ended));
}

#[test]
fn shutdown_in_full_flight_leaves_no_descriptor_on_uring() {
    alone(|| shut_down_in_flight(Backend::Uring));
}

#[test]
fn shutdown_in_full_flight_leaves_no_descriptor_on_epoll() {
    alone(|| shut_down_in_flight(Backend::Epoll));
}

fn shut_down_in_flight(backend: Backend) {
    let before = open_descriptors();
    for _ in 0..3 {
        let runtime = two_cores(backend);
        for core in runtime.cores() {
            let peer = runtime.cores()[0].clone();
            let busy = core.spawn(async move || keep_busy(peer).await);
            let connections = busy.expect("room").wait().expect("no panic");
            assert_eq!(connections, CONNECTIONS);
        }
        assert!(open_descriptors() > before + 4 * CONNECTIONS);
        runtime.shutdown().expect("no core failed");
        assert_eq!(open_descriptors(), before);
    }
}

const CONNECTIONS: usize = 20;

/// Leaves behind everything that a core can have in flight: receives, sends that nobody reads, callbacks,
/// accepts, datagrams, timers, spawns to another core, and blocking work.
async fn keep_busy(peer: CoreHandle) -> usize {
    let listener = listen();
    let mut made = 0;
    while made < CONNECTIONS {
        let client = Stream::connect(listener.local_addr()).await;
        let client = client.expect("connect");
        let accepted = listener.accept().await.expect("accept");
        let server = accepted.into_stream(&Rc::default()).expect("stream");
        match made % 3 {
            0 => drop(spawn(support::echo(server))),
            1 => server.on_incoming(|stream, incoming| {
                if let Incoming::Data(view) = incoming {
                    stream.send(view);
                }
                Next::Continue
            }),
            _ => drop(spawn(never_reads(server))),
        }
        drop(spawn(floods(client)));
        made += 1;
    }
    drop(spawn(async move { listener.accept().await.map(drop) }));
    let socket = DatagramSocket::bind(&any_port(), ListenOptions::default()).expect("a port");
    drop(spawn(async move { socket.recv_from().await.map(drop) }));
    drop(spawn(async { sleep(std::time::Duration::from_secs(3_600)).await }));
    drop(spawn(async move {
        while let Ok(remote) = peer.spawn(async || yield_now().await) {
            let _core_may_end = remote.await;
        }
    }));
    made
}

async fn never_reads(stream: Stream) {
    let _kept = stream;
    std::future::pending::<()>().await;
}

async fn floods(stream: Stream) {
    let stream = Rc::new(stream);
    drop(spawn({
        let stream = stream.clone();
        async move { while let Ok(Some(_)) = stream.recv().await {} }
    }));
    loop {
        stream.send(vec![7; 100_000]);
        if stream.drained().await.is_err() {
            return;
        }
    }
}
