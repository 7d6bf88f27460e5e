//! The echo service of `serve rpc`, which `bench rpc` and `bench stream` call.

use std::time::Duration;

use bytes::Bytes;
use ringway_rpc::{Sink, Status, Streaming, service};
use serde::{Deserialize, Serialize};

use crate::payload::{Pattern, Run};

/// Methods of every kind that return what they receive.
#[service(package = "ringway.bench", crate = "ringway_rpc")]
pub(crate) trait Echo {
    /// Answers with the request.
    #[method(idempotent)]
    async fn say(&self, request: Bytes) -> Result<Bytes, Status>;

    /// Answers with the request after [`LATER`].
    #[method(idempotent)]
    async fn say_later(&self, request: Bytes) -> Result<Bytes, Status>;

    /// Answers with the last message.
    async fn collect(&self, messages: Streaming<Bytes>) -> Result<Bytes, Status>;

    /// Answers with the request, as a stream of one message.
    async fn repeat(&self, request: Bytes, replies: Sink<Bytes>) -> Result<(), Status>;

    /// Answers each message with itself.
    async fn chat(&self, messages: Streaming<Bytes>, replies: Sink<Bytes>) -> Result<(), Status>;

    /// Sends the requested number of messages, unless the call is cancelled before.
    async fn flood(&self, request: Flood, messages: Sink<Bytes>) -> Result<(), Status>;

    /// Greets people at a shell.
    #[method(idempotent)]
    async fn greet(&self, request: Greeting) -> Result<Greeted, Status>;
}

/// The request for a flood of messages.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Flood {
    /// Bytes of each message.
    pub(crate) size: u32,
    /// The number of messages; `None` for no end.
    #[serde(default)]
    pub(crate) count: Option<u64>,
    /// Seed of the messages, combined with their sequence numbers.
    #[serde(default)]
    pub(crate) run: u32,
    #[serde(default)]
    pub(crate) lane: u32,
}

/// The name to greet.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Greeting {
    pub(crate) name: String,
}

/// The answer to a [`Greeting`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Greeted {
    pub(crate) text: String,
}

/// The echo service.
pub(crate) struct EchoService {
    pattern: Pattern,
}

impl EchoService {
    pub(crate) fn new() -> Self {
        Self { pattern: Pattern::new(FLOOD_BYTES_MAX as usize) }
    }
}

impl Echo for EchoService {
    async fn say(&self, request: Bytes) -> Result<Bytes, Status> {
        Ok(request)
    }

    async fn say_later(&self, request: Bytes) -> Result<Bytes, Status> {
        ringway_runtime::sleep(LATER).await;
        Ok(request)
    }

    async fn collect(&self, mut messages: Streaming<Bytes>) -> Result<Bytes, Status> {
        let mut last = Bytes::new();
        while let Some(message) = messages.next().await? {
            last = message;
        }
        Ok(last)
    }

    async fn repeat(&self, request: Bytes, mut replies: Sink<Bytes>) -> Result<(), Status> {
        replies.send(request).await
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

    async fn flood(&self, request: Flood, mut messages: Sink<Bytes>) -> Result<(), Status> {
        let Flood { size, count, run, lane } = request;
        if size > FLOOD_BYTES_MAX {
            let why = format!("size {size} is more than {FLOOD_BYTES_MAX} bytes a message");
            return Err(Status::invalid_argument(why));
        }
        let series = self.pattern.of_run(Run(run));
        for sequence in 0..count.unwrap_or(u64::MAX) {
            let message = series.window(lane, sequence, size as usize);
            messages.send(Bytes::from_static(message.bytes())).await?;
        }
        Ok(())
    }

    async fn greet(&self, request: Greeting) -> Result<Greeted, Status> {
        if request.name.is_empty() {
            return Err(Status::invalid_argument("the name is empty"));
        }
        Ok(Greeted { text: format!("Hello, {}!", request.name) })
    }
}

/// The time that a slow handler takes.
pub(crate) const LATER: Duration = Duration::from_millis(5);

/// Bytes of a flood's message: what fits into one frame.
const FLOOD_BYTES_MAX: u32 = 64 << 10;
