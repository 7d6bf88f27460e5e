//! A service with methods of all kinds, some of which misbehave.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use ringway_net::Address;
use ringway_rpc::{
    Codec, Context, Kind, Method, Methods, Server, ServerHandle, Service, ServiceDescriptor, Sink,
    Status, Streaming,
};
use ringway_runtime::sleep;

/// State that tests inspect.
#[derive(Default, Debug)]
pub(crate) struct Seen {
    /// Handlers that have begun.
    pub begun: AtomicUsize,
    /// Handlers of `Hang` that were dropped.
    pub dropped: AtomicUsize,
    /// Running calls of `Limited`, and their maximum.
    pub running: AtomicUsize,
    pub most: AtomicUsize,
}

/// The service; clones share their state.
#[derive(Clone, Default)]
pub(crate) struct Echo {
    pub seen: Arc<Seen>,
}

static METHODS: [Method; 11] = [
    Method::new("echo.Echo/Say", Kind::Unary).idempotent(),
    Method::new("echo.Echo/Late", Kind::Unary),
    Method::new("echo.Echo/Panic", Kind::Unary),
    Method::new("echo.Echo/PanicLate", Kind::Unary),
    Method::new("echo.Echo/Hang", Kind::Unary),
    Method::new("echo.Echo/Fail", Kind::Unary),
    Method::new("echo.Echo/Limited", Kind::Unary).concurrency(2),
    Method::new("echo.Echo/Collect", Kind::ClientStream),
    Method::new("echo.Echo/Repeat", Kind::ServerStream),
    Method::new("echo.Echo/Chat", Kind::Bidi),
    Method::new("echo.Echo/Soon", Kind::Unary).timeout_ms(10),
];

static DESCRIPTOR: ServiceDescriptor =
    ServiceDescriptor { name: "echo.Echo", methods: &METHODS, file_descriptor_set: None };

/// Starts a server with this service on any port.
pub(crate) fn serve(echo: &Echo, set: impl FnOnce(Server) -> Server) -> ServerHandle {
    let address = "tcp://127.0.0.1:0".parse().expect("an address");
    serve_at(address, echo, set)
}

/// Starts a server with this service at `address`.
pub(crate) fn serve_at(
    address: Address,
    echo: &Echo,
    set: impl FnOnce(Server) -> Server,
) -> ServerHandle {
    let server = Server::bind(address).expect("the address is free").threads(1);
    set(server.service(echo.clone())).start().expect("the server starts")
}

impl Service for Echo {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &DESCRIPTOR
    }

    fn register(&self, methods: &mut Methods) {
        let raw = Codec::raw();
        self.register_unary(methods);
        methods.client_stream(&METHODS[7], raw, raw, collect);
        methods.server_stream(&METHODS[8], raw, raw, repeat);
        methods.bidi(&METHODS[9], raw, raw, chat);
    }
}

impl Echo {
    fn register_unary(&self, methods: &mut Methods) {
        let raw = Codec::raw();
        let seen = Arc::clone(&self.seen);
        methods.unary(&METHODS[0], raw, raw, move |_: Context, request: Bytes| {
            seen.begun.fetch_add(1, Ordering::SeqCst);
            async move { Ok(request) }
        });
        methods.unary(&METHODS[1], raw, raw, late);
        methods.unary(&METHODS[2], raw, raw, async |_: Context, request: Bytes| {
            assert!(request.is_empty(), "as the request wants: {request:?}");
            Ok(request)
        });
        methods.unary(&METHODS[3], raw, raw, async |_: Context, request: Bytes| {
            ringway_runtime::yield_now().await;
            assert!(request.is_empty(), "a panic after having waited");
            Ok(request)
        });
        let seen = Arc::clone(&self.seen);
        methods.unary(&METHODS[4], raw, raw, move |_: Context, request: Bytes| {
            let _counted = CountDrop(Arc::clone(&seen));
            seen.begun.fetch_add(1, Ordering::SeqCst);
            async move {
                let _counted = _counted;
                std::future::pending::<()>().await;
                Ok(request)
            }
        });
        methods.unary(&METHODS[5], raw, raw, async |context: Context, request: Bytes| {
            context.set_trailer("shard", "7")?;
            Err::<Bytes, _>(Status::not_found(String::from_utf8_lossy(&request).into_owned()))
        });
        let seen = Arc::clone(&self.seen);
        methods.unary(&METHODS[6], raw, raw, move |_: Context, request: Bytes| {
            limited(Arc::clone(&seen), request)
        });
        methods.unary(&METHODS[10], raw, raw, async |_: Context, request: Bytes| {
            sleep(millis(&request)).await;
            Ok(request)
        });
    }
}

/// Replies after as many milliseconds as the request says.
async fn late(context: Context, request: Bytes) -> Result<Bytes, Status> {
    sleep(millis(&request)).await;
    assert!(context.method().name().ends_with("/Late"));
    Ok(request)
}

/// Like `late`, and counts how many run at once.
async fn limited(seen: Arc<Seen>, request: Bytes) -> Result<Bytes, Status> {
    let running = seen.running.fetch_add(1, Ordering::SeqCst) + 1;
    seen.most.fetch_max(running, Ordering::SeqCst);
    sleep(millis(&request)).await;
    seen.running.fetch_sub(1, Ordering::SeqCst);
    Ok(request)
}

/// Concatenates all messages.
async fn collect(_: Context, mut all: Streaming<Bytes>) -> Result<Bytes, Status> {
    let mut sum = Vec::new();
    while let Some(message) = all.next().await? {
        sum.extend_from_slice(&message);
    }
    Ok(Bytes::from(sum))
}

/// Replies with as many copies of the request as its first byte says.
async fn repeat(_: Context, request: Bytes, mut out: Sink<Bytes>) -> Result<(), Status> {
    for _ in 0..request.first().copied().unwrap_or(0) {
        out.send(request.clone()).await?;
    }
    Ok(())
}

/// Echoes each message, and fails at a message that says so.
async fn chat(_: Context, mut all: Streaming<Bytes>, mut out: Sink<Bytes>) -> Result<(), Status> {
    while let Some(message) = all.next().await? {
        match &message[..] {
            b"fail" => return Err(Status::aborted("as the message wants")),
            b"cancel" => out.cancel("enough of this"),
            _ => {
                out.send(message).await?;
                continue;
            }
        }
        break;
    }
    Ok(())
}

fn millis(request: &[u8]) -> Duration {
    let text = std::str::from_utf8(request).ok();
    Duration::from_millis(text.and_then(|text| text.parse().ok()).unwrap_or(0))
}

struct CountDrop(Arc<Seen>);

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}
