//! Allocations of streams of small messages, server and client together.

use std::time::Instant;

use bytes::Bytes;
use ringway_rpc::{
    Client, Codec, Context, Kind, Method, Methods, Server, ServerHandle, Service,
    ServiceDescriptor, Sink, Status, Streaming,
};

use crate::support::allocations::allocations;
use crate::support::alone::alone;
use crate::support::{LIMIT, end, socket_addr};

static METHODS: [Method; 2] = [
    Method::new("flood.Flood/Watch", Kind::ServerStream),
    Method::new("flood.Flood/Echo", Kind::Bidi),
];

static DESCRIPTOR: ServiceDescriptor =
    ServiceDescriptor { name: "flood.Flood", methods: &METHODS, file_descriptor_set: None };

const MESSAGES: u64 = 200_000;
const MESSAGE: [u8; 128] = [7; 128];

#[derive(Clone)]
struct Flood;

impl Service for Flood {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &DESCRIPTOR
    }

    fn register(&self, methods: &mut Methods) {
        let raw = Codec::raw();
        methods.server_stream(&METHODS[0], raw, raw, watch);
        methods.bidi(&METHODS[1], raw, raw, echo);
    }
}

/// Sends messages until the client cancels.
async fn watch(_: Context, _: Bytes, mut out: Sink<Bytes>) -> Result<(), Status> {
    loop {
        out.send(Bytes::from_static(&MESSAGE)).await?;
    }
}

async fn echo(
    _: Context,
    mut messages: Streaming<Bytes>,
    mut out: Sink<Bytes>,
) -> Result<(), Status> {
    while let Some(message) = messages.next().await? {
        out.send(message).await?;
    }
    Ok(())
}

fn serve() -> (ServerHandle, String) {
    let server = Server::bind("tcp://127.0.0.1:0").expect("a free port").threads(1);
    let server = server.service(Flood).start().expect("the server starts");
    let url = format!("tcp://{}", socket_addr(&server));
    (server, url)
}

#[test]
fn stream_message_costs_no_allocation() {
    alone(|| {
        let (server, url) = serve();
        let ran = ringway_runtime::block_on(async move {
            let client = Client::connect(&*url).expect("an address");
            let raw = Codec::raw();
            let mut messages = client.server_stream(&METHODS[0], raw, raw, Bytes::new());
            let mut take = async |count| {
                for _ in 0..count {
                    let message: Bytes =
                        messages.next().await.expect("it goes on").expect("no end");
                    assert_eq!(message, MESSAGE[..]);
                }
            };
            take(MESSAGES).await; // buffers grow to the size that the stream needs
            let (before, begun) = (allocations(), Instant::now());
            ringway_runtime::timeout(LIMIT, take(MESSAGES)).await.expect("no hang");
            println!("{} messages/s", MESSAGES as u128 * 1_000_000 / begun.elapsed().as_micros());
            (allocations() - before) as u64
        });
        let allocations = ran.expect("a core");
        end(server);
        println!("{allocations} allocations of {MESSAGES} messages");
        assert!(allocations < MESSAGES / 50, "{allocations} allocations of {MESSAGES} messages");
    });
}

const STREAMS: u64 = 1_000;
/// Messages of each stream.
const ROUNDS: u64 = 16;

/// The server's handler waits for each message, so it becomes a task, which costs its future, the
/// task and its join state. The client and the messages cost nothing.
#[test]
fn stream_with_a_waiting_handler_allocates_only_its_task() {
    alone(|| {
        let (server, url) = serve();
        let ran = ringway_runtime::block_on(async move {
            let client = Client::connect(&*url).expect("an address");
            let talk = async |count| {
                for _ in 0..count {
                    let (mut out, mut replies) =
                        client.bidi(&METHODS[1], Codec::raw(), Codec::raw());
                    for _ in 0..ROUNDS {
                        out.send(Bytes::from_static(&MESSAGE)).await.expect("it is sent");
                        let reply: Bytes =
                            replies.next().await.expect("it goes on").expect("no end");
                        assert_eq!(reply, MESSAGE[..]);
                    }
                    out.finish();
                    assert!(replies.next().await.expect("it ends well").is_none());
                }
            };
            talk(STREAMS).await; // buffers grow to the size that streams need
            let before = allocations();
            ringway_runtime::timeout(LIMIT, talk(STREAMS)).await.expect("no hang");
            (allocations() - before) as u64
        });
        let allocations = ran.expect("a core");
        end(server);
        println!("{allocations} allocations of {STREAMS} streams");
        assert!(allocations < 3 * STREAMS + STREAMS / 2, "{allocations} of {STREAMS} streams");
    });
}
