//! The same pipes in a plain loop over epoll: level-triggered, one read and one write for an event.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use super::round::Round;
use super::{EventRun, Iterations};
use crate::args::{EventLoad, RunLength};
use crate::bench::server::Usage;
use crate::limits;

/// Runs iterations on this thread: the warm-up, and then the measured interval.
pub(super) fn run(load: EventLoad, length: RunLength) -> io::Result<EventRun> {
    let mut plain = PlainLoop::new(load)?;
    let warm_up = Instant::now();
    let mut is_whole = true;
    while is_whole && warm_up.elapsed() < length.warmup {
        is_whole = plain.iterate()?.is_some();
    }
    let mut iterations = Iterations::begin(Usage::of_this_thread(plain.syscalls));
    while is_whole && iterations.elapsed() < length.measured {
        match plain.iterate()? {
            Some(took) => iterations.add(took, &plain.round),
            None => is_whole = false,
        }
    }
    Ok(iterations.end(load, &plain.round, Usage::of_this_thread(plain.syscalls)))
}

struct PlainLoop {
    round: Round,
    epoll: std::os::fd::OwnedFd,
    /// Receiving and sending end.
    pipes: Vec<(UnixStream, UnixStream)>,
    events: Vec<epoll::Event>,
    syscalls: u64,
}

impl PlainLoop {
    fn new(load: EventLoad) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut pipes = Vec::new();
        for pipe in 0..load.pipes {
            let (receiver, sender) = UnixStream::pair()?;
            receiver.set_nonblocking(true)?;
            sender.set_nonblocking(true)?;
            let data = epoll::EventData::new_u64(pipe.into());
            epoll::add(&epoll, &receiver, data, epoll::EventFlags::IN)?;
            pipes.push((receiver, sender));
        }
        let events = Vec::with_capacity(EVENTS_AT_ONCE);
        Ok(Self { round: Round::new(load), epoll, pipes, events, syscalls: 0 })
    }

    /// Runs one iteration; `None` if a byte is lost.
    fn iterate(&mut self) -> io::Result<Option<Duration>> {
        let begun = Instant::now();
        for (pipe, byte) in self.round.begin() {
            write(&self.pipes, pipe, byte, &mut self.syscalls)?;
        }
        let patience = Timespec::try_from(limits::ITERATION_MAX).expect("a minute");
        while !self.round.is_over() {
            self.events.clear();
            self.syscalls += 1;
            match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&patience)) {
                Ok(0) => return Ok(None),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &self.events {
                let pipe = event.data.u64() as u32;
                self.syscalls += 1;
                let mut bytes = [0; READ_BYTES];
                let count = (&self.pipes[pipe as usize].0).read(&mut bytes)?;
                for &byte in &bytes[..count] {
                    if let Some((next, byte)) = self.round.arrived(pipe, byte) {
                        write(&self.pipes, next, byte, &mut self.syscalls)?;
                    }
                }
            }
        }
        Ok(Some(begun.elapsed()))
    }
}

fn write(
    pipes: &[(UnixStream, UnixStream)],
    pipe: u32,
    byte: u8,
    syscalls: &mut u64,
) -> io::Result<()> {
    *syscalls += 1;
    (&pipes[pipe as usize].1).write_all(&[byte])
}

/// As many as the plain servers take.
const EVENTS_AT_ONCE: usize = 256;
/// Far more than wait in a pipe unless there are few pipes.
const READ_BYTES: usize = 64;
