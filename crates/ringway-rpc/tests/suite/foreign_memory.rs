//! Message memory with a user's destructor: it may re-enter the connection that frees the memory,
//! or panic, and affects no other call.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use ringway_net::{ClientTls, ServerTls};
use ringway_rpc::testing::{TestServer, simulate};
use ringway_rpc::{
    CallOptions, Client, Code, Server, Sink, Status, Streaming, TrySendError, service,
};
use ringway_runtime::{block_on, sleep, timeout};

use crate::support::alone::alone;

#[service(package = "memory.v1", crate = "ringway_rpc")]
trait Memory {
    async fn echo(&self, message: Bytes) -> Result<Bytes, Status>;
    /// Replies with memory of the test.
    async fn get(&self, len: u32) -> Result<Bytes, Status>;
    /// Sends such messages until it has to wait, for ever.
    async fn flood(&self, len: u32, messages: Sink<Bytes>) -> Result<(), Status>;
    /// Reads nothing, for ever.
    async fn hold(&self, messages: Streaming<Bytes>, replies: Sink<Bytes>) -> Result<(), Status>;
    /// Reads nothing, and fails when it is told to.
    async fn refuse(&self, messages: Streaming<Bytes>, replies: Sink<Bytes>) -> Result<(), Status>;
    async fn chat(&self, messages: Streaming<Bytes>, replies: Sink<Bytes>) -> Result<(), Status>;
}

/// What the destructor of a message's memory does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AtEnd {
    ComesBack,
    Panics,
}

/// Makes memory for messages, and counts how much was dropped as it should.
#[derive(Clone)]
struct Memories(Arc<Shared>);

struct Shared {
    at_end: AtEnd,
    made: AtomicUsize,
    ended: AtomicUsize,
    /// The client that the destructor calls.
    client: Mutex<Option<MemoryClient>>,
    sink: Mutex<Option<Sink<Bytes>>>,
}

struct Owner {
    memory: Vec<u8>,
    of: Memories,
}

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.memory
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if self.of.0.at_end == AtEnd::ComesBack {
            self.of.come_back(); // panics if anything is borrowed
        }
        self.of.0.ended.fetch_add(1, Ordering::SeqCst);
        if self.of.0.at_end == AtEnd::Panics {
            panic!("the memory of a message is dropped");
        }
    }
}

impl Memories {
    fn new(at_end: AtEnd) -> Self {
        Self(Arc::new(Shared {
            at_end,
            made: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            client: Mutex::default(),
            sink: Mutex::default(),
        }))
    }

    fn message(&self, len: usize) -> Bytes {
        self.0.made.fetch_add(1, Ordering::SeqCst);
        Bytes::from_owner(Owner { memory: vec![7; len], of: self.clone() })
    }

    fn made(&self) -> usize {
        self.0.made.load(Ordering::SeqCst)
    }

    fn come_back(&self) {
        let mut cx = Context::from_waker(Waker::noop());
        let client = self.0.client.lock().expect("no panic under it").clone();
        if let Some(client) = client {
            // Begun and dropped.
            let mut call = client.echo(Bytes::from_static(b"back"));
            let _pending = Pin::new(&mut call).poll(&mut cx);
            let (mut sink, mut replies) = client.chat();
            let _sent = sink.try_send(Bytes::from_static(b"back"));
            let _pending = pin!(replies.next()).poll(&mut cx);
        }
        let sink = self.0.sink.lock().expect("no panic under it").take();
        if let Some(mut sink) = sink {
            let _sent = sink.try_send(Bytes::from_static(b"back"));
            self.0.sink.lock().expect("no panic under it").replace(sink);
        }
    }

    /// Waits until all memory was dropped.
    async fn all_end(&self) {
        let ends = async {
            while self.0.ended.load(Ordering::SeqCst) < self.made() {
                sleep(MS).await;
            }
        };
        let in_time = timeout(LIMIT, ends).await;
        let ended = self.0.ended.load(Ordering::SeqCst);
        assert!(in_time.is_ok(), "{ended} of {} have ended as they should", self.made());
    }

    /// Sends messages until one would have to wait.
    async fn fill(&self, sink: &mut Sink<Bytes>) {
        let before = self.made();
        let mut waits = 0;
        while waits < 10 {
            match sink.try_send(self.message(60_000)) {
                Ok(()) => {}
                Err(TrySendError::Full(message)) => {
                    drop(std::panic::catch_unwind(|| drop(message)));
                    waits += 1;
                    sleep(MS).await;
                }
                Err(TrySendError::Failed(status)) => panic!("{status}"),
            }
        }
        assert!(self.made() - before >= 4 + waits, "some wait in the queue of the stream");
    }
}

impl Memory for Memories {
    async fn echo(&self, message: Bytes) -> Result<Bytes, Status> {
        Ok(message)
    }

    async fn get(&self, len: u32) -> Result<Bytes, Status> {
        Ok(self.message(len as usize))
    }

    async fn flood(&self, len: u32, mut messages: Sink<Bytes>) -> Result<(), Status> {
        loop {
            messages.send(self.message(len as usize)).await?;
        }
    }

    async fn hold(&self, messages: Streaming<Bytes>, replies: Sink<Bytes>) -> Result<(), Status> {
        self.0.sink.lock().expect("no panic under it").replace(replies);
        std::future::pending::<()>().await;
        drop(messages);
        Ok(())
    }

    async fn refuse(&self, messages: Streaming<Bytes>, _: Sink<Bytes>) -> Result<(), Status> {
        sleep(Duration::from_secs(1)).await;
        drop(messages);
        Err(Status::aborted("no more of it"))
    }

    async fn chat(
        &self,
        mut messages: Streaming<Bytes>,
        mut replies: Sink<Bytes>,
    ) -> Result<(), Status> {
        while let Some(message) = messages.next().await? {
            replies.send(message).await?;
        }
        Ok(())
    }
}

const LIMIT: Duration = Duration::from_secs(20);
const MS: Duration = Duration::from_millis(1);

/// Starts a server and a client with one connection that has answered.
async fn connected(memories: &Memories) -> Result<(TestServer, Client), Status> {
    let service = memories.clone();
    let server = TestServer::start(MemoryServer::per_core(move || service.clone()))?;
    let client = Client::builder().address(server.address().clone()).connections_max(1);
    let client = client.build()?;
    MemoryClient::new(client.clone()).echo(Bytes::from_static(b"connect")).await?;
    Ok((server, client))
}

/// Runs `test` with each kind of memory. Each test runs in its own process, because two destructors
/// that panic at once would end it.
fn with_each<F: Future<Output = Result<(), Status>> + 'static>(test: impl Fn(Memories) -> F) {
    for at_end in [AtEnd::ComesBack, AtEnd::Panics] {
        let outcome = simulate(7, test(Memories::new(at_end)));
        assert!(outcome.is_ok(), "{at_end:?}: {outcome:?}");
    }
}

/// How requests waiting in a client's connection are discarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    Cancelled,
    Dropped,
    Late,
    Refused,
    Lost,
}

impl Ending {
    fn code(self) -> Code {
        match self {
            Self::Cancelled | Self::Dropped => Code::Cancelled,
            Self::Late => Code::DeadlineExceeded,
            Self::Refused => Code::Aborted,
            Self::Lost => Code::Unavailable,
        }
    }
}

async fn requests_end(memories: Memories, ending: Ending) -> Result<(), Status> {
    let (server, timeless) = connected(&memories).await?;
    let client = MemoryClient::new(timeless.clone());
    memories.0.client.lock().expect("no panic under it").replace(client.clone());
    let timed = MemoryClient::new(timeless.with(CallOptions::new().timeout(900 * MS)));
    let (mut sink, mut replies) = match ending {
        Ending::Refused => client.refuse(),
        Ending::Late => timed.hold(),
        _ => client.hold(),
    };
    memories.fill(&mut sink).await;
    match ending {
        Ending::Cancelled => sink.cancel("no more of it"),
        Ending::Dropped => drop(sink),
        Ending::Lost => server.lose_connections(),
        Ending::Late | Ending::Refused => {}
    }
    let failure = loop {
        match replies.next().await {
            Ok(back) => assert!(back.is_some(), "the call fails"),
            Err(status) => break status,
        }
    };
    assert_eq!(failure.code(), ending.code(), "{ending:?}: {failure}");
    memories.all_end().await;
    assert_eq!(client.echo(Bytes::from_static(b"others go on")).await?, "others go on");
    memories.0.client.lock().expect("no panic under it").take();
    Ok(())
}

#[test]
fn memory_of_cancelled_requests_is_dropped() {
    alone(|| with_each(|memories| requests_end(memories, Ending::Cancelled)));
}

#[test]
fn memory_of_requests_with_a_dropped_sink_is_dropped() {
    alone(|| with_each(|memories| requests_end(memories, Ending::Dropped)));
}

#[test]
fn memory_of_late_requests_is_dropped() {
    alone(|| with_each(|memories| requests_end(memories, Ending::Late)));
}

#[test]
fn memory_of_refused_requests_is_dropped() {
    alone(|| with_each(|memories| requests_end(memories, Ending::Refused)));
}

#[test]
fn memory_of_requests_of_a_lost_connection_is_dropped() {
    alone(|| with_each(|memories| requests_end(memories, Ending::Lost)));
}

/// How replies waiting in a server's connection are discarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Leave {
    Cancels,
    Goes,
}

async fn replies_end(memories: Memories, leave: Leave) -> Result<(), Status> {
    let (server, client) = connected(&memories).await?;
    let client = MemoryClient::new(client);
    // The destructor calls back into the server's sink.
    let (_sink, mut replies) = client.hold();
    assert!(timeout(MS, replies.next()).await.is_err(), "nothing comes, and it is held");
    assert!(memories.0.sink.lock().expect("no panic under it").is_some());
    let mut flood = client.flood(60_000);
    flood.next().await?;
    let mut made = 0;
    while made < memories.made() {
        made = memories.made();
        sleep(10 * MS).await;
    }
    match leave {
        Leave::Cancels => drop(flood),
        Leave::Goes => {
            server.lose_connections();
            while flood.next().await.is_ok_and(|message| message.is_some()) {}
        }
    }
    memories.all_end().await;
    assert_eq!(client.echo(Bytes::from_static(b"others go on")).await?, "others go on");
    memories.0.sink.lock().expect("no panic under it").take();
    Ok(())
}

#[test]
fn memory_of_cancelled_replies_is_dropped() {
    alone(|| with_each(|memories| replies_end(memories, Leave::Cancels)));
}

#[test]
fn memory_of_replies_of_a_lost_connection_is_dropped() {
    alone(|| with_each(|memories| replies_end(memories, Leave::Goes)));
}

async fn pass(memories: Memories, client: MemoryClient) -> Result<(), Status> {
    memories.0.client.lock().expect("no panic under it").replace(client.clone());
    for len in [1, 5_000, 100_000] {
        if memories.0.at_end == AtEnd::ComesBack {
            // The memory is dropped with the call, where a panic belongs to the caller.
            assert_eq!(client.echo(memories.message(len)).await?.len(), len);
        }
        assert_eq!(client.get(len as u32).await?.len(), len);
        let (mut sink, mut replies) = client.chat();
        for _ in 0..3 {
            sink.send(memories.message(len)).await?;
        }
        for _ in 0..3 {
            assert_eq!(replies.next().await?.map(|reply| reply.len()), Some(len));
        }
        sink.finish();
        assert_eq!(replies.next().await?, None);
    }
    memories.all_end().await;
    memories.0.client.lock().expect("no panic under it").take();
    Ok(())
}

#[test]
fn memory_of_delivered_messages_is_dropped() {
    async fn passed(memories: Memories) -> Result<(), Status> {
        let (_server, client) = connected(&memories).await?;
        pass(memories, MemoryClient::new(client)).await
    }
    alone(|| with_each(passed));
}

/// TLS copies the bytes and drops the memory at once.
#[test]
fn memory_of_encrypted_messages_is_dropped() {
    alone(|| {
        for at_end in [AtEnd::ComesBack, AtEnd::Panics] {
            let memories = Memories::new(at_end);
            let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])
                .expect("a certificate");
            let tls = ServerTls::from_pem(made.cert.pem(), made.signing_key.serialize_pem());
            let service = memories.clone();
            let server = Server::bind("tls://127.0.0.1:0").expect("a free port").threads(1);
            let server = server.tls(tls.expect("they belong together"));
            let server = server.service(MemoryServer::per_core(move || service.clone()));
            let server = server.start().expect("the server starts");
            let client =
                Client::builder().address(server.addresses()[0].clone()).connections_max(1);
            let trusting = ClientTls::new().roots_pem(made.cert.pem()).expect("a certificate");
            let client = client.tls(trusting.server_name("localhost").expect("a name"));
            let client = MemoryClient::new(client.build().expect("an address"));
            let passed = block_on(async move { timeout(LIMIT, pass(memories, client)).await });
            passed.expect("a core").expect("in time").expect("success");
        }
    });
}
