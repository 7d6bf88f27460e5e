//! Many busy connections share their system calls.

use std::net::SocketAddr;
use std::rc::Rc;

use bytes::Bytes;
use ringway_runtime::io::Stream;
use ringway_runtime::{Backend, Runtime, spawn};

use crate::support::{Stay, echo, listen, pattern, read};

const CONNECTIONS: usize = 100;
const MESSAGE_BYTES: usize = 16 * 1024;

/// Messages of each connection before counting begins, and during counting.
const WARM_UP: usize = 50;
const COUNTED: usize = 200;

/// The allowed system calls per message at a number of connections.
const PER_MESSAGE_MAX: f64 = 0.15;

#[test]
fn a_hundred_busy_connections_need_few_system_calls() {
    let _stay = Stay::begin();
    let builder = Runtime::builder().threads(2).backend(Backend::Uring);
    let runtime = builder.start().expect("a runtime");
    let [server, client] = runtime.cores() else { panic!("two cores") };
    let address = server.spawn(async || serve()).expect("room").wait().expect("no panic");
    let watched = server.clone();
    let measured = client.spawn(async move || {
        let connections = connect(&address).await;
        exchange_on_all(&connections, WARM_UP).await;
        let before = watched.counters();
        exchange_on_all(&connections, COUNTED).await;
        (before, watched.counters())
    });
    let (before, after) = measured.expect("room").wait().expect("no panic");
    runtime.shutdown().expect("no core failed");

    let messages = (CONNECTIONS * COUNTED) as u64;
    let calls = after.syscalls - before.syscalls;
    let per_message = calls as f64 / messages as f64;
    println!("{calls} system calls for {messages} messages: {per_message:.3} each");
    let bytes = messages * MESSAGE_BYTES as u64;
    // The counters of the last turns may not have been published yet.
    assert!(after.bytes_received - before.bytes_received >= bytes / 100 * 95);
    assert!(per_message <= PER_MESSAGE_MAX, "{per_message:.3} system calls a message");
}

/// Starts a server on this core. Returns its address.
fn serve() -> SocketAddr {
    let listener = listen();
    let address = listener.local_addr().as_socket().expect("inet");
    drop(spawn(async move {
        while let Ok(accepted) = listener.accept().await {
            let stream = accepted.into_stream(&Rc::default()).expect("stream");
            drop(spawn(echo(stream)));
        }
    }));
    address
}

async fn connect(address: &SocketAddr) -> Vec<Rc<Stream>> {
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let stream = Stream::connect(&(*address).into()).await.expect("connect");
        connections.push(Rc::new(stream));
    }
    connections
}

/// Keeps one message in flight on every connection.
async fn exchange_on_all(connections: &[Rc<Stream>], rounds: usize) {
    let tasks: Vec<_> = connections
        .iter()
        .map(|stream| {
            let stream = stream.clone();
            spawn(async move {
                let message = Bytes::from(pattern(MESSAGE_BYTES, 1));
                for _ in 0..rounds {
                    stream.send(message.clone());
                    assert!(read(&stream, MESSAGE_BYTES).await == message);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic");
    }
}
