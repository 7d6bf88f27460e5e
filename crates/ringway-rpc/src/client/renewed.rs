//! Streams of replies that outlive their connections.

use std::fmt;

use ringway_runtime::sleep;

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
        Self { stream: ask(), ask: Box::new(ask), losses: 0 }
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
            match self.stream.next().await {
                Ok(Some(message)) => {
                    self.losses = 0;
                    return Ok(Some(Renewed::Message(message)));
                }
                Ok(None) => return Ok(None),
                Err(status) if status.is_unavailable() => {
                    let losses = self.losses;
                    self.losses = losses.saturating_add(1);
                    if losses > 0 {
                        let delay =
                            limits::RECONNECT_DELAY_FIRST.saturating_mul(1 << losses.min(10));
                        sleep(delay.min(limits::RECONNECT_DELAY_MAX)).await;
                    }
                    self.stream = (self.ask)();
                    if losses == 0 {
                        return Ok(Some(Renewed::Gap(status)));
                    }
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
