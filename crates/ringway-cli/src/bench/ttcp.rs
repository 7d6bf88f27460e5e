//! The client of the ttcp suite: bulk transfer one way, each message acknowledged before the next is sent.

use std::io;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use ringway_runtime::io::Stream;
use ringway_runtime::spawn;

use super::batches::Pool;
use super::connect::{bounds_of_one, connect_all};
use super::engine::Part;
use super::outcome::CoreOutcome;
use super::score::Score;
use crate::payload::fill_batch;
use crate::report::Errors;
use crate::serve::{ACKNOWLEDGEMENT_BYTES, acknowledgement};

/// Sends messages of `size` bytes on the connections of `part`, one at a time on each. The server compares them, and
/// tells how many were right so far.
pub(super) async fn run(part: Part, size: usize) -> io::Result<CoreOutcome> {
    let score = Score::new();
    let mut errors = Errors::default();
    let address = part.address.as_ref().expect("only calls take a source of servers");
    let bounds = Rc::new(bounds_of_one(size));
    let streams = connect_all(address, part.connections.clone(), &bounds, &mut errors).await;
    part.wait_for_all(1).await;
    let pool = Pool::default();
    let transmit = |(number, stream)| {
        let sender = Transmitter { stream, number, size, pool: pool.clone() };
        spawn(sender.run(Rc::clone(&score)))
    };
    let lanes = streams.into_iter().map(transmit).collect();
    let mut outcome = score.keep(&part, lanes).await?;
    outcome.errors.add(&errors);
    Ok(outcome)
}

/// One connection with one message in flight.
struct Transmitter {
    stream: Stream,
    number: u32,
    size: usize,
    pool: Pool,
}

impl Transmitter {
    async fn run(self, score: Rc<Score>) {
        if let Err(error) = self.transmit(&score).await {
            score.broken(&error);
        }
    }

    /// Transmits until the run is over or the server has found a message wrong.
    async fn transmit(&self, score: &Score) -> io::Result<()> {
        let (mut begun, mut told) = (Instant::now(), Vec::with_capacity(ACKNOWLEDGEMENT_BYTES + 1));
        for sequence in 0.. {
            if score.is_over() {
                return Ok(());
            }
            let mut message = self.pool.take(self.size);
            fill_batch(message.bytes_mut(), self.size, self.number, sequence);
            self.stream.send(Bytes::from_owner(message));
            self.await_answer(&mut told).await?;
            let (now, due) = (Instant::now(), acknowledgement(sequence + 1));
            score.settle(told[..] == due, begun, now, || {
                let number = self.number;
                format!("message {sequence} of connection {number} was acknowledged with {told:?}, not with {due:?}")
            });
            if told[..] != due {
                return Ok(());
            }
            begun = now;
        }
        Ok(())
    }

    async fn await_answer(&self, told: &mut Vec<u8>) -> io::Result<()> {
        told.clear();
        while told.len() < ACKNOWLEDGEMENT_BYTES {
            let view = self.stream.recv().await?.ok_or(io::ErrorKind::UnexpectedEof)?;
            // One more than was awaited is found wrong by the comparison.
            told.extend_from_slice(&view[..view.len().min(ACKNOWLEDGEMENT_BYTES + 1)]);
        }
        Ok(())
    }
}
