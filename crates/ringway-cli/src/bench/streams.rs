//! The client of the stream suite: one stream after another on each connection, each frame compared.

use std::cell::RefCell;
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
use crate::echo_service::{EchoClient, Flood};
use crate::payload::{Composer, Series};

/// Runs streams of `frames` frames of `size` bytes, each echoed, with at most `window` unanswered. A frame
/// counts when its echo arrives; latencies are those of whole streams.
pub(super) async fn echo(
    part: Part,
    series: Series,
    size: usize,
    frames: u32,
    window: u32,
) -> io::Result<CoreOutcome> {
    let score = Score::new();
    let connected = dial(&part, &score).await;
    part.wait_for_all(1).await;
    let composer = Rc::new(RefCell::new(Composer::new(series.pattern())));
    let lane = |(number, client)| {
        let composer = Rc::clone(&composer);
        let (frames, window) = (frames.into(), window.into());
        let lane = Lane { series, composer, number, size, frames, window };
        spawn(lane.run(client, Rc::clone(&score)))
    };
    let lanes = connected.into_iter().map(lane).collect();
    score.keep(&part, lanes).await
}

/// Receives one stream of messages of `size` bytes from the server on each connection.
pub(super) async fn one_way(part: Part, series: Series, size: usize) -> io::Result<CoreOutcome> {
    let score = Score::new();
    let connected = dial(&part, &score).await;
    part.wait_for_all(1).await;
    let lane =
        |(number, client)| spawn(take_flood(client, series, number, size, Rc::clone(&score)));
    let lanes = connected.into_iter().map(lane).collect();
    score.keep(&part, lanes).await
}

struct Lane {
    series: Series,
    /// The core's.
    composer: Rc<RefCell<Composer>>,
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
            match self.stream(stream, messages, replies, &score).await {
                Ok(true) => score.time(begun, Instant::now()),
                Ok(false) => {}
                Err(status) => return score.fail(&status),
            }
        }
    }

    /// Runs one stream. Returns whether every frame was right.
    async fn stream(
        &self,
        stream: u64,
        messages: Sink<Bytes>,
        mut replies: Streaming<Bytes>,
        score: &Score,
    ) -> Result<bool, Status> {
        let mut is_right = true;
        let frame = |i| self.series.message(self.number, stream * self.frames + i, self.size);
        let mut messages = Some(messages);
        for i in 0..self.frames + self.window {
            if let Some(answered) = i.checked_sub(self.window) {
                let reply = replies.next().await?;
                let reply = reply.ok_or_else(|| Status::internal("a stream ended too early"))?;
                match score.check(&frame(answered), &reply) {
                    true => score.add(1),
                    false => is_right = false,
                }
            }
            if i < self.frames {
                let messages = messages.as_mut().expect("finished after the last frame");
                let frame = self.composer.borrow_mut().compose(&frame(i));
                messages.send(frame).await?;
            }
            if i + 1 == self.frames
                && let Some(messages) = messages.take()
            {
                messages.finish();
            }
        }
        match replies.next().await? {
            None => Ok(is_right),
            Some(_) => Err(Status::internal("more frames than were sent")),
        }
    }
}

async fn take_flood(client: EchoClient, series: Series, lane: u32, size: usize, score: Rc<Score>) {
    let flood = Flood { size: size as u32, count: None, run: series.run().0, lane };
    let mut messages = client.flood(flood);
    for sequence in 0.. {
        if score.is_over() {
            // Dropping the stream cancels the call.
            return;
        }
        match messages.next().await {
            Ok(Some(found)) => {
                if score.check(&series.window(lane, sequence, size), &found) {
                    score.add(1);
                }
            }
            Ok(None) => return score.fail(&Status::internal("the flood ended")),
            Err(status) => return score.fail(&status),
        }
    }
}
