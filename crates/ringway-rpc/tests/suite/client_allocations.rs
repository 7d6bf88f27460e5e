//! Allocations of calls, client and server together.

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use ringway_rpc::{
    Client, Codec, Context, Kind, Method, Methods, Server, Service, ServiceDescriptor, Status,
};
use ringway_runtime::{spawn, timeout};

use crate::support::allocations::allocations;
use crate::support::alone::alone;
use crate::support::{end, socket_addr};

/// Calls before counting begins, so that queues and tables grow to what the load needs.
const WARM_UP: usize = 5_000;

const COUNTED: usize = 2_000;

/// Rounds of calls until one is not disturbed. On a loaded machine a core is interrupted now and then, and the
/// calls that come meanwhile are queued, which takes memory.
const ROUNDS_MAX: usize = 200;

static METHODS: [Method; 1] = [Method::new("echo.Echo/Say", Kind::Unary)];

struct Echo;

impl Service for Echo {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        static DESCRIPTOR: ServiceDescriptor =
            ServiceDescriptor { name: "echo.Echo", methods: &METHODS, file_descriptor_set: None };
        &DESCRIPTOR
    }

    fn register(&self, methods: &mut Methods) {
        let raw = Codec::raw();
        methods.unary(&METHODS[0], raw, raw, async |_: Context, request: Bytes| Ok(request));
    }
}

#[test]
fn call_with_small_payloads_allocates_nothing() {
    alone(|| count("tcp"));
}

#[test]
fn grpc_call_with_small_payloads_allocates_nothing() {
    alone(|| count("grpc"));
}

/// Allocations of a JSON-RPC call by POST at the server: hyper's for the head, the target, the fields and the body's
/// channel, and ours for the bytes of the request and of the answer. It was 18.
const POST_MAX: usize = 11;

#[test]
fn json_rpc_call_by_post_allocates_little() {
    alone(|| {
        let server = Server::bind("tcp://127.0.0.1:0").expect("an address").threads(1);
        let server = server.service(Echo).start().expect("a server");
        let mut socket = TcpStream::connect(socket_addr(&server)).expect("it listens");
        let text = r#"{"jsonrpc":"2.0","method":"Say","params":["NDcgYnl0ZXM="],"id":1}"#;
        let post = format!(
            "POST / HTTP/1.1\r\nhost: here\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{text}",
            text.len()
        );
        let mut reply = [0; 4096];
        let mut calls = |count: usize| {
            for _ in 0..count {
                socket.write_all(post.as_bytes()).expect("the server takes it");
                let len = socket.read(&mut reply).expect("an answer");
                let answer = std::str::from_utf8(&reply[..len]).expect("text");
                assert!(
                    answer.ends_with(r#"{"jsonrpc":"2.0","result":"NDcgYnl0ZXM=","id":1}"#),
                    "{answer}"
                );
            }
        };
        calls(100);
        let least = (0..ROUNDS_MAX).map(|_| {
            let before = allocations();
            calls(100);
            (allocations() - before) / 100
        });
        let least = least.min().expect("rounds");
        println!("{least} allocations of a call by POST");
        assert!(least <= POST_MAX, "{least} allocations of a call by POST");
        drop(socket);
        end(server);
    });
}

/// Counts the allocations of calls over the protocol of `scheme`.
fn count(scheme: &str) {
    let server = Server::bind("tcp://127.0.0.1:0").expect("an address").threads(1);
    let server = server.service(Echo).start().expect("a server");
    let url = server.addresses()[0].to_string().replace("tcp", scheme);
    let measured = ringway_runtime::block_on(timeout(Duration::from_secs(60), async move {
        let client = Client::connect(&*url).expect("an address");
        for in_flight in [1, 100] {
            run(&client, in_flight, WARM_UP).await?;
            let (mut tasks, mut best) = (usize::MAX, usize::MAX);
            for _ in 0..ROUNDS_MAX {
                // Each task makes one call, so what is counted is what the test's tasks take.
                tasks = tasks.min(allocations_of(&client, in_flight, in_flight).await?);
                best = best.min(allocations_of(&client, in_flight, COUNTED).await?);
                if best <= tasks {
                    break;
                }
            }
            println!("{in_flight} in flight: {tasks} allocations of tasks, {best} in all");
            assert!(
                best <= tasks,
                "{in_flight} in flight: {best} in {COUNTED} calls, tasks {tasks}"
            );
        }
        Ok::<_, Status>(())
    }));
    measured.expect("a core").expect("no hang").expect("calls succeed");
}

/// The number of allocations while `in_flight` tasks make `calls` calls.
async fn allocations_of(client: &Client, in_flight: usize, calls: usize) -> Result<usize, Status> {
    let before = allocations();
    run(client, in_flight, calls).await?;
    Ok(allocations() - before)
}

/// Makes `calls` calls from `in_flight` tasks.
async fn run(client: &Client, in_flight: usize, calls: usize) -> Result<(), Status> {
    let left = Rc::new(Cell::new(calls));
    let task = || {
        let (client, left) = (client.clone(), Rc::clone(&left));
        spawn(async move {
            while left.get() > 0 {
                left.set(left.get() - 1);
                let request =
                    Bytes::from_static(b"47 bytes are what a small request often has ...");
                let reply =
                    client.unary(&METHODS[0], Codec::raw(), Codec::raw(), request.clone()).await?;
                assert!(reply == request);
            }
            Ok::<(), Status>(())
        })
    };
    for task in (0..in_flight).map(|_| task()).collect::<Vec<_>>() {
        task.await.expect("no panic")?;
    }
    Ok(())
}
