//! A service with methods of every kind, for calls over HTTP.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use ringway_rpc::{Console, Context, Server, ServerHandle, Sink, Status, Streaming, service};

#[service(package = "web.v1", crate = "ringway_rpc")]
pub(crate) trait Web {
    #[method(no_side_effects)]
    async fn look(&self, context: Context, text: String) -> Result<String, Status>;
    #[method(idempotent)]
    async fn put(&self, text: String) -> Result<String, Status>;
    async fn fail(&self, text: String) -> Result<String, Status>;
    async fn wait(&self, text: String) -> Result<String, Status>;
    async fn count(&self, context: Context, to: u32, out: Sink<u32>) -> Result<(), Status>;
    async fn flood(&self, count: u32, out: Sink<Bytes>) -> Result<(), Status>;
    async fn watch(&self, first: u32, out: Sink<u32>) -> Result<(), Status>;
    async fn add(&self, numbers: Streaming<u32>) -> Result<u64, Status>;
    async fn drop_all(&self, texts: Streaming<String>) -> Result<u64, Status>;
    async fn echo(&self, texts: Streaming<String>, out: Sink<String>) -> Result<(), Status>;
}

/// What handlers report.
#[derive(Default, Clone)]
pub(crate) struct Reports {
    /// Methods begin, wait for room, or are dropped.
    pub(crate) said: Arc<Mutex<Option<Sender<&'static str>>>>,
    pub(crate) sent: Arc<AtomicUsize>,
}

impl Reports {
    fn say(&self, what: &'static str) {
        if let Some(said) = &*self.said.lock().expect("no panic") {
            let _test_has_ended = said.send(what);
        }
    }
}

struct Dropped(Reports);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.say("dropped");
    }
}

impl Web for Reports {
    async fn look(&self, context: Context, text: String) -> Result<String, Status> {
        let odd = |error: ringway_rpc::InvalidMetadata| Status::internal(error.to_string());
        context.set_initial_metadata("seen-bin", [1, 255]).map_err(odd)?;
        context.set_trailer("cost", "7").map_err(odd)?;
        let tenant = context.metadata().get("tenant").unwrap_or("nobody");
        Ok(format!("{tenant} looks at {text}"))
    }

    async fn put(&self, text: String) -> Result<String, Status> {
        self.say("put");
        Ok(text)
    }

    async fn fail(&self, text: String) -> Result<String, Status> {
        match &*text {
            "panic" => panic!("on purpose"),
            text => Err(Status::not_found(format!("there is no {text}")).with_details("42")),
        }
    }

    async fn wait(&self, _: String) -> Result<String, Status> {
        let _dropped = Dropped(self.clone());
        self.say("waits");
        std::future::pending().await
    }

    async fn count(&self, context: Context, to: u32, mut out: Sink<u32>) -> Result<(), Status> {
        let odd = |error: ringway_rpc::InvalidMetadata| Status::internal(error.to_string());
        context.set_initial_metadata("unit", "one").map_err(odd)?;
        context.set_trailer("cost", "7").map_err(odd)?;
        for number in 1..=to.min(100) {
            out.send(number).await?;
        }
        if to > 100 { Err(Status::out_of_range("100 is the most")) } else { Ok(()) }
    }

    async fn flood(&self, count: u32, mut out: Sink<Bytes>) -> Result<(), Status> {
        for _ in 0..count {
            let mut sending = pin!(out.send(Bytes::from(vec![7; 1 << 20])));
            poll_fn(|cx| {
                let polled = sending.as_mut().poll(cx);
                if polled.is_pending() {
                    self.say("waits");
                }
                polled
            })
            .await?;
            self.sent.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn watch(&self, first: u32, mut out: Sink<u32>) -> Result<(), Status> {
        let _dropped = Dropped(self.clone());
        out.send(first).await?;
        std::future::pending().await
    }

    async fn add(&self, mut numbers: Streaming<u32>) -> Result<u64, Status> {
        let mut sum = 0;
        while let Some(number) = numbers.next().await? {
            sum += u64::from(number);
        }
        Ok(sum)
    }

    async fn drop_all(&self, texts: Streaming<String>) -> Result<u64, Status> {
        drop(texts);
        Ok(0)
    }

    async fn echo(
        &self,
        mut texts: Streaming<String>,
        mut out: Sink<String>,
    ) -> Result<(), Status> {
        while let Some(text) = texts.next().await? {
            out.send(text).await?;
        }
        Ok(())
    }
}

pub(crate) fn start(reports: Reports, set: impl FnOnce(Server) -> Server) -> ServerHandle {
    let server = Server::bind("tcp://127.0.0.1:0").expect("an address").threads(1);
    let server = server.service(WebServer::new(reports)).console(Console::local());
    set(server).start().expect("it starts")
}
