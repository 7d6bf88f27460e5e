//! The methods of the examples of JSON-RPC's specification, and some that misbehave.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use ringway_net::Address;
use ringway_rpc::{Context, Pushback, Server, ServerHandle, Sink, Status, Streaming, service};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

#[service(package = "spec.v1", crate = "ringway_rpc")]
pub(crate) trait Math {
    async fn subtract(&self, minuend: i64, subtrahend: i64) -> Result<i64, Status>;
    async fn sum(&self, numbers: Vec<i64>) -> Result<i64, Status>;
    async fn get_data(&self) -> Result<(String, i64), Status>;
    async fn update(&self, values: Vec<i64>) -> Result<(), Status>;
    async fn notify_hello(&self, value: i64) -> Result<(), Status>;
    /// Anything, digit by digit.
    async fn raw(&self, value: Box<RawValue>) -> Result<Box<RawValue>, Status>;
    async fn person(&self, person: Person) -> Result<Person, Status>;
    async fn shout(&self, text: String) -> Result<String, Status>;
    async fn bytes(&self, bytes: Bytes) -> Result<Bytes, Status>;
    async fn later(&self, context: Context, ms: u64) -> Result<u64, Status>;
    async fn never(&self, context: Context, nothing: ()) -> Result<(), Status>;
    async fn fail(&self, text: String) -> Result<(), Status>;
    async fn panic(&self, text: String) -> Result<(), Status>;
    /// The deadline in milliseconds and the trace of the call.
    async fn asked(&self, context: Context, nothing: ()) -> Result<(u64, String), Status>;
    async fn repeat(&self, text: String, times: u64, texts: Sink<String>) -> Result<(), Status>;
    /// The same value for ever, which costs little to write.
    async fn forever(
        &self,
        value: Box<RawValue>,
        values: Sink<Box<RawValue>>,
    ) -> Result<(), Status>;
    async fn collect(&self, texts: Streaming<String>) -> Result<u64, Status>;
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Person {
    name: String,
    #[serde(default)]
    age: u8,
}

/// What tests look at from outside.
#[derive(Default, Debug)]
pub(crate) struct Seen {
    pub(crate) begun: AtomicUsize,
    pub(crate) dropped: AtomicUsize,
    pub(crate) notified: AtomicUsize,
}

#[derive(Clone, Default)]
pub(crate) struct Plain {
    pub(crate) seen: Arc<Seen>,
}

/// Counts a handler that ends.
struct CountDrop(Arc<Seen>);

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

impl Plain {
    fn begin(&self) -> CountDrop {
        self.seen.begun.fetch_add(1, Ordering::SeqCst);
        CountDrop(Arc::clone(&self.seen))
    }
}

impl Math for Plain {
    async fn subtract(&self, minuend: i64, subtrahend: i64) -> Result<i64, Status> {
        Ok(minuend - subtrahend)
    }

    async fn sum(&self, numbers: Vec<i64>) -> Result<i64, Status> {
        Ok(numbers.iter().sum())
    }

    async fn get_data(&self) -> Result<(String, i64), Status> {
        Ok(("hello".into(), 5))
    }

    async fn update(&self, _: Vec<i64>) -> Result<(), Status> {
        self.seen.notified.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    async fn notify_hello(&self, _: i64) -> Result<(), Status> {
        self.seen.notified.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    async fn raw(&self, value: Box<RawValue>) -> Result<Box<RawValue>, Status> {
        Ok(value)
    }

    async fn person(&self, person: Person) -> Result<Person, Status> {
        Ok(person)
    }

    async fn shout(&self, text: String) -> Result<String, Status> {
        Ok(text.to_uppercase())
    }

    async fn bytes(&self, bytes: Bytes) -> Result<Bytes, Status> {
        Ok(bytes)
    }

    async fn later(&self, _: Context, ms: u64) -> Result<u64, Status> {
        let _counted = self.begin();
        ringway_runtime::sleep(Duration::from_millis(ms)).await;
        Ok(ms)
    }

    async fn never(&self, _: Context, (): ()) -> Result<(), Status> {
        let _counted = self.begin();
        std::future::pending().await
    }

    async fn fail(&self, text: String) -> Result<(), Status> {
        Err(match &*text {
            "json" => Status::not_found("no such user").with_details(r#"{"user": 7}"#),
            "bytes" => Status::aborted("again").with_details(&b"\xff\x00"[..]),
            "wait" => Status::unavailable("busy")
                .with_pushback(Pushback::After(Duration::from_millis(250))),
            "code" => Status::not_found("no such block").with_json_rpc_code(-38_012),
            "another code" => Status::aborted("again").with_json_rpc_code(-32_005),
            _ => Status::unknown(text),
        })
    }

    async fn panic(&self, text: String) -> Result<(), Status> {
        panic!("{text}")
    }

    async fn asked(&self, context: Context, (): ()) -> Result<(u64, String), Status> {
        let left = context.remaining().map_or(0, |left| left.as_millis() as u64);
        Ok((left, context.trace().map_or(String::new(), |trace| trace.to_string())))
    }

    async fn repeat(
        &self,
        text: String,
        times: u64,
        mut texts: Sink<String>,
    ) -> Result<(), Status> {
        let _counted = self.begin();
        if text.is_empty() {
            return Err(Status::invalid_argument("there is no text"));
        }
        for _ in 0..times {
            texts.send(text.clone()).await?;
        }
        match &*text {
            "stay" => std::future::pending().await,
            "fail" => Err(Status::data_loss("lost").with_details("[1]")),
            _ => Ok(()),
        }
    }

    async fn forever(
        &self,
        value: Box<RawValue>,
        mut values: Sink<Box<RawValue>>,
    ) -> Result<(), Status> {
        let _counted = self.begin();
        loop {
            values.send(value.clone()).await?;
        }
    }

    async fn collect(&self, _: Streaming<String>) -> Result<u64, Status> {
        Ok(0)
    }
}

/// A server with this service.
pub(crate) fn serve_math(
    address: Address,
    plain: &Plain,
    set: impl FnOnce(Server) -> Server,
) -> ServerHandle {
    let server = Server::bind(address).expect("the address is free").threads(1);
    set(server.service(MathServer::new(plain.clone()))).start().expect("the server starts")
}
