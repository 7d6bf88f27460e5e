//! The client of the idle suite: connections that have exchanged a message, and then do nothing.

use std::io;
use std::rc::Rc;
use std::time::Instant;

use ringway_runtime::io::Stream;
use ringway_runtime::{sleep, spawn, timeout};

use super::connect::{bounds_of_one, connect_all};
use super::engine::Part;
use super::outcome::CoreOutcome;
use super::score::Score;
use super::server::Usage;
use crate::limits;
use crate::payload::{Series, Verifier};
use crate::report::Errors;

/// Opens the connections of `part`, has each echo a message of `size` bytes, and leaves them alone for the measured
/// interval. What the server uses is read before the first and after the last of them.
pub(super) async fn run(part: Part, series: Series, size: usize) -> io::Result<CoreOutcome> {
    let warm_up = part.connections.start
        ..part.connections.end.min(part.connections.start + limits::WARM_UP_CONNECTIONS);
    let (score, mut errors) = (Score::new(), Errors::default());
    // What a server needs once is there when its memory is read.
    drop(open(&part, warm_up, series, size, &score, &mut errors).await);
    sleep(part.length.warmup).await;
    part.wait_for_all(1).await;
    part.read_costs_before()?;
    part.wait_for_all(2).await;
    let (before, began) = (Usage::of_this_core(), Instant::now());
    let all = part.connections.clone();
    let streams = open(&part, all, series, size, &score, &mut errors).await;
    let elapsed = began.elapsed();
    part.wait_for_all(3).await;
    sleep(part.length.measured).await;
    let after = Usage::of_this_core();
    part.read_costs_after()?;
    part.wait_for_all(4).await;
    let count = streams.len() as u64;
    let mut outcome = score.outcome_of(count, elapsed, after.since(before, count));
    outcome.errors.add(&errors);
    Ok(outcome)
}

/// Returns the connections whose message came back right.
async fn open(
    part: &Part,
    numbers: std::ops::Range<u32>,
    series: Series,
    size: usize,
    score: &Rc<Score>,
    errors: &mut Errors,
) -> Vec<Stream> {
    let address = part.address.as_ref().expect("only calls take a source of servers");
    let bounds = Rc::new(bounds_of_one(size));
    let streams = connect_all(address, numbers, &bounds, errors).await;
    let exchange = |(number, stream)| {
        let score = Rc::clone(score);
        spawn(async move {
            let echoed = timeout(limits::CONNECT_MAX, echo(&stream, number, series, size)).await;
            match echoed.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(complaint) => {
                    let is_right = complaint.is_none();
                    score.compared(is_right, || complaint.unwrap_or_default());
                    is_right.then_some(stream)
                }
                Err(error) => {
                    score.broken(&error);
                    None
                }
            }
        })
    };
    let exchanges: Vec<_> = streams.into_iter().map(exchange).collect();
    let mut open = Vec::with_capacity(exchanges.len());
    for exchange in exchanges {
        open.extend(exchange.await.ok().flatten());
    }
    open
}

/// Sends a message and compares its echo. Returns what is wrong with it.
async fn echo(
    stream: &Stream,
    number: u32,
    series: Series,
    size: usize,
) -> io::Result<Option<String>> {
    let message = series.message(number, 0, size);
    stream.write(message.header());
    stream.send(message.body());
    let mut verifier = Verifier::new(series);
    verifier.expect(message);
    loop {
        let view = stream.recv().await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        match verifier.feed(&view) {
            Err(mismatch) => return Ok(Some(mismatch.to_string())),
            Ok(progress) if progress.complete => return Ok(None),
            Ok(_) => {}
        }
    }
}
