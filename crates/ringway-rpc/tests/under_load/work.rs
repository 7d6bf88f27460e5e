//! A service whose methods take time in different ways.

use std::cell::RefCell;
use std::future::pending;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringway_rpc::{Sink, Status, Streaming, service};
use ringway_runtime::sleep;
use ringway_runtime::sync::Semaphore;

/// Permits of the resource that [`resource`](WorkService::resource) shares.
pub(crate) const PLACES: u32 = 64;
pub(crate) const HELD: Duration = Duration::from_millis(20);
/// How long handlers sleep and block.
pub(crate) const HOLDUP: Duration = Duration::from_millis(5);

/// While this is set, handlers fail at once.
pub(crate) static FAILS: AtomicBool = AtomicBool::new(false);

/// Messages that [`take`](WorkService::take) has read in all calls.
pub(crate) static TAKEN: AtomicU64 = AtomicU64::new(0);

#[service(package = "load.v1", crate = "ringway_rpc")]
pub(crate) trait WorkService {
    async fn say(&self, request: Bytes) -> Result<Bytes, Status>;
    /// Computes for as many microseconds as the request says.
    async fn compute(&self, request: Bytes) -> Result<Bytes, Status>;
    /// Waits for a resource that all calls share.
    async fn resource(&self, request: Bytes) -> Result<Bytes, Status>;
    async fn sleep(&self, request: Bytes) -> Result<Bytes, Status>;
    #[method(offload)]
    async fn block(&self, request: Bytes) -> Result<Bytes, Status>;
    async fn hang(&self, request: Bytes) -> Result<Bytes, Status>;
    async fn watch(&self, request: Bytes, out: Sink<Bytes>) -> Result<(), Status>;
    async fn chat(&self, parts: Streaming<Bytes>, back: Sink<Bytes>) -> Result<(), Status>;
    /// Replies with copies of the request without end.
    async fn flood(&self, request: Bytes, out: Sink<Bytes>) -> Result<(), Status>;
    /// Reads everything.
    async fn take(&self, parts: Streaming<Bytes>) -> Result<Bytes, Status>;
    /// Reads nothing.
    async fn leave(&self, parts: Streaming<Bytes>) -> Result<Bytes, Status>;
}

pub(crate) use self::{WorkServiceClient as WorkClient, WorkServiceServer as WorkServer};

pub(crate) struct Work;

/// Makes the request of [`compute`](WorkService::compute) for `us` microseconds.
pub(crate) fn micros(us: u32) -> Bytes {
    Bytes::copy_from_slice(&us.to_le_bytes())
}

fn fail() -> Result<(), Status> {
    match FAILS.load(Ordering::Relaxed) {
        true => Err(Status::not_found("as the measurement wants")),
        false => Ok(()),
    }
}

thread_local! {
    static RESOURCE: RefCell<Rc<Semaphore>> = RefCell::new(Rc::new(Semaphore::new(PLACES)));
}

impl WorkService for Work {
    async fn say(&self, request: Bytes) -> Result<Bytes, Status> {
        Ok(request)
    }

    async fn compute(&self, request: Bytes) -> Result<Bytes, Status> {
        fail()?;
        let us = request.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let until = Instant::now() + Duration::from_micros(us.into());
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        Ok(request)
    }

    async fn resource(&self, request: Bytes) -> Result<Bytes, Status> {
        fail()?;
        let resource = RESOURCE.with_borrow(Rc::clone);
        let _place = resource.acquire(1).await.expect("it is open");
        sleep(HELD).await;
        Ok(request)
    }

    async fn sleep(&self, request: Bytes) -> Result<Bytes, Status> {
        sleep(HOLDUP).await;
        Ok(request)
    }

    async fn block(&self, request: Bytes) -> Result<Bytes, Status> {
        // Like a slow disk: nothing wakes it earlier.
        let until = Instant::now() + HOLDUP;
        while Instant::now() < until {
            std::thread::park_timeout(until.saturating_duration_since(Instant::now()));
        }
        Ok(request)
    }

    async fn hang(&self, _: Bytes) -> Result<Bytes, Status> {
        pending().await
    }

    async fn watch(&self, request: Bytes, mut out: Sink<Bytes>) -> Result<(), Status> {
        out.send(request).await?;
        pending().await
    }

    async fn chat(&self, mut parts: Streaming<Bytes>, mut back: Sink<Bytes>) -> Result<(), Status> {
        while let Some(part) = parts.next().await? {
            back.send(part).await?;
        }
        Ok(())
    }

    async fn flood(&self, request: Bytes, mut out: Sink<Bytes>) -> Result<(), Status> {
        loop {
            out.send(request.clone()).await?;
        }
    }

    async fn take(&self, mut parts: Streaming<Bytes>) -> Result<Bytes, Status> {
        while parts.next().await?.is_some() {
            TAKEN.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Bytes::new())
    }

    async fn leave(&self, parts: Streaming<Bytes>) -> Result<Bytes, Status> {
        let _unread = parts;
        pending().await
    }
}
