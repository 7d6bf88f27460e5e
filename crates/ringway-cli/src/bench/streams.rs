//! The client of the stream suite: one stream after the other on each connection, each frame compared.

use std::io;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use ringway_rpc::{Sink, Status, Streaming};
use ringway_runtime::spawn;

use super::dial::dial;
use super::engine::Part;
use super::outcome::CoreOutcome;
use super::score::Score;
use crate::echo_service::{EchoClient, Flood, flood_message};
use crate::payload::Pattern;

/// Streams of `frames` frames of `size` bytes, each echoed, at most `window` of them unanswered. A frame
/// counts when its echo has come; latencies are those of whole streams.
pub(super) async fn echo(
    part: Part,
    pattern: Pattern,
    size: usize,
    frames: u32,
    window: u32,
) -> io::Result<CoreOutcome> {
    let score = Score::new();
    let connected = dial(&part).await?;
    part.wait_for_all(1).await;
    let lane = |(number, client)| {
        let lane = Lane { pattern, number, size, frames: frames.into(), window: window.into() };
        spawn(lane.run(client, Rc::clone(&score)))
    };
    let lanes = connected.into_iter().map(lane).collect();
    score.keep(&part, lanes).await
}

/// One stream from the server on each connection, of messages of `size` bytes.
pub(super) async fn one_way(part: Part, pattern: Pattern, size: usize) -> io::Result<CoreOutcome> {
    let score = Score::new();
    let connected = dial(&part).await?;
    part.wait_for_all(1).await;
    let lane = |(_, client)| spawn(take_flood(client, pattern, size as u32, Rc::clone(&score)));
    let lanes = connected.into_iter().map(lane).collect();
    score.keep(&part, lanes).await
}

struct Lane {
    pattern: Pattern,
    number: u32,
    size: usize,
    frames: u64,
    window: u64,
}

impl Lane {
    async fn run(self, client: EchoClient, score: Rc<Score>) {
        for stream in 0.. {
            if score.is_over() {
                return;
            }
            let begun = Instant::now();
            let (messages, replies) = client.chat();
            if let Err(status) = self.stream(stream, messages, replies, &score).await {
                return score.fail(&status);
            }
            score.time(begun, Instant::now());
        }
    }

    async fn stream(
        &self,
        stream: u64,
        messages: Sink<Bytes>,
        mut replies: Streaming<Bytes>,
        score: &Score,
    ) -> Result<(), Status> {
        let frame = |i| self.pattern.bytes(self.number, stream * self.frames + i, self.size);
        let mut messages = Some(messages);
        for i in 0..self.frames + self.window {
            if let Some(answered) = i.checked_sub(self.window) {
                let reply = replies.next().await?;
                let reply = reply.ok_or_else(|| Status::internal("a stream ended too early"))?;
                if score.check(frame(answered), &reply) {
                    score.add(1);
                }
            }
            if i < self.frames {
                let messages = messages.as_mut().expect("finished after the last frame");
                messages.send(Bytes::from_static(frame(i))).await?;
            }
            if i + 1 == self.frames
                && let Some(messages) = messages.take()
            {
                messages.finish();
            }
        }
        match replies.next().await? {
            None => Ok(()),
            Some(_) => Err(Status::internal("more frames than were sent")),
        }
    }
}

async fn take_flood(client: EchoClient, pattern: Pattern, size: u32, score: Rc<Score>) {
    let mut messages = client.flood(Flood { size, count: None });
    for sequence in 0.. {
        if score.is_over() {
            // Dropping the stream cancels the call.
            return;
        }
        match messages.next().await {
            Ok(Some(message)) => {
                if score.check(&flood_message(pattern, sequence, size), &message) {
                    score.add(1);
                }
            }
            Ok(None) => return score.fail(&Status::internal("the flood ended")),
            Err(status) => return score.fail(&status),
        }
    }
}
