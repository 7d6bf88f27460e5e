//! The open loop of the rpc suite: calls begin when they are due, whatever the server does, and their
//! latency counts from then, so that a stall of the server delays every call that was due meanwhile
//! (no coordinated omission).

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use ringway_runtime::{spawn, yield_now};

use super::calls::Caller;
use super::dial::dial;
use super::engine::Part;
use super::outcome::CoreOutcome;
use super::score::Score;
use crate::args::RpcMode;
use crate::limits;
use crate::payload::Pattern;

/// When calls are due.
#[derive(Clone, Copy)]
pub(super) struct Due {
    /// Calls a second, on all cores of the client.
    pub(super) rate: u64,
    /// The share of them that has a slow handler.
    pub(super) slow_percent: u32,
}

/// Calls over the connections of `part` in turn, each with `size` bytes.
pub(super) async fn run(
    part: Part,
    pattern: Pattern,
    size: usize,
    mode: RpcMode,
    due: Due,
) -> io::Result<CoreOutcome> {
    let score = Score::new();
    let connected = dial(&part).await?;
    part.wait_for_all(1).await;
    let callers: Vec<_> = connected
        .into_iter()
        .map(|(number, client)| Rc::new(Caller { client, pattern, size, lane: number }))
        .collect();
    let rate = due.rate as f64 * part.share_of_all();
    let interval = Duration::from_secs_f64(1.0 / rate.max(1e-3));
    let pacer = Pacer { callers, mode, interval, slow_percent: due.slow_percent };
    let pacing = spawn(pacer.run(Rc::clone(&score)));
    score.keep(&part, vec![pacing]).await
}

struct Pacer {
    callers: Vec<Rc<Caller>>,
    mode: RpcMode,
    interval: Duration,
    slow_percent: u32,
}

impl Pacer {
    /// Begins calls until the run is over, then waits for those under way. It looks at the clock in every
    /// turn: a timer would be too coarse.
    async fn run(self, score: Rc<Score>) {
        let pending = Rc::new(Cell::new(0));
        let mut due = Instant::now();
        let mut sequence = 0;
        while !score.is_over() {
            let now = Instant::now();
            while due <= now {
                match pending.get() < limits::OPEN_CALLS_MAX {
                    true => self.begin(&score, &pending, sequence, due),
                    // The server is far behind; what it never saw is an error.
                    false => score.give_up(1),
                }
                sequence += 1;
                due += self.interval;
            }
            yield_now().await;
        }
        while pending.get() > 0 {
            yield_now().await;
        }
    }

    fn begin(&self, score: &Rc<Score>, pending: &Rc<Cell<u32>>, sequence: u64, due: Instant) {
        let caller = Rc::clone(&self.callers[sequence as usize % self.callers.len()]);
        let is_slow = sequence % 100 < u64::from(self.slow_percent);
        let (score, pending, mode) = (Rc::clone(score), Rc::clone(pending), self.mode);
        pending.set(pending.get() + 1);
        drop(spawn(async move {
            let expected = caller.pattern.bytes(caller.lane, sequence, caller.size);
            let reply = match is_slow {
                true => caller.client.say_later(bytes::Bytes::from_static(expected)).await,
                false => caller.call(mode, expected).await,
            };
            pending.set(pending.get() - 1);
            match reply {
                Err(status) => score.fail(&status),
                Ok(reply) if score.check(expected, &reply) => {
                    score.add(1);
                    if !is_slow {
                        score.time(due, Instant::now());
                    }
                }
                Ok(_) => {}
            }
        }));
    }
}
