//! The life of sockets, at random: opened, accepted, handed over, half-closed, dropped with bytes queued, reset and
//! opened again under the same number, over every driver, on one core and on two.
//!
//! `RINGWAY_SEED` repeats what a run decides, `RINGWAY_STEPS` makes it longer, `RINGWAY_ROUND` runs one of its rounds.

#[path = "../common/mod.rs"]
mod common;

mod callbacks;
mod canary;
mod conduct;
mod datagrams;
mod ends;
mod foreign;
mod ledger;
mod pattern;
mod program;
mod random;
mod watch;

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::{Duration, Instant};

use common::Driver;
use common::left::Held;
use ledger::{Network, World};
use program::Script;
use random::Random;
use ringway_runtime::sim::{Faults, SimConfig};
use ringway_runtime::{Backend, Builder, CoreHandle, Runtime};
use watch::Watch;

#[test]
fn every_byte_arrives_where_it_belongs_whatever_becomes_of_the_sockets() {
    let seed = number("RINGWAY_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
    let steps = number("RINGWAY_STEPS").unwrap_or(STEPS);
    println!("RINGWAY_SEED={seed} RINGWAY_STEPS={steps}");
    if let Some(number) = number("RINGWAY_ROUND") {
        return Round::random(seed, number).run();
    }
    let (mut done, mut told) = (0, Instant::now());
    for number in 0.. {
        if done >= steps {
            return;
        }
        let round = Round::random(seed, number);
        done += round.steps as u64;
        round.run();
        if told.elapsed() > TELL_EVERY {
            eprintln!("socket life, seed {seed}: {done} of {steps} steps, {number} rounds");
            told = Instant::now();
        }
    }
}

/// One runtime from its start to its end.
#[derive(Clone, Copy, Debug)]
struct Round {
    seed: u64,
    number: u64,
    driver: Driver,
    cores: usize,
    steps: usize,
    is_cut_short: bool,
    /// The simulated network resets connections.
    is_faulty: bool,
    bytes_max: usize,
}

impl Round {
    fn random(seed: u64, number: u64) -> Self {
        let mut random = Random::new(seed, number);
        let driver = [Driver::Uring, Driver::Epoll, Driver::Sim][number as usize % 3];
        Self {
            seed: random.next(),
            number,
            driver,
            cores: if driver == Driver::Sim { 1 } else { random.within(1..=2) },
            steps: random.within(10..=120),
            is_cut_short: random.chance(30),
            is_faulty: driver == Driver::Sim && random.chance(30),
            bytes_max: random.pick(&[200, 20_000, 300_000, 3_000_000]),
        }
    }

    fn run(self) {
        let network = match self.driver {
            Driver::Uring | Driver::Epoll => Network::Kernel,
            Driver::Sim if self.is_faulty => Network::Faulty,
            Driver::Sim => Network::Simulated,
        };
        let world = World::new(self.number as u32, network);
        let before = Held::now();
        let watch = Watch::begin(Arc::clone(&world), format!("{self:?}"));
        let ran = self.run_program(&world);
        drop(watch);
        if !self.is_cut_short {
            world.close_the_books();
        }
        let found = match ran {
            Err(error) => Some(error.to_string()),
            Ok(()) => world.fault().or_else(|| before.is_left().err()),
        };
        if let Some(what) = found {
            panic!("RINGWAY_ROUND={} ({self:?}): {what}", self.number);
        }
    }

    fn run_program(self, world: &Arc<World>) -> io::Result<()> {
        let script = Script {
            world: Arc::clone(world),
            seed: self.seed,
            steps: self.steps,
            is_cut_short: self.is_cut_short,
            bytes_max: self.bytes_max,
        };
        let threads = match (self.driver, self.cores) {
            (Driver::Sim, _) => Builder::simulate(self.simulation(), alone(script))?,
            (Driver::Uring, cores) => on_cores(Backend::Uring, cores, script)?,
            (Driver::Epoll, cores) => on_cores(Backend::Epoll, cores, script)?,
        };
        world.has_ended.store(true, SeqCst);
        let failed = |_| io::Error::other("a thread with a plain socket has panicked");
        threads.into_iter().try_for_each(|thread| thread.join().map_err(failed))
    }

    fn simulation(self) -> SimConfig {
        let mut random = Random::new(self.seed, 1);
        let faults = match random.within(0..=2) {
            0 => Faults::none(),
            _ => Faults::harsh(),
        };
        let resets = if self.is_faulty { 200 } else { 0 };
        SimConfig {
            faults: Faults { resets, lossy_resets: 500, ..faults },
            socket_buffer_bytes: random.pick(&[1_000, 8_000, 64 * 1024]),
            ..SimConfig::new(self.seed)
        }
    }
}

async fn alone(script: Script) -> Vec<thread::JoinHandle<()>> {
    program::run(script, vec![CoreHandle::current()]).await
}

fn on_cores(
    backend: Backend,
    cores: usize,
    script: Script,
) -> io::Result<Vec<thread::JoinHandle<()>>> {
    let builder = Runtime::builder().threads(cores).backend(backend);
    if cores == 1 {
        return builder.block_on(alone(script));
    }
    let runtime = builder.start()?;
    let handles = runtime.cores().to_vec();
    let running = runtime.cores()[0].spawn(async move || program::run(script, handles).await);
    let threads = running.map_err(io::Error::other)?.wait().map_err(io::Error::other)?;
    runtime.shutdown()?;
    Ok(threads)
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text}")))
}

/// What a run of the gate does: some seconds over each driver.
const STEPS: u64 = 3_000;
const TELL_EVERY: Duration = Duration::from_secs(5);
