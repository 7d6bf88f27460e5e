//! The end of cores, whatever causes it: every handle is told, and nothing is left.

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use ringway_runtime::io::{DatagramSocket, ListenOptions, Pressure, Stream};
use ringway_runtime::{
    Backend, Builder, CoreHandle, JoinHandle, RemoteHandle, Runtime, SpawnError, sleep, spawn,
    spawn_blocking, yield_now,
};

use crate::support::alone::NoForks;
use crate::support::held::Held;
use crate::support::{Stay, alone, any_port, block_on, listen, listen_apart, poll_once};

on_every_kernel_driver!(
    a_runtime_that_ends_among_spawns_answers_each,
    a_main_task_that_ends_among_spawns_answers_each,
    what_was_not_run_is_dropped_and_its_panics_contained,
    a_handle_that_outlives_its_core_is_told,
    a_socket_that_outlives_its_core_is_told,
    a_handle_of_an_earlier_run_aborts_nothing_of_a_later_one,
    an_abort_outside_of_a_runtime_changes_nothing,
    a_runtime_dropped_on_its_own_core_ends,
    a_runtime_shut_down_on_its_own_core_says_that_it_cannot_wait,
    whoever_waits_for_a_failure_hears_of_the_end,
    a_destructor_that_spawns_without_end_ends_with_the_core,
    a_thread_that_is_ending_becomes_no_core,
    what_a_thread_drops_at_its_end_may_use_handles,
);

fn start(backend: Backend, threads: usize) -> Runtime {
    Runtime::builder().threads(threads).backend(backend).start().expect("a runtime")
}

/// Everything that a core may hold when it ends: a socket, a connection that nobody reads, a waiting task,
/// and a task that its destructor spawns.
async fn hold_all_kinds() {
    let socket = DatagramSocket::bind(&any_port(), ListenOptions::default());
    let held = SpawnsWhenDropped;
    if let Ok((client, server)) = connected().await {
        client.send(vec![7; 1_000_000]);
        server.on_incoming(|_, _| ringway_runtime::io::Next::Continue);
        drop(spawn(async move { client.flushed().await }));
    }
    yield_now().await;
    let _held = (socket, held);
    pending::<()>().await;
}

async fn connected() -> io::Result<(Stream, Stream)> {
    let listener = ringway_runtime::io::Listener::bind(&any_port(), ListenOptions::default())?;
    let client = Stream::connect(listener.local_addr()).await?;
    let server = listener.accept().await?.into_stream(&Rc::default())?;
    Ok((client, server))
}

struct SpawnsWhenDropped;

impl Drop for SpawnsWhenDropped {
    fn drop(&mut self) {
        if CoreHandle::is_here() {
            let socket = DatagramSocket::bind(&any_port(), ListenOptions::default());
            drop(spawn(async move {
                let _held = socket;
                pending::<()>().await;
            }));
        }
    }
}

/// Spawns on the core until it has ended. Returns the handles.
fn spawn_to_the_end(core: &CoreHandle) -> Vec<RemoteHandle<()>> {
    let mut handles = Vec::new();
    loop {
        let spawned = match handles.len() {
            count if count % 500 == 7 && count < 10_000 => core.spawn(hold_all_kinds),
            _ => core.spawn(async || yield_now().await),
        };
        match spawned {
            Ok(handle) => handles.push(handle),
            Err(SpawnError::Ended) => return handles,
            Err(_full) => thread::yield_now(),
        }
    }
}

const SPAWNERS: usize = 3;

/// Starts threads that spawn on a core until it ends, and then wait for every answer.
struct Spawners {
    begun: mpsc::Receiver<()>,
    answered: mpsc::Receiver<usize>,
}

impl Spawners {
    fn start(core: &CoreHandle) -> Self {
        let (begin, begun) = mpsc::channel();
        let (answer, answered) = mpsc::channel();
        for _ in 0..SPAWNERS {
            let (core, begin, answer) = (core.clone(), begin.clone(), answer.clone());
            thread::spawn(move || {
                begin.send(()).expect("the test listens");
                let handles = spawn_to_the_end(&core);
                answer.send(handles.into_iter().map(RemoteHandle::wait).count())
            });
        }
        Self { begun, answered }
    }

    fn wait_until_begun(&self) {
        assert_eq!(self.begun.iter().take(SPAWNERS).count(), SPAWNERS);
    }

    fn wait_for_every_answer(&self) {
        for _ in 0..SPAWNERS {
            self.answered.recv_timeout(ANSWER_TIME_MAX).expect("every handle is answered");
        }
    }
}

/// If an answer takes longer, the test has failed.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);

fn a_runtime_that_ends_among_spawns_answers_each(backend: Backend) {
    for _ in 0..10 {
        let runtime = start(backend, 1);
        let spawners = Spawners::start(&runtime.cores()[0]);
        spawners.wait_until_begun();
        runtime.shutdown().expect("no core failed");
        spawners.wait_for_every_answer();
    }
}

fn a_main_task_that_ends_among_spawns_answers_each(backend: Backend) {
    for _ in 0..10 {
        let spawners = block_on(backend, async {
            let spawners = Spawners::start(&CoreHandle::current());
            let begun = spawn_blocking(move || {
                spawners.wait_until_begun();
                spawners
            });
            begun.expect("room").await.expect("no panic")
        });
        spawners.expect("no core failed").wait_for_every_answer();
    }
}

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("a destructor");
    }
}

fn what_was_not_run_is_dropped_and_its_panics_contained(backend: Backend) {
    let runtime = start(backend, 1);
    let core = &runtime.cores()[0];
    let (release, gate) = mpsc::channel::<()>();
    let (tell, entered) = mpsc::channel();
    let blocked = core.spawn(async move || {
        tell.send(()).expect("the test waits for it");
        gate.recv().is_err()
    });
    entered.recv().expect("the core took it");
    // These stay in the mailbox: the core is told to end before it can look.
    let left: Vec<_> = (0..3)
        .map(|_| {
            let held = PanicsWhenDropped;
            core.spawn(async move || {
                let _held = held;
                pending::<()>().await;
            })
        })
        .collect();
    let ending = thread::spawn(move || runtime.shutdown());
    drop(release);
    ending.join().expect("no panic").expect("a destructor's panic is no failure of the core");
    for handle in left {
        assert!(!handle.expect("room").wait().expect_err("its core has ended").is_panic());
    }
    assert!(blocked.expect("room").wait().expect("no panic"));
}

fn a_handle_that_outlives_its_core_is_told(backend: Backend) {
    let waiting = block_on(backend, async {
        let waiting = spawn(pending::<()>());
        let never_polled = spawn(pending::<()>());
        yield_now().await;
        (waiting, never_polled, spawn(pending::<()>()))
    });
    let (one, two, three) = waiting.expect("no core failed");
    for handle in [one, two, three] {
        assert!(handle.is_finished());
        let error = block_on(backend, handle).expect("it is answered").expect_err("its core ended");
        assert!(error.to_string().contains("ended") && !error.is_aborted(), "{error}");
    }
}

/// Tasks that hold sockets after their core has ended do not wait for ever.
fn a_socket_that_outlives_its_core_is_told(backend: Backend) {
    let sockets = block_on(backend, async {
        let listener = listen();
        let socket = DatagramSocket::bind(&any_port(), ListenOptions::default());
        let (client, server) = connected().await.expect("loopback");
        assert!(poll_once(pin!(server.recv())).await.is_pending());
        let before = server.last_active();
        client.write(b"last");
        while server.last_active() == before {
            yield_now().await;
        }
        let ended = connected().await.expect("loopback").0;
        ended.end_receiving();
        (listener, socket.expect("loopback"), client, server, ended)
    });
    let (listener, socket, client, server, ended) = sockets.expect("no core failed");
    let waits = block_on(backend, async move {
        assert_eq!(server.recv().await.expect("it had come").as_deref(), Some(&b"last"[..]));
        for stream in [&client, &server] {
            let error = stream.recv().await.expect_err("its core has ended");
            assert!(error.to_string().contains("core"), "{error}");
            assert!(stream.failure().is_some() && stream.flushed().await.is_err());
            assert_eq!(stream.write(b"late"), Pressure::Closed);
        }
        assert!(ended.recv().await.expect("an end of its own").is_none());
        assert!(listener.accept().await.is_err());
        assert!(socket.recv_from().await.is_err());
        assert_eq!(socket.send_to(&b"late"[..], &any_port()), Pressure::Closed);
        socket.drained().await;
    });
    waits.expect("each is told");
}

fn a_handle_of_an_earlier_run_aborts_nothing_of_a_later_one(backend: Backend) {
    let old = block_on(backend, async { [(); 3].map(|()| spawn(pending::<()>())) });
    let old = old.expect("no core failed");
    let sum = block_on(backend, async move {
        let tasks = [1, 2, 3].map(|number| {
            spawn(async move {
                yield_now().await;
                number
            })
        });
        old.iter().for_each(JoinHandle::abort);
        let mut sum = 0;
        for task in tasks {
            sum += task.await.expect("nobody has aborted it");
        }
        sum
    });
    assert_eq!(sum.expect("no core failed"), 6);
}

fn an_abort_outside_of_a_runtime_changes_nothing(backend: Backend) {
    let ended = block_on(backend, async {
        let done = spawn(async { 7 });
        yield_now().await;
        (done, spawn(pending::<u8>()))
    });
    let (done, dropped) = ended.expect("no core failed");
    done.abort();
    dropped.abort();
    let answers = block_on(backend, async { (done.await, dropped.await) });
    let (done, dropped) = answers.expect("no core failed");
    assert_eq!(done.expect("it had ended before"), 7);
    assert!(!dropped.expect_err("its core had ended").is_aborted());
}

fn a_runtime_dropped_on_its_own_core_ends(backend: Backend) {
    let runtime = start(backend, 2);
    let failed = runtime.failed();
    let [one, other] = [0, 1].map(|number| runtime.cores()[number].clone());
    let waits = other.spawn(async || pending::<()>().await).expect("room");
    let drops = one.spawn(async move || drop(runtime)).expect("room");
    drops.wait().expect("dropped without a panic");
    assert!(waits.wait().is_err(), "the other core ends too");
    assert!(failed.wait().is_none(), "both have ended, in order");
}

fn a_runtime_shut_down_on_its_own_core_says_that_it_cannot_wait(backend: Backend) {
    let runtime = start(backend, 1);
    let failed = runtime.failed();
    let core = runtime.cores()[0].clone();
    let asked = core.spawn(async move || runtime.shutdown().map_err(|error| error.kind()));
    let answer = asked.expect("room").wait().expect("no panic");
    assert_eq!(answer, Err(io::ErrorKind::Deadlock));
    assert!(failed.wait().is_none());
}

fn whoever_waits_for_a_failure_hears_of_the_end(backend: Backend) {
    let runtime = start(backend, 2);
    let (early, late) = (runtime.failed(), runtime.failed());
    let waits = thread::spawn(move || block_on(backend, early).expect("no core failed"));
    drop(runtime.failed());
    runtime.shutdown().expect("no core failed");
    assert!(waits.join().expect("no panic").is_none());
    assert!(late.wait().is_none());
}

struct SpawnsForever;

impl Drop for SpawnsForever {
    fn drop(&mut self) {
        drop(spawn(async move {
            let _next = SpawnsForever;
            pending::<()>().await;
        }));
    }
}

fn a_destructor_that_spawns_without_end_ends_with_the_core(backend: Backend) {
    #[expect(clippy::async_yields_async, reason = "the handle outlives its core")]
    let waiting = block_on(backend, async {
        drop(spawn(async move {
            let _held = SpawnsForever;
            pending::<()>().await;
        }));
        yield_now().await;
        spawn(pending::<()>())
    });
    assert!(waiting.expect("no core failed").is_finished());
}

/// Runs a closure when its thread ends, after the other values of the thread are gone.
struct AtThreadEnd(RefCell<Option<Box<dyn FnOnce()>>>);

impl Drop for AtThreadEnd {
    fn drop(&mut self) {
        if let Some(run) = self.0.take() {
            run();
        }
    }
}

thread_local! {
    static AT_THREAD_END: AtThreadEnd = const { AtThreadEnd(RefCell::new(None)) };
}

/// Starts a thread that is a core and then ends. `run` is called at its end, before and after the
/// thread has lost the values of the runtime.
fn at_the_end_of_a_core(backend: Backend, run: impl Fn(bool) + Send + 'static) {
    let (tell, told) = mpsc::channel();
    let body = move || {
        // A thread drops its values in the order of their first use, or in the reverse order. So one
        // value is created before the runtime's own, and one after.
        let early = Cell::new(Some((tell, run)));
        AT_THREAD_END.with(|_| ());
        block_on(backend, async {}).expect("no core failed");
        AT_THREAD_END.with(move |at_end| {
            let run_at_end = move || {
                let (tell, run) = early.take().expect("called once");
                run(CoreHandle::is_here());
                tell.send(()).expect("the test waits");
            };
            *at_end.0.borrow_mut() = Some(Box::new(run_at_end));
        });
    };
    thread::spawn(body).join().expect("no panic");
    told.recv().expect("it ran to its end");
}

fn a_thread_that_is_ending_becomes_no_core(backend: Backend) {
    at_the_end_of_a_core(backend, move |is_core| {
        assert!(!is_core);
        let builder = Builder::default().threads(1).backend(backend);
        match builder.block_on(async { 1 }) {
            Ok(one) => assert_eq!(one, 1), // where the thread's values are dropped later
            Err(error) => assert!(error.to_string().contains("ending"), "{error}"),
        }
    });
}

fn what_a_thread_drops_at_its_end_may_use_handles(backend: Backend) {
    let runtime = start(backend, 1);
    let core = runtime.cores()[0].clone();
    let old = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&old);
    at_the_end_of_a_core(backend, move |_| {
        let remote = core.spawn(async || {
            sleep(Duration::from_millis(1)).await;
            42
        });
        assert_eq!(remote.expect("room").wait().expect("no panic"), 42);
        assert!(spawn_blocking(|| ()).is_ok());
        drop(sleep(Duration::ZERO));
        seen.store(true, Ordering::Release);
    });
    assert!(old.load(Ordering::Acquire));
    runtime.shutdown().expect("no core failed");
}

#[test]
fn a_start_that_fails_half_way_leaves_nothing_on_uring() {
    alone(|| fail_half_way(Backend::Uring));
}

#[test]
fn a_start_that_fails_half_way_leaves_nothing_on_epoll() {
    alone(|| fail_half_way(Backend::Epoll));
}

fn fail_half_way(backend: Backend) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let before = Held::now();
    let limit = getrlimit(Resource::Nofile);
    let mut refused = 0;
    // For every resource that a core needs, some limit lets some of the four start, and not all.
    for room in 0..24 {
        let current = Some((before.descriptors + 1 + room) as u64);
        setrlimit(Resource::Nofile, Rlimit { current, ..limit }).expect("lower");
        let started = Runtime::builder().threads(4).backend(backend).start();
        setrlimit(Resource::Nofile, limit).expect("as before");
        match started {
            Ok(runtime) => runtime.shutdown().expect("no core failed"),
            Err(_out_of_descriptors) => refused += 1,
        }
        before.is_left().expect("nothing is left");
    }
    assert!((4..24).contains(&refused), "{refused} starts were refused");
}

#[test]
fn cores_of_one_runtime_are_alike() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    alone(|| {
        let before = Held::now();
        let limit = getrlimit(Resource::Nofile);
        // With some room there are descriptors for the first core's ring and none for the last one's.
        for room in 0..24 {
            let current = Some((before.descriptors + 1 + room) as u64);
            setrlimit(Resource::Nofile, Rlimit { current, ..limit }).expect("lower");
            let started = Runtime::builder().threads(3).backend(Backend::Auto).start();
            setrlimit(Resource::Nofile, limit).expect("as before");
            let Ok(runtime) = started else { continue };
            let backends: Vec<_> = runtime.cores().iter().map(CoreHandle::backend).collect();
            assert!(backends.iter().all(|backend| *backend == backends[0]), "{room}: {backends:?}");
        }
        before.is_left().expect("nothing is left");
    });
}

#[test]
fn a_borrowed_thread_goes_back_to_its_cpus() {
    use ringway_runtime::affinity::CoreSet;
    let _stay = Stay::begin();
    let open = CoreSet::available().expect("the kernel answers");
    let first: CoreSet = open.iter().take(1).collect();
    let builder = || Builder::default().cores(first.clone()).backend(Backend::Epoll);
    let inside = builder().block_on(async { CoreSet::available().expect("the kernel answers") });
    assert_eq!(inside.expect("a core"), first);
    assert_eq!(CoreSet::available().expect("the kernel answers"), open);
    let panics = || builder().block_on(async { panic!("the main task") });
    assert!(std::panic::catch_unwind(panics).is_err());
    assert_eq!(CoreSet::available().expect("the kernel answers"), open, "after a panic");
}

#[test]
fn blocking_work_runs_on_every_cpu_of_the_process() {
    use ringway_runtime::affinity::CoreSet;
    alone(|| {
        let open = CoreSet::available().expect("the kernel answers");
        let runtime = Runtime::builder().cores(open.clone()).start().expect("a runtime");
        for core in runtime.cores() {
            let asked = core.spawn(async || {
                let there = spawn_blocking(|| CoreSet::available().expect("the kernel answers"));
                let here = CoreSet::available().expect("the kernel answers");
                (here.len(), there.expect("room").await.expect("no panic"))
            });
            let (pinned_to, there) = asked.expect("room").wait().expect("no panic");
            assert_eq!((pinned_to, there), (1, open.clone()));
        }
        runtime.shutdown().expect("no core failed");
    });
}

#[test]
fn an_address_is_free_when_its_core_has_ended() {
    let _stay = Stay::begin();
    let _no_forks = NoForks::begin();
    for backend in [Backend::Uring, Backend::Epoll].repeat(20) {
        let bound = block_on(backend, async {
            let listener = listen_apart();
            let bound = listener.local_addr().as_socket().expect("inet");
            drop(spawn(async move { listener.accept().await.map(drop) }));
            yield_now().await;
            bound
        });
        let bound = bound.expect("no core failed");
        let refused = std::net::TcpStream::connect(bound).map(drop);
        let kind = refused.map_err(|error| error.kind());
        assert_eq!(kind, Err(io::ErrorKind::ConnectionRefused), "{backend}");
        std::net::TcpListener::bind(bound).expect("nobody has it any more");
    }
}
