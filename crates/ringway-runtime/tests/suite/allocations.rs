//! In the steady state a message costs no allocation: in a task or a callback, small or large, on one connection or on
//! many. Cores that start and end leave no memory behind.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use ringway_runtime::io::{Incoming, Next, Stream, StreamLimits};
use ringway_runtime::sim::SimConfig;
use ringway_runtime::sync::Notify;
use ringway_runtime::{Backend, Builder, Runtime, sleep, spawn, yield_now};

use crate::support;
use crate::support::allocations::{ALLOCATOR, allocations};
use crate::support::held::Held;
use crate::support::{alone, block_on, connected_to, echo, listen};

/// Messages before counting begins. Meanwhile queues and lists grow to the size that the load needs.
const WARM_UP: usize = 5_000;

const COUNTED: usize = 10_000;

/// The number of runs within which the steady state must be reached.
const WINDOWS_MAX: usize = 5;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Face {
    Task,
    Callback,
}

#[test]
fn messages_cost_no_allocation_on_uring() {
    alone(|| measure_all(Backend::Uring));
}

#[test]
fn messages_cost_no_allocation_on_epoll() {
    alone(|| measure_all(Backend::Epoll));
}

#[test]
fn cores_that_come_and_go_leave_nothing_on_uring() {
    alone(|| come_and_go(Backend::Uring));
}

#[test]
fn cores_that_come_and_go_leave_nothing_on_epoll() {
    alone(|| come_and_go(Backend::Epoll));
}

/// Rounds before counting begins. They create everything that lives as long as the process.
const ROUNDS_WARM_UP: usize = 20;

const ROUNDS: usize = 300;

/// The growth that all rounds together may cause. Each round may leave not even one byte.
const BYTES_LEFT_MAX: usize = ROUNDS / 2;

fn come_and_go(backend: Backend) {
    for _ in 0..ROUNDS_WARM_UP {
        come_and_go_once(backend);
    }
    let held = Held::now();
    let before = (bytes_in_use(), address_space_pages());
    for _ in 0..ROUNDS {
        come_and_go_once(backend);
    }
    held.is_left().expect("descriptors, threads and cores as before");
    let after = (bytes_in_use(), address_space_pages());
    println!("{backend}: bytes, pages {before:?}, after {ROUNDS} rounds {after:?}");
    assert!(after.0 <= before.0 + BYTES_LEFT_MAX, "{before:?}, {after:?}");
    assert!(after.1 <= before.1 + ROUNDS / 2, "{before:?}, {after:?}");
}

/// A core on this thread, one on another, and one that is simulated, each with a connection, a task
/// that waits, a timer, and work for the others.
fn come_and_go_once(backend: Backend) {
    let runtime = Runtime::builder().threads(1).backend(backend).start().expect("a runtime");
    let other = runtime.cores()[0].clone();
    let main = async move {
        live().await;
        other.spawn(live).expect("room").await.expect("no panic");
    };
    block_on(backend, main).expect("no core failed");
    runtime.shutdown().expect("no core failed");
    Builder::simulate(SimConfig::new(1), live()).expect("not stuck");
}

async fn live() {
    let (client, server) = connected_to(&listen(), StreamLimits::default()).await;
    drop(spawn(echo(server)));
    support::exchange(&client, b"once").await;
    drop(spawn(async move {
        let _held = client;
        sleep(Duration::from_secs(3_600)).await;
    }));
    yield_now().await;
}

fn bytes_in_use() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

fn address_space_pages() -> usize {
    let sizes = std::fs::read_to_string("/proc/self/statm").expect("/proc is mounted");
    let first = sizes.split(' ').next().expect("Linux tells it");
    first.parse().expect("a number")
}

fn measure_all(backend: Backend) {
    for face in [Face::Task, Face::Callback] {
        for connections in [1, 100] {
            for len in [64, 16 * 1024] {
                let windows = block_on(backend, measure(face, connections, len));
                let windows = windows.expect("no hang");
                println!("{backend} {face:?} {connections} x {len} B: {windows:?} allocations");
                assert_eq!(windows.last(), Some(&0), "{backend} {face:?} {connections} x {len} B");
            }
        }
    }
}

/// Counts the allocations of one run of messages between both ends, and repeats the run until there is none: a list
/// grows once more whenever more connections than ever before send in the same turn.
async fn measure(face: Face, connections: usize, len: usize) -> Vec<usize> {
    let listener = listen();
    let load = Rc::new(Load::new(connections));
    for _ in 0..connections {
        let (client, server) = connected_to(&listener, StreamLimits::default()).await;
        match face {
            Face::Task => drop(spawn(echo(server))),
            Face::Callback => echo_in_callback(server),
        }
        drop(spawn(exchange(client, len, load.clone())));
    }
    load.run(WARM_UP).await;
    let mut windows = Vec::with_capacity(WINDOWS_MAX);
    while windows.len() < WINDOWS_MAX && windows.last() != Some(&0) {
        let before = allocations();
        load.run(COUNTED).await;
        windows.push(allocations() - before);
    }
    windows
}

fn echo_in_callback(stream: Stream) {
    stream.on_incoming(|stream, incoming| match incoming {
        Incoming::Data(view) => {
            stream.send(view);
            Next::Continue
        }
        Incoming::Drained => Next::Continue,
        Incoming::Eof | Incoming::Failed(_) => Next::Close,
    });
}

/// Messages that remain to be exchanged, over all connections.
struct Load {
    connections: usize,
    left: Cell<usize>,
    resting: Cell<usize>,
    begin: Notify,
    ended: Notify,
}

impl Load {
    fn new(connections: usize) -> Self {
        Self {
            connections,
            left: Cell::new(0),
            resting: Cell::new(0),
            begin: Notify::new(),
            ended: Notify::new(),
        }
    }

    /// Runs `messages` messages to their end.
    async fn run(&self, messages: usize) {
        while self.resting.get() < self.connections {
            self.ended.notified().await;
        }
        self.left.set(messages);
        self.resting.set(0);
        self.begin.notify_waiters();
        while self.resting.get() < self.connections {
            self.ended.notified().await;
        }
        assert_eq!(self.left.get(), 0);
    }

    /// Permits one more message, or waits for the next run if none is left.
    async fn next(&self) {
        while self.left.get() == 0 {
            let begin = self.begin.notified();
            self.resting.set(self.resting.get() + 1);
            if self.resting.get() == self.connections {
                self.ended.notify_one();
            }
            begin.await;
        }
        self.left.set(self.left.get() - 1);
    }
}

/// Sends a message and compares its echo, as often as the load says.
async fn exchange(stream: Stream, len: usize, load: Rc<Load>) {
    let message = bytes::Bytes::from(support::pattern(len, 1));
    loop {
        load.next().await;
        stream.send(message.clone());
        let mut got = 0;
        while got < len {
            let view = stream.recv().await.expect("no error").expect("an echo");
            assert!(*view == message[got..got + view.len()]);
            got += view.len();
        }
    }
}
