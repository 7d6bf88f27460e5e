//! Streams of replies that outlive their connections.

use std::fmt;

use std::time::Instant;

use ringway_runtime::{now, sleep_until};

use crate::call::status::Status;
use crate::limits;
use crate::stream::streaming::Streaming;

/// A stream of replies that is asked for again when its connection is lost, until it ends or fails otherwise.
///
/// What the server sent meanwhile is missed. The reader is told by [`Renewed::Gap`], so that it can fetch the
/// state anew. Its methods run on a core.
///
/// ```no_run
/// use ringway_rpc::{JsonRpcClient, Renewed, Status};
///
/// # async fn run() -> Result<(), Status> {
/// let client = JsonRpcClient::connect("ws://127.0.0.1:9000")?;
/// let mut ticks = client.subscribe_again::<_, String>("ticks", ["BTC"]);
/// while let Some(renewed) = ticks.next().await? {
///     match renewed {
///         Renewed::Message(tick) => println!("{tick}"),
///         Renewed::Gap(why) => eprintln!("some ticks were missed: {why}"),
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub struct RenewedStream<R: 'static> {
    ask: Box<dyn FnMut() -> Streaming<R> + Send>,
    stream: Streaming<R>,
    /// How often it was lost since its last message.
    losses: u32,
    /// When it is asked for again. The pause goes on while nobody waits for a message.
    again_at: Option<Instant>,
}

/// What comes of a [`RenewedStream`].
#[derive(Debug)]
pub enum Renewed<R> {
    /// A message.
    Message(R),
    /// The connection was lost for this reason, and messages may be missing here.
    Gap(Status),
}

impl<R> RenewedStream<R> {
    /// Reads the streams that `ask` begins, such as `move || client.count(7)`: the first one now.
    pub fn new(mut ask: impl FnMut() -> Streaming<R> + Send + 'static) -> Self {
        Self { stream: ask(), ask: Box::new(ask), losses: 0, again_at: None }
    }

    /// The next message, or a gap; `None` when the server has ended the stream. One gap is told however often
    /// it takes to connect again: with pauses up to 3 s, for as long as somebody waits.
    ///
    /// Dropping the future loses nothing.
    ///
    /// # Errors
    /// The status of the stream, unless it is UNAVAILABLE.
    pub async fn next(&mut self) -> Result<Option<Renewed<R>>, Status> {
        loop {
            if let Some(at) = self.again_at {
                sleep_until(at).await;
                self.again_at = None;
                self.stream = (self.ask)();
            }
            match self.stream.next().await {
                Ok(Some(message)) => {
                    self.losses = 0;
                    return Ok(Some(Renewed::Message(message)));
                }
                Ok(None) => return Ok(None),
                Err(status) if status.is_unavailable() => {
                    let losses = self.losses;
                    self.losses = losses.saturating_add(1);
                    if losses == 0 {
                        self.stream = (self.ask)();
                        return Ok(Some(Renewed::Gap(status)));
                    }
                    let delay = limits::RECONNECT_DELAY_FIRST.saturating_mul(1 << losses.min(10));
                    self.again_at = Some(now() + delay.min(limits::RECONNECT_DELAY_MAX));
                }
                Err(status) => return Err(status),
            }
        }
    }
}

impl<R> fmt::Debug for RenewedStream<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RenewedStream").field("losses", &self.losses).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use bytes::Bytes;
    use ringway_runtime::sim::SimConfig;
    use ringway_runtime::{Builder, timeout};

    use super::*;
    use crate::call::codec::Codec;
    use crate::stream::pending::PendingStream;

    #[test]
    fn a_reader_who_looks_now_and_then_does_not_put_off_the_next_attempt() {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let ask = move || -> Streaming<Bytes> {
            count.fetch_add(1, Ordering::Relaxed);
            let pending = PendingStream::new();
            let stream = pending.streaming(Codec::raw());
            pending.complete(Err(Status::unavailable("nobody is there")));
            stream
        };
        let work = async move {
            let mut stream = RenewedStream::new(ask);
            let first = stream.next().await.expect("it goes on");
            assert!(matches!(first, Some(Renewed::Gap(_))));
            let look = Duration::from_millis(50);
            for _ in 0..200 {
                timeout(look, stream.next()).await.expect_err("there is nothing to read");
            }
        };
        Builder::simulate(SimConfig::new(1), work).expect("it is never stuck");
        // 10 s with pauses of 0.2, 0.4, 0.8, 1.6 and then 3 s.
        assert!((6..=9).contains(&asked.load(Ordering::Relaxed)), "{asked:?}");
    }
}
