//! The client of the rpc suite: a fixed number of calls in flight on each connection, each reply compared.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use ringway_rpc::Status;
use ringway_runtime::spawn;

use super::dial::dial;
use super::engine::Part;
use super::outcome::CoreOutcome;
use super::score::Score;
use crate::args::RpcMode;
use crate::echo_service::EchoClient;
use crate::payload::{Composer, Message, Series};

/// Makes calls of `size` bytes over the connections of `part`, `depth` at a time on each.
pub(super) async fn run(
    part: Part,
    series: Series,
    size: usize,
    mode: RpcMode,
    depth: u32,
) -> io::Result<CoreOutcome> {
    let score = Score::new();
    let mut lanes = Vec::new();
    let connected = dial(&part, &score).await;
    part.wait_for_all(1).await;
    let composer = Rc::new(RefCell::new(Composer::new(series.pattern())));
    for (number, client) in connected {
        for lane in 0..depth {
            let caller = Caller {
                client: client.clone(),
                series,
                composer: Rc::clone(&composer),
                size,
                lane: number.wrapping_mul(depth).wrapping_add(lane),
            };
            lanes.push(spawn(caller.call_on(Rc::clone(&score), mode)));
        }
    }
    score.keep(&part, lanes).await
}

/// Makes one call at a time.
pub(super) struct Caller {
    pub(super) client: EchoClient,
    pub(super) series: Series,
    /// The state of its core.
    pub(super) composer: Rc<RefCell<Composer>>,
    pub(super) size: usize,
    /// The lane that its payloads name, beside run and sequence.
    pub(super) lane: u32,
}

impl Caller {
    async fn call_on(self, score: Rc<Score>, mode: RpcMode) {
        let mut begun = Instant::now();
        for sequence in 0.. {
            if score.is_over() {
                return;
            }
            let message = self.series.message(self.lane, sequence, self.size);
            match self.call(mode, &message).await {
                Ok(reply) => {
                    let now = Instant::now();
                    if score.check(&message, &reply) {
                        score.add(1);
                        score.time(begun, now);
                    }
                    begun = now;
                }
                // Further calls on a broken connection would only fail in the same way.
                Err(status) => return score.fail(&status),
            }
        }
    }

    /// Returns the bytes of `message` in one piece.
    #[inline]
    pub(super) fn compose(&self, message: &Message) -> Bytes {
        self.composer.borrow_mut().compose(message)
    }

    /// Makes a call, or a stream of one message each way, that returns `message`.
    #[inline]
    pub(super) async fn call(&self, mode: RpcMode, message: &Message) -> Result<Bytes, Status> {
        let payload = self.compose(message);
        match mode {
            RpcMode::Unary => self.client.say(payload).await,
            RpcMode::ClientStream => {
                let (mut messages, reply) = self.client.collect();
                messages.send(payload).await?;
                messages.finish();
                reply.await
            }
            RpcMode::ServerStream => {
                let mut replies = self.client.repeat(payload);
                only(replies.next().await?, replies.next().await?)
            }
            RpcMode::Bidi => {
                let (mut messages, mut replies) = self.client.chat();
                messages.send(payload).await?;
                messages.finish();
                only(replies.next().await?, replies.next().await?)
            }
        }
    }
}

fn only(first: Option<Bytes>, second: Option<Bytes>) -> Result<Bytes, Status> {
    match (first, second) {
        (Some(reply), None) => Ok(reply),
        (first, _) => {
            let count = if first.is_none() { "no message" } else { "more than one message" };
            Err(Status::internal(format!("{count} in answer to one")))
        }
    }
}
