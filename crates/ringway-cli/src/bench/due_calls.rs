//! The open loop of the rpc suite: calls of the echo service at their due times, each reply compared.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Instant;

use super::calls::Caller;
use super::dial::dial;
use super::engine::Part;
use super::open_loop::{self, Work};
use super::outcome::CoreOutcome;
use super::score::Score;
use crate::args::RpcMode;
use crate::echo_service::LATER;
use crate::payload::{Composer, Series};

/// The schedule of calls.
#[derive(Clone, Copy)]
pub(super) struct OpenLoad {
    /// Calls per second on all cores of the client.
    pub(super) rate: u64,
    /// The share of calls with a slow handler.
    pub(super) slow_percent: u32,
}

/// Makes calls of `size` bytes over the connections of `part` in turn.
pub(super) async fn run(
    part: Part,
    series: Series,
    size: usize,
    mode: RpcMode,
    load: OpenLoad,
) -> io::Result<CoreOutcome> {
    let score = Score::new();
    let connected = dial(&part, &score).await;
    part.wait_for_all(1).await;
    let composer = Rc::new(RefCell::new(Composer::new(series.pattern())));
    let caller = |(lane, client)| {
        let composer = Rc::clone(&composer);
        Caller { client, series, composer, size, lane }
    };
    let callers: Vec<_> = connected.into_iter().map(caller).collect();
    let echoes = Echoes { callers, mode, slow_percent: load.slow_percent };
    let echoes = (!echoes.callers.is_empty()).then_some(echoes);
    open_loop::run(&part, load.rate, echoes, &score).await
}

struct Echoes {
    /// Connections; at least one.
    callers: Vec<Caller>,
    mode: RpcMode,
    slow_percent: u32,
}

impl Work for Echoes {
    async fn call(&self, sequence: u64, due: Instant, score: &Score) {
        let caller = &self.callers[sequence as usize % self.callers.len()];
        let is_slow = is_slow(sequence, self.slow_percent);
        let message = caller.series.message(caller.lane, sequence, caller.size);
        let reply = match is_slow {
            true => caller.client.say_later(caller.compose(&message)).await,
            false => caller.call(self.mode, &message).await,
        };
        match reply {
            Err(status) => score.fail(&status),
            Ok(reply) if score.check(&message, &reply) => {
                score.add(1);
                if !is_slow {
                    score.time(due, Instant::now());
                }
            }
            Ok(_) => {}
        }
    }

    /// Twice the number of calls with slow handlers that are under way at any moment.
    fn lanes_aside(&self, rate: f64) -> usize {
        (2.0 * rate * f64::from(self.slow_percent) / 100.0 * LATER.as_secs_f64()) as usize
    }
}

/// Whether this call has a slow handler: the given number of each hundred calls, one place earlier in each
/// next hundred, so that no connection has more of them than others.
fn is_slow(sequence: u64, percent: u32) -> bool {
    (sequence + sequence / 100) % 100 < u64::from(percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_calls_are_as_many_as_asked_for_on_every_connection() {
        for (percent, connections) in [(1, 50), (10, 8), (50, 100)] {
            let mut slow = vec![0; connections];
            let calls = 100_000 * connections as u64;
            for sequence in (0..calls).filter(|&sequence| is_slow(sequence, percent)) {
                slow[sequence as usize % connections] += 1;
            }
            let expected = 1000 * percent;
            let is_near = |count: &u32| count.abs_diff(expected) <= expected / 20;
            assert!(slow.iter().all(is_near), "{percent} %: {slow:?}");
        }
    }
}
