//! The client of the receive suite: packets in one direction, counted by the server after framing.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringway_runtime::io::{Pressure, Stream, StreamLimits};
use ringway_runtime::sync::Semaphore;
use ringway_runtime::{sleep, spawn, timeout};

use super::batches::Pool;
use super::connect::{self, connect_all};
use super::engine::Part;
use super::outcome::CoreOutcome;
use super::server::Usage;
use crate::args::SendMode;
use crate::limits;
use crate::payload::fill_batch;
use crate::report::Errors;
use crate::serve::{TALLY_BYTES, Tally};

/// Sends packets of `size` bytes on the connections of `part` and collects the server's counts.
///
/// The clock runs from the first packet to the last count, so every packet was also framed and
/// checked within that time. A warm-up uses its own connections.
pub(super) async fn send(part: Part, size: usize, mode: SendMode) -> io::Result<CoreOutcome> {
    let warm_up = part.connections.start
        ..part.connections.end.min(part.connections.start + limits::WARM_UP_CONNECTIONS);
    let sender = || Sender::new(size, mode);
    let warmed = round(&part, 1, warm_up, sender(), part.length.warmup).await?;
    let all = part.connections.clone();
    let mut measured = round(&part, 2, all, sender(), part.length.measured).await?;
    measured.verified += warmed.verified;
    measured.errors.add(&warmed.errors);
    measured.complaint = warmed.complaint.or(measured.complaint);
    Ok(measured)
}

async fn round(
    part: &Part,
    number: u32,
    connections: Range<u32>,
    sender: Sender,
    length: Duration,
) -> io::Result<CoreOutcome> {
    let mut errors = Errors::default();
    let sender = Rc::new(sender);
    let address = part.address.as_ref().expect("only calls take a source of servers");
    let streams = connect_all(address, connections, &sender.bounds(), &mut errors).await;
    part.wait_for_all(number).await;
    part.read_costs_before()?;
    let before = Usage::of_this_core();
    let began = Instant::now();
    let tasks: Vec<_> = streams
        .into_iter()
        .map(|(number, stream)| {
            let sender = Rc::clone(&sender);
            spawn(async move { sender.run(stream, number).await })
        })
        .collect();
    sleep(length).await;
    sender.ended.set(true);
    let mut outcome = Collected { errors, ..Collected::default() };
    for task in tasks {
        outcome.add(task.await.unwrap_or_else(|lost| Err(io::Error::other(lost))));
    }
    let (elapsed, after) = (began.elapsed(), Usage::of_this_core());
    part.read_costs_after()?;
    Ok(CoreOutcome {
        operations: outcome.packets,
        begun: 0,
        charged: outcome.packets,
        elapsed,
        timeline: Vec::new(), // packets are counted at the end, by the server
        latencies: None,
        errors: outcome.errors,
        verified: outcome.packets,
        client: after.since(before, outcome.packets),
        complaint: outcome.complaint,
        clock: None,
    })
}

/// State shared by the connections of a core.
struct Sender {
    size: usize,
    mode: SendMode,
    /// Bytes that a connection queues before it waits for the kernel.
    turn_bytes: usize,
    ended: Cell<bool>,
    /// The most connections with queued bytes: together they fit in a second-level cache.
    turns: Semaphore,
    pool: Pool,
}

impl Sender {
    fn new(size: usize, mode: SendMode) -> Self {
        let turn_bytes = match mode {
            SendMode::Batch(packets) => packets as usize * size,
            SendMode::PerPacket => limits::PER_PACKET_TURN_BYTES.max(size),
        };
        Self {
            size,
            mode,
            turn_bytes,
            ended: Cell::new(false),
            turns: Semaphore::new(limits::SENDERS_AT_ONCE),
            pool: Pool::default(),
        }
    }

    fn bounds(&self) -> Rc<StreamLimits> {
        Rc::new(StreamLimits {
            // Too high to be reached; otherwise an unexpected answer would go unseen.
            send_high_water: 2 * self.turn_bytes,
            send_low_water: 0,
            send_queue_max: 4 * self.turn_bytes,
            ..StreamLimits::default()
        })
    }

    /// Sends until the end, then compares its own count with the server's.
    async fn run(&self, stream: Stream, number: u32) -> io::Result<Checked> {
        let mut sent = 0;
        while !self.ended.get() {
            let _turn = self.turns.acquire(1).await.map_err(io::Error::other)?;
            match self.mode {
                SendMode::Batch(_) => self.queue_batch(&stream, number, &mut sent),
                SendMode::PerPacket => self.queue_packets(&stream, number, &mut sent),
            }
            taken(&stream).await?;
        }
        stream.shutdown();
        let tally = timeout(limits::TALLY_MAX, read_tally(&stream))
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        Ok(Checked { number, sent, tally })
    }

    /// Queues one buffer of fresh packets without a copy.
    fn queue_batch(&self, stream: &Stream, number: u32, sent: &mut u64) {
        let mut batch = self.pool.take(self.turn_bytes);
        *sent += fill_batch(batch.bytes_mut(), self.size, number, *sent) as u64;
        stream.send(Bytes::from_owner(batch));
    }

    /// Calls `write` once per packet until a turn's worth is queued.
    fn queue_packets(&self, stream: &Stream, number: u32, sent: &mut u64) {
        let mut fixed = [0; SMALL_PACKET_BYTES];
        let mut large = Vec::new();
        let packet = match self.size {
            size if size <= SMALL_PACKET_BYTES => &mut fixed[..size],
            size => {
                large.resize(size, 0);
                &mut large[..]
            }
        };
        for _ in 0..self.turn_bytes / self.size {
            fill_batch(packet, self.size, number, *sent);
            if stream.write(packet) == Pressure::Closed {
                return;
            }
            *sent += 1;
        }
    }
}

/// Waits until the kernel has taken the queue. A server that answers meanwhile does not only
/// count, and would sooner or later wait for us to read.
async fn taken(stream: &Stream) -> io::Result<()> {
    poll_fn(|cx| match stream.poll_recv(cx) {
        Poll::Ready(Ok(_)) => Poll::Ready(Err(no_tally())),
        Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
        Poll::Pending => stream.poll_drained(cx),
    })
    .await
}

async fn read_tally(stream: &Stream) -> io::Result<Tally> {
    let mut bytes = Vec::with_capacity(TALLY_BYTES);
    while let Some(view) = stream.recv().await? {
        bytes.extend_from_slice(&view[..view.len().min(TALLY_BYTES + 1 - bytes.len())]);
    }
    Tally::from_bytes(&bytes).ok_or_else(no_tally)
}

#[cold]
fn no_tally() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the server sends no tally at the end: use `ringway serve discard --frame`",
    )
}

/// Packets sent on one connection, and the server's count of them.
struct Checked {
    number: u32,
    sent: u64,
    tally: Tally,
}

/// All connections of a core.
#[derive(Default)]
struct Collected {
    packets: u64,
    errors: Errors,
    complaint: Option<String>,
}

impl Collected {
    fn add(&mut self, outcome: io::Result<Checked>) {
        match outcome {
            Ok(Checked { number, sent, tally }) => {
                self.packets += tally.packets;
                self.errors.mismatched += tally.mismatches;
                if tally.packets != sent {
                    self.errors.unanswered += sent.abs_diff(tally.packets);
                    self.complain(format!(
                        "connection {number} sent {sent} packets, the server counted {}",
                        tally.packets
                    ));
                }
            }
            Err(error) => {
                connect::count(&mut self.errors, &error);
                self.complain(error.to_string());
            }
        }
    }

    fn complain(&mut self, text: String) {
        self.complaint.get_or_insert(text);
    }
}

/// Packets up to this size are built on the stack.
const SMALL_PACKET_BYTES: usize = 64;
