//! The service that the rows call.

use bytes::Bytes;
use ringway_rpc::{Sink, Status, Streaming, service};
use serde::{Deserialize, Serialize};

#[service(package = "cost", crate = "ringway_rpc")]
pub(crate) trait Echo {
    /// Answers with the request.
    async fn say(&self, request: Bytes) -> Result<Bytes, Status>;

    /// Answers each message with itself.
    async fn chat(&self, messages: Streaming<Bytes>, replies: Sink<Bytes>) -> Result<(), Status>;

    /// Greets by JSON.
    async fn greet(&self, request: Greeting) -> Result<Greeted, Status>;
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Greeting {
    pub(crate) name: String,
    pub(crate) age: u32,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Greeted {
    pub(crate) name: String,
    pub(crate) age: u32,
}

pub(crate) struct EchoService;

impl Echo for EchoService {
    async fn say(&self, request: Bytes) -> Result<Bytes, Status> {
        Ok(request)
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

    async fn greet(&self, Greeting { name, age }: Greeting) -> Result<Greeted, Status> {
        Ok(Greeted { name, age })
    }
}
