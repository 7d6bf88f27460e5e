//! Kernel resources of a core besides sockets: it uses no threads, and leaves nothing after its end.

use std::io::Read;
use std::net::TcpStream;
use std::rc::Rc;

use ringway_runtime::io::Stream;
use ringway_runtime::{Backend, CoreHandle, spawn, spawn_blocking};
use socket2::{Domain, SockAddr, SockRef, Socket, Type};

use crate::support::{Stay, alone, block_on, busy_turns, listen};

/// Slow peers, and the bytes sent to each: enough for hundreds of waits for room.
const SLOW_READERS: usize = 4;
const EACH_BYTES: usize = 8 << 20;

/// The bytes that a slow reader takes at a time.
const PIECE_BYTES: usize = 16 * 1024;

const NARROW_BYTES: usize = 32 * 1024;

#[test]
fn slow_readers_need_no_thread_of_the_kernel() {
    alone(|| {
        let most = block_on(Backend::Uring, async {
            let listener = listen();
            let narrow = |socket: SockRef<'_>| {
                socket.set_send_buffer_size(NARROW_BYTES)?;
                socket.set_recv_buffer_size(NARROW_BYTES)
            };
            listener.with_socket(narrow).expect("socket buffers");
            let address = listener.local_addr().as_socket().expect("inet");
            let mut clients = Vec::new();
            let mut streams = Vec::new();
            for _ in 0..SLOW_READERS {
                let client = TcpStream::connect(address).expect("connect");
                narrow(SockRef::from(&client)).expect("socket buffers");
                clients.push(client);
                let accepted = listener.accept().await.expect("accept");
                let stream = accepted.into_stream(&Rc::default()).expect("stream");
                stream.send(vec![1_u8; EACH_BYTES]);
                streams.push(stream);
            }
            spawn_blocking(move || read_slowly(clients)).expect("room").await.expect("no panic")
        });
        assert_eq!(most.expect("a core"), 0, "threads of io-wq");
    });
}

/// Reads everything in small pieces. Returns the largest number of kernel threads seen.
fn read_slowly(mut clients: Vec<TcpStream>) -> usize {
    let mut piece = vec![0; PIECE_BYTES];
    let mut most = 0;
    for got in (0..EACH_BYTES).step_by(PIECE_BYTES) {
        for client in &mut clients {
            client.read_exact(&mut piece).expect("bytes");
        }
        if got % (16 * PIECE_BYTES) == 0 {
            most = most.max(kernel_workers());
        }
    }
    most
}

/// Connects that wait at one full backlog.
const WAITING: usize = 6;

#[test]
fn connects_at_a_full_backlog_need_no_thread_of_the_kernel() {
    alone(|| {
        let workers = block_on(Backend::Uring, async {
            let name = format!("\0ringway-full-backlog-{}", std::process::id());
            let address = SockAddr::unix(name).expect("a short name");
            let listener = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
            listener.bind(&address).expect("a free name");
            listener.listen(1).expect("it listens");
            let connect = |_| {
                let address = address.clone();
                spawn(async move { Stream::connect(&address).await.map(drop) })
            };
            // A backlog of one holds two.
            let connects: Vec<_> = (0..WAITING + 2).map(connect).collect();
            busy_turns().await;
            let workers = kernel_workers();
            assert!(connects.iter().filter(|task| task.is_finished()).count() <= 2, "it has room");
            let accept_all = move || (0..WAITING + 2).for_each(|_| drop(listener.accept()));
            spawn_blocking(accept_all).expect("room").await.expect("no panic");
            for connect in connects {
                connect.await.expect("no panic").expect("accepted in the end");
            }
            workers
        });
        assert_eq!(workers.expect("a core"), 0, "threads of io-wq");
    });
}

fn kernel_workers() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("/proc is mounted");
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("iou-wrk")).count()
}

/// A thread can register sixteen rings. A ring that is gone frees its place.
#[test]
fn rings_leave_nothing_on_their_thread() {
    let _stay = Stay::begin();
    let describe = || {
        let described =
            block_on(Backend::Uring, async { CoreHandle::current().backend().to_owned() });
        described.expect("a core")
    };
    let first = describe();
    for run in 1..40 {
        assert_eq!(describe(), first, "run number {run}");
    }
}
