//! The pipes on a core of the runtime, read by callbacks.

use std::io;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::{Duration, Instant};

use ringway_runtime::io::{Incoming, Next, Stream, StreamLimits};
use ringway_runtime::sync::Notify;
use ringway_runtime::timeout;

use super::round::Round;
use super::{EventRun, Iterations};
use crate::args::{EventLoad, RunLength};
use crate::bench::server::Usage;
use crate::limits;

/// Runs iterations on this core: the warm-up, and then the measured interval.
pub(super) async fn run(load: EventLoad, length: RunLength) -> io::Result<EventRun> {
    let ring = Ring::new(load)?;
    let warm_up = Instant::now();
    let mut is_whole = true;
    while is_whole && warm_up.elapsed() < length.warmup {
        is_whole = ring.iterate().await.is_some();
    }
    let mut iterations = Iterations::begin(Usage::of_this_core());
    while is_whole && iterations.elapsed() < length.measured {
        match ring.iterate().await {
            Some(took) => iterations.add(took, &ring.round),
            None => is_whole = false,
        }
    }
    Ok(iterations.end(load, &ring.round, Usage::of_this_core()))
}

struct Ring {
    round: Round,
    /// The sending end of each pipe.
    senders: Vec<Stream>,
    /// Everything that was written has been read.
    over: Notify,
}

impl Ring {
    /// Makes the pipes. Their receiving ends live as long as the core.
    fn new(load: EventLoad) -> io::Result<Rc<Self>> {
        let bounds = Rc::new(StreamLimits::default());
        let (mut senders, mut receivers) = (Vec::new(), Vec::new());
        for _ in 0..load.pipes {
            let (receiver, sender) = UnixStream::pair()?;
            receivers.push(Stream::adopt(receiver.into(), &bounds)?);
            senders.push(Stream::adopt(sender.into(), &bounds)?);
        }
        let ring = Rc::new(Self { round: Round::new(load), senders, over: Notify::new() });
        for (pipe, receiver) in (0..).zip(receivers) {
            let ring = Rc::clone(&ring);
            receiver.on_incoming(move |_, incoming| ring.on_incoming(pipe, &incoming));
        }
        Ok(ring)
    }

    #[inline]
    fn on_incoming(&self, pipe: u32, incoming: &Incoming) -> Next {
        match incoming {
            Incoming::Data(bytes) => {
                for &byte in bytes.iter() {
                    if let Some((next, byte)) = self.round.arrived(pipe, byte) {
                        self.senders[next as usize].write(&[byte]);
                    }
                }
                if self.round.is_over() {
                    self.over.notify_one();
                }
                Next::Continue
            }
            Incoming::Drained => Next::Continue,
            // What it should have read is missed.
            Incoming::Eof | Incoming::Failed(_) => Next::Close,
        }
    }

    /// Runs one iteration; `None` if a byte is lost.
    async fn iterate(&self) -> Option<Duration> {
        let begun = Instant::now();
        for (pipe, byte) in self.round.begin() {
            self.senders[pipe as usize].write(&[byte]);
        }
        timeout(limits::ITERATION_MAX, self.over.notified()).await.ok()?;
        Some(begun.elapsed())
    }
}
